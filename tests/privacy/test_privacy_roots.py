import math
from collections.abc import Callable

import pytest

from airmixml.privacy.gaussian import bracket_root


@pytest.mark.parametrize("root", [1e-6, 0.3, 2.0, 9.999])
@pytest.mark.parametrize(
    "growing",
    [
        lambda x: x,
        lambda x: x**3,
        lambda x: math.log(x + 1e-9),
        math.exp,
        lambda x: math.atan(3.0 * (x - 5.0)),
        lambda x: math.floor(7.3 * x) + 1e-6 * x,  # jumps: no interpolation fits
    ],
)
def test_the_root_lies_between_the_two_places(growing: Callable[[float], float], root: float) -> None:
    calls = 0

    def excess(x: float) -> float:
        nonlocal calls
        calls += 1
        return growing(x) - growing(root)

    low, high = bracket_root(excess, 0.0, 10.0, tolerance=1e-9)
    assert calls < 60
    assert excess(low) < 0.0 < excess(high) or excess(low) == excess(high) == 0.0
    assert high - low <= 1e-9


def test_without_a_change_of_sign_the_nearer_end_is_returned() -> None:
    assert bracket_root(lambda x: x + 1.0, 0.0, 3.0, tolerance=1e-6) == (0.0, 0.0)
    assert bracket_root(lambda x: x - 5.0, 0.0, 3.0, tolerance=1e-6) == (3.0, 3.0)


def test_a_tolerance_below_what_floats_resolve_still_ends() -> None:
    low, high = bracket_root(lambda x: x - 1e9 / 3.0, 1.0, 1e9, tolerance=0.0)
    assert low <= 1e9 / 3.0 <= high
    assert high - low <= 2e-7


@pytest.mark.parametrize(
    ("excess", "low", "high", "most"),
    [
        (lambda x: x**3 - 2.0, 0.0, 4.0, 11),
        (lambda x: math.exp(x) - 5.0, -3.0, 6.0, 12),
        (lambda x: x**9 - 0.1, -1.0, 2.0, 14),
        (lambda x: math.atan(x - 1.3), -5.0, 9.0, 12),
        (lambda x: 3.0 * x - 1.0, 0.0, 2.0, 6),
        (lambda x: math.log(x / 0.3), 1e-6, 50.0, 16),
        (lambda x: math.copysign(1.0, x - math.pi), 0.0, 10.0, 47),  # nothing to interpolate: halving
    ],
)
def test_roots_of_smooth_functions_take_a_third_of_the_calls_that_halving_does(
    excess: Callable[[float], float], low: float, high: float, most: int
) -> None:
    calls = list[float]()

    def counted(x: float) -> float:
        calls.append(x)
        return excess(x)

    first, second = bracket_root(counted, low, high, tolerance=1e-12)
    assert len(calls) <= most
    assert second - first <= 1e-12
    assert len(set(calls)) == len(calls)
    assert low <= min(calls) <= max(calls) <= high


def test_a_relative_tolerance_is_one_of_the_place() -> None:
    calls = list[float]()

    def counted(x: float) -> float:
        calls.append(x)
        return math.log(x / 3e5)

    low, high = bracket_root(counted, 1e-3, 1e9, tolerance=0.0, relative=1e-3)
    assert low < 3e5 < high
    assert high - low <= 1e-3 * high
    assert len(calls) <= 22


def test_ends_that_are_roots_are_returned() -> None:
    assert bracket_root(lambda x: x, 0.0, 3.0, tolerance=1e-6) == (0.0, 0.0)
    assert bracket_root(lambda x: x - 3.0, 0.0, 3.0, tolerance=1e-6) == (3.0, 3.0)
    assert bracket_root(lambda x: x - 1.5, 0.0, 3.0, tolerance=1e-6) == (1.5, 1.5)
