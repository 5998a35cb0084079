"""One system beside its alternatives on the same work, or beside itself at other values of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.compare.methods import METHODS, choose_methods
from airmixml.compare.values import read_values
from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.compare.comparison import Comparison, compare_methods, vary_key

__all__ = ["METHODS", "Comparison", "choose_methods", "compare_methods", "read_values", "vary_key"]

__getattr__ = import_late(__name__, {"airmixml.compare.comparison": ("Comparison", "compare_methods", "vary_key")})
