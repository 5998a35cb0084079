"""How bad each impairment of the air may get, alone, before accuracy falls or a privacy target is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.tolerances.findings import Delivered, Tolerance, Tolerances, Tried
    from airmixml.tolerances.pictures import draw_tolerances
    from airmixml.tolerances.study import find_tolerances

__all__ = [
    "Delivered",
    "Tolerance",
    "Tolerances",
    "Tried",
    "draw_tolerances",
    "find_tolerances",
]

__getattr__ = import_late(
    __name__,
    {
        "airmixml.tolerances.findings": (
            "Delivered",
            "Tolerance",
            "Tolerances",
            "Tried",
        ),
        "airmixml.tolerances.pictures": ("draw_tolerances",),
        "airmixml.tolerances.study": ("find_tolerances",),
    },
)
