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
