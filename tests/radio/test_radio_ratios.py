import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import same_distribution
from scipy import stats

from airmixml.radio.mixing import DirMix, EqualMix, NonMix, draw_ratios
from airmixml.randomness.slot_words import SlotWords, slot_words
from airmixml.scenario import Mixing
from airmixml.streams import Streams


def words(seed: int) -> SlotWords:
    return slot_words(Streams(seed), "ratios")


def uniform_prior(scheduled: int) -> torch.Tensor:
    return torch.full((scheduled,), 1.0 / scheduled, dtype=torch.float64)


def dirichlet_mix(alpha: float, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
    return DirMix().draw(Mixing(alpha=alpha), prior, slots, source)


@given(exponent=st.floats(-12, 15), scheduled=st.integers(1, 130), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_rows_are_shares_for_any_alpha(exponent: float, scheduled: int, seed: int) -> None:
    ratios = dirichlet_mix(10.0**exponent, uniform_prior(scheduled), range(20), words(seed)).numpy()
    assert np.isfinite(ratios).all()
    assert (ratios >= 0).all()
    assert ratios.sum(axis=1) == pytest.approx(np.ones(20), abs=1e-12)


def test_any_run_of_slots_gets_the_same_ratios() -> None:
    """Also where a value had to be drawn a third time: about one in 500, so that many of these 4,000 slots hold one."""
    whole, part = (dirichlet_mix(1.0, uniform_prior(8), slots, words(0)) for slots in (range(5000), range(1000, 5000)))
    assert torch.equal(whole[1000:], part)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 10.0, 1e3])
def test_one_share_follows_the_beta_marginal_and_no_other(alpha: float) -> None:
    """An entry of Dirichlet(alpha p) is Beta(alpha p_i, alpha (1 - p_i)); compared by the ranks of its law."""
    prior = torch.tensor([0.5, 0.2, 0.2, 0.1], dtype=torch.float64)
    ratios = dirichlet_mix(alpha, prior, range(20_000), words(3)).numpy()
    first = float(prior[0])
    inside = stats.beta(alpha * first, alpha * (1 - first))
    # Below and above these the law puts mass on numbers too near to 0 and 1 for float64 ranks.
    seen = ratios[(ratios[:, 0] > 1e-6) & (ratios[:, 0] < 1 - 1e-6), 0]
    low, high = inside.cdf(1e-6), inside.cdf(1 - 1e-6)
    assert len(seen) == pytest.approx(20_000 * (high - low), abs=5 * np.sqrt(20_000) * 0.5 + 1)

    def law(value: np.ndarray) -> np.ndarray:
        return (inside.cdf(value) - low) / (high - low)

    wrong = stats.beta(1.5 * alpha * first, 1.5 * alpha * (1 - first))
    assert same_distribution(seen, law)
    if alpha >= 0.1:
        assert not same_distribution(seen, wrong.cdf)


@pytest.mark.parametrize("alpha", [1e-8, 1e-12])
def test_tiny_alpha_gives_one_worker_all(alpha: float) -> None:
    ratios = dirichlet_mix(alpha, uniform_prior(64), range(5000), words(4)).numpy()
    assert np.array_equal(np.sort(ratios, axis=1)[:, -1], np.ones(5000))
    winners = np.bincount(ratios.argmax(axis=1), minlength=64)
    assert stats.chisquare(winners).pvalue > 1e-4


def test_huge_alpha_gives_equal_shares_with_the_right_spread() -> None:
    """Var q_i = p_i (1 - p_i) / (alpha + 1)."""
    ratios = dirichlet_mix(1e12, uniform_prior(4), range(20_000), words(5)).numpy()
    assert np.abs(ratios - 0.25).max() <= 1e-5
    assert ratios[:, 0].std() == pytest.approx(np.sqrt(0.25 * 0.75 / 1e12), rel=0.03)


def test_a_zero_share_of_the_prior_stays_zero() -> None:
    for alpha in (1e-8, 1.0, 1e8):
        ratios = dirichlet_mix(alpha, torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64), range(100), words(6)).numpy()
        assert (ratios[:, 1] == 0).all()
        assert ratios.sum(axis=1) == pytest.approx(np.ones(100))


def test_limits_follow_the_prior() -> None:
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    single = NonMix().draw(Mixing(), prior, range(30_000), words(7)).numpy()
    assert np.array_equal(np.sort(single, axis=1), np.tile([0.0, 0.0, 1.0], (30_000, 1)))
    assert stats.chisquare(single.sum(axis=0), 30_000 * prior.numpy()).pvalue > 1e-4
    assert np.array_equal(EqualMix().draw(Mixing(), prior, range(2), words(7)), prior.expand(2, 3))


def test_policies_by_name() -> None:
    source = words(8)
    assert draw_ratios(Mixing(policy="nonmix"), 4, range(50), source).amax(dim=1).min() == 1.0
    assert np.array_equal(draw_ratios(Mixing(policy="equalmix"), 4, range(2), source), np.full((2, 4), 0.25))
    given_prior = Mixing(policy="equalmix", prior=(0.75, 0.25))
    assert np.array_equal(draw_ratios(given_prior, 2, range(1), source), [[0.75, 0.25]])
