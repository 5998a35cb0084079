"""One system beside its alternatives on the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.compare.methods import Method, Outcome, RightRows, Work, choose_methods, load_methods
from airmixml.registries import METHODS
from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.compare.comparison import Comparison, Row
    from airmixml.compare.run_methods import compare_methods

__all__ = [
    "METHODS",
    "Comparison",
    "Method",
    "Outcome",
    "RightRows",
    "Row",
    "Work",
    "choose_methods",
    "compare_methods",
    "load_methods",
]

__getattr__ = import_late(__name__)
