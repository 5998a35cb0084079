"""One system beside its alternatives on the same work, or beside itself at other values of one key."""

from airmixml.study.compare.comparison import Comparison, compare_methods, vary_key
from airmixml.study.compare.methods import METHODS, choose_methods
from airmixml.study.compare.values import read_values

__all__ = ["METHODS", "Comparison", "choose_methods", "compare_methods", "read_values", "vary_key"]
