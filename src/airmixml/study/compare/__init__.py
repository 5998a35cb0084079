"""One system beside its alternatives on the same work, or beside itself at other values of one key."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airmixml.study.compare.methods import METHODS, choose_methods
from airmixml.study.compare.values import read_values

if TYPE_CHECKING:
    from airmixml.study.compare.comparison import Comparison, compare_methods, vary_key

__all__ = ["METHODS", "Comparison", "choose_methods", "compare_methods", "read_values", "vary_key"]

# Imported at first use: what was asked for is checked without torch.
_LATE = ("Comparison", "compare_methods", "vary_key")


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module("airmixml.study.compare.comparison"), name)
    raise AttributeError(f"module 'airmixml.study.compare' has no attribute {name!r}")
