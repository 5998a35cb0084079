"""Errors of a device stay with a worker for a run: their draws, what they cost in rounds, and the claim that holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from seats_for_tests import aired, gains_of, setting_of

from airmixml import Scenario
from airmixml.impairments.gain_bound import gains_in_rounds
from airmixml.impairments.gain_errors import AmplitudeError, ReciprocityError
from airmixml.impairments.gain_laws import GaussianError, SumBound, UniformError
from airmixml.messages import ScenarioError
from airmixml.privacy import facts
from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.radio.draws import SlotTensors, draw_slots
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import System
from airmixml.randomness.slot_words import standard_normals, uniforms
from airmixml.streams import Secret

WORKERS, ROUNDS = 60_000, 20
LOW_COST = Scenario.preset("private-mnist-rounds").on_air("low-cost").with_overrides("privacy.epsilon=1")
NEW = 'air.renewed_errors=["amplitude_error_db", "reciprocity_nmse_db"]'
ERRORS = ("air.amplitude_error_db=2", "air.reciprocity_nmse_db=-15", "air.frequency_offset_hz=3000")


def constant_gains(seed: int) -> np.ndarray:
    """abs(g)^2 of every worker on ``low-cost``, by NumPy: 2 dB either way, and 1 + r with r of -15 dB; workers."""
    rng = np.random.default_rng(seed)
    across = rng.standard_normal((2, WORKERS)) * math.sqrt(10**-1.5 / 2.0)
    return ((1.0 + across[0]) ** 2 + across[1] ** 2) * 10.0 ** (rng.uniform(-2.0, 2.0, WORKERS) / 10.0)


def test_no_worker_whose_errors_stay_exceeds_the_bound_on_its_rounds_nor_epsilon() -> None:
    """60,000 workers, 20 rounds. By the bound of errors that are new in every slot 8 % exceed it, and 3 % epsilon 1."""
    gains, system = constant_gains(1), System.of(LOW_COST, 1025, 10)
    bounds = {}
    for renewed in (False, True):
        scenario = LOW_COST.with_overrides(*((NEW,) if renewed else ()))
        design = System.of(scenario, 1025, 10).design(private_received_watts(scenario, system.sensitivity))
        bounds[renewed] = design.fact(facts.ImperfectAir).in_rounds[-1]
        # mu^2 of a worker, all slots with its own gain in the place of the bounds of both kinds.
        in_slot, in_round = (
            watts / bound
            for watts, bound in zip(design.received_watts, design.fact(facts.ImperfectAir).of_kinds(2), strict=True)
        )
        watts = gains.max() * (in_slot + ROUNDS * in_round)
        mu = math.sqrt(design.squared_shift(watts, design.sensitivity.removal))
        assert (gaussian_epsilon(mu, scenario.privacy.delta) <= 1.0) is not renewed
    assert gains.max() <= bounds[False] < 10**0.1 * gains.max()
    assert (gains > bounds[True]).mean() == pytest.approx(0.08, abs=0.005)


def gains_of_workers(drawn: SlotTensors) -> dict[int, set[complex]]:
    """The gains in the first piece that each worker has in all its slots, but for the rounding of products."""
    found: dict[int, set[complex]] = {}
    gains = np.round(gains_of(drawn)[:, :, 0].ravel().astype(np.complex128), 5)
    for worker, gain in zip(drawn.scheduled_workers.flatten().tolist(), gains, strict=True):
        found.setdefault(worker, set()).add(complex(gain))
    return found


@pytest.mark.parametrize("secret", [None, Secret()])
def test_a_worker_has_the_same_gain_in_every_slot_and_round_whatever_its_seat(secret: Secret | None) -> None:
    scenario = aired(*ERRORS)
    setting = replace(setting_of(scenario), secret=secret)
    whole = draw_slots(setting, range(64))
    gains = gains_of_workers(whole)
    assert len(gains) == 200
    assert all(len(each) == 1 for each in gains.values())
    assert len(set.union(*gains.values())) == 200  # each worker its own
    part = draw_slots(setting, range(3, 5))
    assert np.array_equal(gains_of(part), gains_of(whole)[3:5])
    in_rounds = gains_of_workers(draw_slots(replace(setting, in_rounds=True), range(65, 85)))
    assert all(gains[worker] == each for worker, each in in_rounds.items())


def test_what_is_renewed_differs_from_slot_to_slot() -> None:
    scenario = aired(*ERRORS, 'air.renewed_errors=["reciprocity_nmse_db"]')
    gains = gains_of_workers(draw_slots(setting_of(scenario), range(64)))
    assert min(map(len, gains.values())) > 5


def test_workers_errors_are_independent_and_have_the_law_of_the_air() -> None:
    scenario = aired("air.amplitude_error_db=2", "workers.count=20000", "radio.scheduled=20000", "radio.slots=1")
    setting = setting_of(scenario, np.full(20_000, 100.0))
    decibels = 20.0 * np.log10(np.abs(gains_of(draw_slots(setting, range(1)))[0, :, 0]))
    assert stats.kstest(decibels, stats.uniform(loc=-2.0, scale=4.0).cdf).pvalue > 1e-4
    assert abs(np.corrcoef(decibels[1:], decibels[:-1])[0, 1]) < 5.0 / math.sqrt(20_000)


@dataclass(frozen=True)
class Ends:
    """Words that are all alike: the numbers nearest 0 and 1, and the largest normal values."""

    word: int

    def uniforms(self, _name: str, each: int = 1) -> torch.Tensor:
        return uniforms(torch.full((1, 3, each), self.word, dtype=torch.int64))

    def complex_normals(self, _name: str, each: int = 1) -> torch.Tensor:
        words = torch.full((1, 3, each), self.word, dtype=torch.int64)
        return torch.complex(*standard_normals(words, out=torch.empty((1, 3, 2 * each))).chunk(2, dim=2))


@pytest.mark.parametrize("word", [0, -1, 1 << 63 - 1, -(1 << 63), (1 << 24) - 1, 1 << 24])
def test_errors_are_finite_and_within_their_law_at_the_ends_of_their_words(word: int) -> None:
    draws = Ends(word)
    amplitude = AmplitudeError(2.0, stays=True).gains(draws)
    assert (amplitude.log10().abs() <= 0.1 + 1e-12).all()
    reciprocity = ReciprocityError.of(aired("air.reciprocity_nmse_db=-15")).gains(draws)
    assert torch.isfinite(reciprocity.abs()).all()
    assert (reciprocity.abs() < 1.0 + 7.6 * 10**-0.75).all()


def test_laws_say_what_stays_and_one_that_says_nothing_does() -> None:
    assert UniformError(1.0).stays
    assert GaussianError(1.0, 0.1).stays
    few = ("workers.count=300", "radio.scheduled=300", "air.reciprocity_nmse_db=-15", "learner.rounds=3")
    scenario = Scenario.preset("private-mnist-rounds").with_overrides(*few)
    for stays in (True, False):  # what is relative to a channel that is renewed cannot stay: the largest counts
        with pytest.MonkeyPatch.context() as patched:
            law = GaussianError(1.0, 0.01, over_fading=True, drawn="block", stays=stays)
            patched.setattr(ReciprocityError, "law", lambda _self, _frame, law=law: law)
            found = gains_in_rounds(scenario, 100.0 + stays, 1.0, 500)
        assert (found is None) is stays


@settings(max_examples=50, deadline=None)
@given(
    chances=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8),
    common=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6),
    slots=st.integers(1, 20),
    failure=st.floats(1e-9, 0.3),
)
def test_sums_with_a_factor_in_common_are_rarely_above_their_bound(
    chances: list[float], common: list[float], slots: int, failure: float
) -> None:
    """Draws of 0, 1, 2 ... and a factor of 1, 3, 5 ...: the law of the product is exact, by convolution."""
    law, factors = np.array(chances) / sum(chances), 1.0 + 2.0 * np.arange(len(common))
    shares = np.array(common) / sum(common)

    def above(each: np.ndarray) -> np.ndarray:
        return np.maximum(1.0 - np.cumsum(each), 0.0) * (np.arange(len(each)) < len(each) - 1)

    alone = SumBound.of(np.arange(len(law)) * 1.0, above(law), slots, 1.0 / failure)
    assert alone is not None
    found = alone.behind(factors, above(shares))
    assert found is not None
    of_sum = np.ones(1)
    for _ in range(slots):
        of_sum = np.convolve(of_sum, law)
    sums, total = np.arange(len(of_sum)), found.total(slots)
    exceeded = sum(
        share * of_sum[sums * factor > total * (1 + 1e-9)].sum() for share, factor in zip(shares, factors, strict=True)
    )
    assert exceeded <= failure + 1e-12
    assert alone.total(slots) * (1 - 1e-9) <= total <= factors[-1] * alone.total(slots) * (1 + 1e-9)
    one = alone.behind(np.array([3.0]), np.zeros(1))
    assert one is not None
    assert one.total(slots) == pytest.approx(3.0 * alone.total(slots), rel=1e-9)


def test_an_error_that_no_device_has_is_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match=r"air.renewed_errors\[0\] = .*phase_noise_hz.*must be one of"):
        aired('air.renewed_errors=["phase_noise_hz"]')
