"""Digital sums: vectors of integers with Skellam noise and uniform masks, added up modulo a power of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.integers.encoding import IntegerCode
    from airmixml.integers.integer_noise import IntegerNoise

__all__ = ["IntegerCode", "IntegerNoise"]

# Late, so that a worker rounds without SciPy.
__getattr__ = import_late(__name__)
