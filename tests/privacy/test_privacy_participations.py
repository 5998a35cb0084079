from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from airmixml.messages import PrivacyError
from airmixml.privacy import Design, Release, Sensitivity, Server, facts, participation_bound
from airmixml.privacy.design import binomial_quantile, slots_per_round

PLAN = Design(
    workers=1000,
    scheduled=4,
    received_watts=(1.0,),
    counts=(1000,),
    sensitivity=Sensitivity(removal=3.0, replacement=5.0),
    noise_watts=2.0,
)


def exact_tail(trials: int, chance: Fraction, most: int) -> Fraction:
    """P(Binomial > most), without rounding."""
    term = (1 - chance) ** trials
    inside = term
    for drawn in range(most):
        term *= Fraction(trials - drawn, drawn + 1) * chance / (1 - chance)
        inside += term
    return 1 - inside


@pytest.mark.parametrize(
    ("slots", "scheduled", "workers"), [(10, 1, 2), (100, 3, 50), (1000, 8, 2000), (500, 9, 10), (200, 1, 10**7)]
)
def test_the_bound_on_participations_is_the_least_that_a_union_over_the_workers_allows(
    slots: int, scheduled: int, workers: int
) -> None:
    bound = participation_bound(slots, scheduled, workers)
    chance, allowed = Fraction(scheduled, workers), Fraction(1, 10**9) / workers
    assert exact_tail(slots, chance, bound) <= allowed
    assert exact_tail(slots, chance, bound - 1) > allowed


@pytest.mark.parametrize("tail", [1e-3, 1e-17, 1e-30, 1e-200])
def test_quantiles_of_the_binomial_are_right_far_in_the_tail(tail: float) -> None:
    trials, chance = 400, Fraction(1, 8)
    most = binomial_quantile(tail, trials, 0.125)
    assert exact_tail(trials, chance, most) <= Fraction(tail)
    assert exact_tail(trials, chance, most - 1) > Fraction(tail)


@pytest.mark.parametrize(("slots", "workers"), [(1, 1), (77, 5)])
def test_who_is_scheduled_always_takes_part_in_every_slot(slots: int, workers: int) -> None:
    assert participation_bound(slots, workers, workers) == slots


def test_no_worker_of_a_simulated_schedule_exceeds_the_bound_and_some_come_near() -> None:
    """The mean is 4, the bound 25, and the most of 5,000 simulated workers 13 or so."""
    rng = np.random.default_rng(5)
    workers, scheduled, slots = 1000, 4, 1000
    most = 0
    for _ in range(5):
        drawn = np.argpartition(rng.random((slots, workers), dtype=np.float32), scheduled, axis=1)[:, :scheduled]
        most = max(most, int(np.bincount(drawn.ravel(), minlength=workers).max()))
    assert 0.5 * participation_bound(slots, scheduled, workers) < most <= participation_bound(slots, scheduled, workers)


@given(slots=st.integers(1, 10**6), limit=st.integers(1, 10**4))
@settings(max_examples=200, deadline=None)
def test_rounds_are_the_shortest_that_keep_the_limit(slots: int, limit: int) -> None:
    length = slots_per_round(slots, limit)
    rounds = -(-slots // length)
    assert rounds <= limit
    if length > 1:
        assert -(-slots // (length - 1)) > limit


@pytest.mark.parametrize(("limit", "length", "rounds"), [(4, 250, 4), (7, 143, 7), (300, 4, 250), (1000, 1, 1000)])
def test_a_hard_limit_bounds_the_server_and_makes_the_release_see_rounds(limit: int, length: int, rounds: int) -> None:
    """A round of that many slots is a sample of 4 x length in 1000; each squared_shift is watts x move / 1."""
    capped = replace(PLAN, max_participations=limit)
    # A worker is in Binomial(rounds, 4 length / 1000) of them; a loose limit costs nothing.
    likely = rounds if length > 100 else int(stats.binom.isf(1e-12, rounds, 4 * length / 1000))
    assert rounds <= limit
    assert capped.participations == likely
    assert Server().mechanism(capped, "remove-one").total == pytest.approx(3.0 * likely)
    release = Release().mechanism(capped, "replace-one")
    assert release.slots == rounds
    assert release.total == pytest.approx(5.0 * rounds)
    if 4 * length < 1000:
        assert (release.sampling, release.sampling_rate) == ("without-replacement", 4 * length / 1000)
    else:
        assert (release.sampling, release.sampling_rate) == ("none", 1.0)


def test_rounds_of_unequal_slots_count_as_the_strongest_slots() -> None:
    """Two slots of 3 W, four of 2 W, six of 1 W, in four rounds of three: at most 3, 3, 2 and 2 W."""
    unequal = replace(PLAN, received_watts=(1.0, 3.0, 2.0), counts=(6, 2, 4), max_participations=4)
    assert Release().mechanism(unequal, "replace-one").total == pytest.approx(5.0 * (3 + 3 + 2 + 2))
    assert Server().mechanism(unequal, "replace-one").total == pytest.approx(5.0 * (3 + 3 + 2 + 2))


def test_a_limit_that_too_few_workers_can_keep_is_refused_with_the_least_that_they_can() -> None:
    """1000 slots of 4 are 4000 seats, 4 for each of 1000 workers."""
    with pytest.raises(PrivacyError, match="max_participations = 3: must be at least 4 for 1000 slots of 4 among 1000"):
        replace(PLAN, max_participations=3)
    assert replace(PLAN, max_participations=4).participations == 4


def test_a_limit_on_a_poisson_schedule_is_refused() -> None:
    with pytest.raises(PrivacyError, match="needs sampling without-replacement"):
        replace(PLAN, max_participations=10, sampling="poisson")


def test_after_a_run_the_slots_that_were_had_take_the_place_of_the_bound() -> None:
    assert PLAN.participations == participation_bound(1000, 4, 1000)
    after = PLAN.stating(facts.Drawn(received_watts=9.0, participations=9))
    assert (after.participations, after.schedule_failure) == (9, 0.0)
    assert (PLAN.schedule_failure, replace(PLAN, max_participations=5).schedule_failure) == (1e-9, 0.0)
    again = after.with_slots(500)
    assert (again.slots, again.participations) == (500, participation_bound(500, 4, 1000))


def test_a_design_with_other_power_keeps_all_else() -> None:
    unequal = replace(PLAN, received_watts=(1.0, 3.0), counts=(400, 600))
    assert unequal.scaled(2.5).received_watts == (2.5, 7.5)
    assert unequal.scaled(2.5).counts == (400, 600)
    assert (unequal.with_slots(10).received_watts, unequal.with_slots(10).counts) == ((3.0,), (10,))


@pytest.mark.parametrize(("adjacency", "expected"), [("replace-one", 30.0**-0.5), ("remove-one", 18.0**-0.5)])
def test_the_noise_multiplier_is_the_noise_over_the_strongest_move(adjacency: str, expected: float) -> None:
    unequal = replace(PLAN, received_watts=(1.0, 6.0), counts=(400, 600))
    assert unequal.noise_multiplier(adjacency) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scheduled": 0}, "scheduled = 0: must be at least 1"),
        ({"scheduled": 1001}, "at most the 1000 workers"),
        ({"counts": (0,)}, "slots = 0: must be at least 1"),
        ({"noise_watts": 0.0}, "noise_watts = 0: must be finite and above 0"),
        ({"sampling": "none"}, "must be without-replacement or poisson"),
    ],
)
def test_designs_that_cannot_be_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        replace(PLAN, **wrong)  # type: ignore[arg-type]
