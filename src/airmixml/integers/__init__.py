"""Digital sums: vectors of integers with Skellam noise and uniform masks, added up modulo a power of two."""

from airmixml.integers.integer_noise import IntegerNoise
from airmixml.integers.rounding import IntegerCode

__all__ = ["IntegerCode", "IntegerNoise"]
