"""How bad each impairment of the air may get, alone, before accuracy falls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.tolerances.tolerance_search import Tolerances, Tried, find_tolerances

__all__ = ["Tolerances", "Tried", "find_tolerances"]

__getattr__ = import_late(__name__)
