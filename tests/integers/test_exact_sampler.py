"""Numbers drawn by integer arithmetic: tables against many digits, draws against the distribution."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare
from scipy.stats import skellam as scipy_skellam

from airmixml.integers.encoding import SkellamTable, draw_skellam, skellam_table
from airmixml.messages import PrivacyError
from airmixml.streams import Secret, Streams


@pytest.mark.parametrize("variance", [1e-3, 0.8, 300.0])
def test_thresholds_have_128_right_bits(variance: float) -> None:
    table = skellam_table(variance)
    with mpmath.workdps(70):
        exact = {
            t: mpmath.exp(-mpmath.mpf(variance)) * mpmath.besseli(t, variance) for t in range(-table.smallest + 40)
        }
        below = sum(exact[t] for t in exact if t > -table.smallest)
        for value in range(table.smallest, table.smallest + len(table.high)):
            below += exact[abs(value)]
            place = value - table.smallest
            threshold = (int(table.high[place]) << 64) + int(table.low[place])
            assert abs(threshold - below * 2**128) <= 4
    assert (len(table.high) + 4) * 2.0**-128 < 1e-30


@pytest.mark.parametrize("variance", [0.3, 7.0, 900.0])
def test_draws_have_the_right_distribution(variance: float) -> None:
    drawn = draw_skellam(variance, np.random.default_rng(1), (200_000,))
    reach = int(2.5 * variance**0.5) + 1
    values = np.arange(-reach, reach + 1)
    seen = np.array([(drawn == value).sum() for value in values] + [(np.abs(drawn) > reach).sum()])

    def fit(of_variance: float) -> float:
        chance = scipy_skellam.pmf(values, of_variance / 2, of_variance / 2)
        expected = len(drawn) * np.append(chance, 1.0 - chance.sum())
        return float(chisquare(seen, expected).pvalue)

    assert fit(variance) > 1e-4
    assert fit(1.1 * variance) < 1e-9


def test_words_that_tie_with_a_threshold_are_decided_by_more_bits() -> None:
    """Thresholds 5, 5 and 9 in their high words: the low words 10 and 20 decide where the high word is 5."""
    table = SkellamTable(-1, np.array([5, 5, 9], dtype=np.uint64), np.array([10, 20, 0], dtype=np.uint64))

    class Given:
        def __init__(self, *words: list[int]) -> None:
            self.words = [np.array(each, dtype=np.uint64) for each in words]

        def integers(self, *_: object, **__: object) -> np.ndarray:
            word = self.words.pop(0)
            return word if word.ndim and len(word) > 1 else word[0]

    given = Given([4, 5, 5, 5, 6, 9], [9], [10], [25], [0])
    assert table.draw(given, (6,)).tolist() == [-1, -1, 0, 1, 1, 2]  # type: ignore[arg-type]


def test_a_large_variance_is_drawn_in_parts() -> None:
    drawn = draw_skellam(3e8, np.random.default_rng(2), (4000,))
    assert drawn.var() == pytest.approx(3e8, rel=5 * (2 / 4000) ** 0.5)
    with pytest.raises(PrivacyError, match="variance = 1e\\+20"):
        draw_skellam(1e20, np.random.default_rng(2), (1,))


def test_seeds_repeat_and_secrets_do_not() -> None:
    one, same = (draw_skellam(50.0, Streams(3).generator("noise"), (100,)) for _ in range(2))
    assert (one == same).all()
    hidden = [draw_skellam(50.0, Streams(3, Secret()).generator("noise"), (100,)) for _ in range(2)]
    assert (hidden[0] != hidden[1]).any()
    assert (hidden[0] != one).any()
