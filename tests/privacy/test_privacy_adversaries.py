import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.messages import PrivacyError
from airmixml.privacy import (
    Adversary,
    Design,
    Eavesdropper,
    GaussianSlots,
    Release,
    Sensitivity,
    Server,
    certified_epsilon,
    facts,
    gaussian_epsilon,
    state_privacy,
)

# Exponents by hand: removal 6 and replacement 10 times received watts, over half of 4 W.
DESIGN = Design(
    workers=100,
    scheduled=4,
    received_watts=(0.1, 0.4, 0.2),
    counts=(30, 10, 20),
    sensitivity=Sensitivity(removal=6.0, replacement=10.0),
    noise_watts=4.0,
    facts=(facts.Transmitters(weakest_gain=0.01),),
)
NEAR = Eavesdropper(gain=0.02, own_noise_watts=8.0)


def kinds(mechanism: GaussianSlots) -> list[tuple[float, int]]:
    """Return (squared_shift, count) of each kind of slot that occurs, strongest first."""
    pairs = zip(mechanism.squared_shifts, mechanism.counts, strict=True)
    return sorted(((s, count) for s, count in pairs if count), reverse=True)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_the_release_sees_a_hidden_sample_in_every_slot(adjacency: str) -> None:
    """10 x watts / 2, for a removal too: somebody else takes the seat."""
    mechanism = Release().mechanism(DESIGN, adjacency)
    assert kinds(mechanism) == [(pytest.approx(2.0), 10), (pytest.approx(1.0), 20), (pytest.approx(0.5), 30)]
    assert (mechanism.sampling, mechanism.sampled, mechanism.population) == ("without-replacement", 4, 100)
    assert mechanism.adjacency == adjacency


def test_a_removal_that_moves_further_than_a_replacement_counts_as_that_far() -> None:
    sensitivity = Sensitivity(removal=20.0, replacement=10.0)
    removed = Release().mechanism(replace(DESIGN, sensitivity=sensitivity), "remove-one")
    replaced = Release().mechanism(replace(DESIGN, sensitivity=sensitivity), "replace-one")
    assert max(removed.squared_shifts) == pytest.approx(20.0 * 0.4 / 2.0)
    assert max(replaced.squared_shifts) == pytest.approx(10.0 * 0.4 / 2.0)


def test_a_poisson_schedule_leaves_the_seat_of_a_removed_worker_empty() -> None:
    mechanism = Release().mechanism(replace(DESIGN, sampling="poisson"), "remove-one")
    assert (mechanism.sampling, mechanism.sampling_rate) == ("poisson", 0.04)
    assert max(mechanism.squared_shifts) == pytest.approx(6.0 * 0.4 / 2.0)


@pytest.mark.parametrize(("adjacency", "move"), [("replace-one", 10.0), ("remove-one", 6.0)])
def test_the_server_sees_the_strongest_slots_that_one_worker_may_have_had(adjacency: str, move: float) -> None:
    """In three rounds of 20 slots at most three of the strongest, in six rounds of ten at most six."""
    for limit in (3, 6):
        mechanism = Server().mechanism(replace(DESIGN, max_participations=limit), adjacency)
        assert mechanism.sampling == "none"
        assert mechanism.total == pytest.approx(move * limit * 0.4 / 2.0)


def test_the_server_sees_the_worst_worker_s_own_slots_after_a_run() -> None:
    after = DESIGN.stating(facts.Drawn(received_watts=1.3, participations=7))
    assert Server().mechanism(after, "replace-one").total == pytest.approx(10.0 * 1.3 / 2.0)
    assert Server().mechanism(after, "remove-one").total == pytest.approx(6.0 * 1.3 / 2.0)


@pytest.mark.parametrize("colluders", [1, 36, 95])
def test_colluders_raise_the_rate_of_the_others_and_nothing_else(colluders: int) -> None:
    alone, helped = (Release(colluders=k).mechanism(DESIGN, "replace-one") for k in (0, colluders))
    assert helped.sampling_rate == 4 / (100 - colluders)
    assert (helped.squared_shifts, helped.counts) == (alone.squared_shifts, alone.counts)


@pytest.mark.parametrize("colluders", [96, 99])
def test_too_few_others_leave_no_credit_for_sampling(colluders: int) -> None:
    mechanism = Release(colluders=colluders).mechanism(DESIGN, "replace-one")
    assert (mechanism.sampling, mechanism.sampling_rate) == ("none", 1.0)
    assert mechanism.total == pytest.approx(30 * 0.5 + 10 * 2.0 + 20 * 1.0)


@pytest.mark.parametrize("adversary", [Release, lambda colluders: replace(NEAR, colluders=colluders)])
@pytest.mark.parametrize(("colluders", "said"), [(100, "must be fewer than the 100 workers"), (-1, "at least 0")])
def test_as_many_colluders_as_workers_or_fewer_than_none_are_refused(
    adversary: type[Release], colluders: int, said: str
) -> None:
    with pytest.raises(PrivacyError, match=said):
        adversary(colluders=colluders).mechanism(DESIGN, "replace-one")


def test_a_removed_worker_falls_silent_where_all_send_in_every_slot() -> None:
    """Nobody is left to take its seat, so the release learns as much as the server."""
    everybody = replace(DESIGN, workers=4, sensitivity=Sensitivity(removal=20.0, replacement=10.0))
    assert Release().mechanism(everybody, "remove-one").total == pytest.approx(20.0 * (3.0 + 4.0 + 4.0) / 2.0)
    assert Server().mechanism(everybody, "remove-one").total == pytest.approx(20.0 * (3.0 + 4.0 + 4.0) / 2.0)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_an_eavesdropper_misses_no_more_than_the_removed_worker_where_all_send(sampling: str) -> None:
    """One of four is gone and no other takes its seat: 20 x 0.02 x watts / 0.01 over half of 8 W, not four times that.

    By hand: what it hears of the other three, with any phases, is the same in both worlds; only the removed worker's
    signal of squared norm 20 is missing. With a fifth worker another may sit there, with the opposite phase.
    """
    moves = Sensitivity(removal=20.0, replacement=10.0)
    everybody = replace(DESIGN, workers=4, sensitivity=moves, sampling=sampling)
    missing = 20.0 * 0.02 * (30 * 0.1 + 10 * 0.4 + 20 * 0.2) / 0.01 / 4.0
    assert NEAR.mechanism(everybody, "remove-one").total == pytest.approx(missing)
    assert NEAR.mechanism(everybody, "replace-one").total == pytest.approx(missing / 2.0)
    colluding = replace(NEAR, colluders=2).mechanism(everybody, "remove-one")
    assert colluding.total == pytest.approx(missing)
    one_more = replace(everybody, workers=5)
    assert max(NEAR.mechanism(one_more, "remove-one").squared_shifts) == pytest.approx(4 * 20 * 0.02 * 40 / 4)
    phases = np.exp(2j * np.pi * np.random.default_rng(0).random((1000, 4)))
    heard = np.sqrt(20.0) * phases  # four signals along one direction
    apart = np.abs(heard.sum(axis=1) - heard[:, 1:].sum(axis=1)) ** 2
    assert apart == pytest.approx(20.0)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_colluders_tell_the_server_nothing_that_it_does_not_know(adjacency: str) -> None:
    assert Server(colluders=50).mechanism(DESIGN, adjacency) == Server().mechanism(DESIGN, adjacency)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_power_that_tells_the_schedule_leaves_the_release_no_credit(adjacency: str) -> None:
    told = DESIGN.stating(facts.PowerTells())
    mechanism = Release().mechanism(told, adjacency)
    assert mechanism.sampling == "none"
    assert mechanism.total == Server().mechanism(DESIGN, adjacency).total
    epsilon = certified_epsilon("pld", mechanism, 1e-3)
    assert epsilon == pytest.approx(gaussian_epsilon(math.sqrt(mechanism.total), 1e-3), rel=1e-6)
    assert epsilon > certified_epsilon("pld", Release().mechanism(DESIGN, adjacency), 1e-3)


def test_after_a_run_a_removed_worker_s_seats_may_go_to_louder_ones() -> None:
    """A replaced sample stays where it was, so what was drawn counts; a removal reckons with any worker."""
    after = DESIGN.stating(facts.Drawn(received_watts=0.01, sent_watts=1.0, participations=1))
    for adversary in (Release(), NEAR):
        removed, before = (adversary.views(design, "remove-one")[1] for design in (after, DESIGN))
        assert removed == before
        kept = adversary.views(after, "replace-one")[1]
        assert kept.total < removed.total
        assert (kept.given, removed.given) == ("the schedule that was drawn", "a random schedule")


def test_ratios_that_tell_ranks_leave_no_credit_only_to_those_with_colluders() -> None:
    ranked = DESIGN.stating(facts.RanksTell())
    assert Release().mechanism(ranked, "replace-one") == Release().mechanism(DESIGN, "replace-one")
    assert Release(colluders=1).mechanism(ranked, "replace-one").sampling == "none"
    assert replace(NEAR, colluders=1).mechanism(ranked, "replace-one").sampling == "none"


def test_the_eavesdropper_hears_what_is_sent_and_with_phases_of_its_own() -> None:
    """Sent 10, 40 and 20 W; heard with gain 0.02; 4 x 6 over half of 8 W: 24 x 0.02 x 40 / 4 = 4.8."""
    mechanism = NEAR.mechanism(DESIGN, "replace-one")
    assert kinds(mechanism) == [(pytest.approx(4.8), 10), (pytest.approx(2.4), 20), (pytest.approx(1.2), 30)]
    assert (mechanism.sampling, mechanism.sampling_rate) == ("without-replacement", 0.04)
    assert replace(NEAR, colluders=50).mechanism(DESIGN, "replace-one").sampling_rate == 0.08


def test_four_antennas_are_four_times_the_gain_and_the_exponent() -> None:
    one, four = (replace(NEAR, gain=gain).mechanism(DESIGN, "remove-one") for gain in (0.02, 0.08))
    assert four.squared_shifts == pytest.approx([4.0 * value for value in one.squared_shifts], rel=1e-14)


def test_twice_the_noise_of_its_own_is_half_the_squared_shift_and_the_server_s_noise_is_nothing_to_it() -> None:
    noisy = replace(NEAR, own_noise_watts=16.0).mechanism(DESIGN, "replace-one")
    assert noisy.squared_shifts == pytest.approx(
        [0.5 * v for v in NEAR.mechanism(DESIGN, "replace-one").squared_shifts]
    )
    assert NEAR.mechanism(replace(DESIGN, noise_watts=1.0), "replace-one") == NEAR.mechanism(DESIGN, "replace-one")


def test_nobody_sends_more_than_the_power_limit() -> None:
    limited = DESIGN.stating(facts.Transmitters(weakest_gain=0.01, limit_watts=15.0))
    assert limited.sent_watts == (10.0, 15.0, 15.0)
    assert max(NEAR.mechanism(limited, "replace-one").squared_shifts) == pytest.approx(24.0 * 0.02 * 15.0 / 4.0)


def test_without_a_weakest_channel_only_the_power_limit_bounds_what_is_sent() -> None:
    floorless = DESIGN.stating(facts.Transmitters(limit_watts=15.0))
    assert floorless.sent_watts == (15.0, 15.0, 15.0)
    with pytest.raises(PrivacyError, match=r"squared shifts up to inf: must be finite"):
        NEAR.mechanism(replace(DESIGN, facts=()), "replace-one")


def test_an_eavesdropper_that_hears_without_bound_cannot_be_certified_against() -> None:
    with pytest.raises(PrivacyError, match="fading puts no bound"):
        replace(NEAR, gain=None).mechanism(DESIGN, "replace-one")


def test_after_a_run_a_told_schedule_leaves_the_eavesdropper_the_worst_worker_s_sent_power() -> None:
    told = DESIGN.stating(facts.PowerTells(), facts.Drawn(received_watts=0.4, sent_watts=50.0, participations=3))
    assert NEAR.mechanism(told, "remove-one").total == pytest.approx(6.0 * 0.02 * 50.0 / 4.0)
    assert NEAR.mechanism(told, "replace-one").total == pytest.approx(10.0 * 0.02 * 50.0 / 4.0)


def heard_beside_a_worker(phase: float, squared_shift: float) -> tuple[np.ndarray, np.ndarray, float]:
    """One of two workers sends 1 or, its neighbour, 0; the other holds 1 and is heard with another phase."""
    reach = 8.0 / math.sqrt(squared_shift)
    points = np.linspace(-1.0 - reach, 1.0 + reach, 40_001)
    normal = {
        centre: np.exp(-squared_shift * (points - centre) ** 2 / 2.0) * math.sqrt(squared_shift / (2.0 * math.pi))
        for centre in (0.0, 1.0, phase)
    }
    return (normal[1.0] + normal[phase]) / 2.0, (normal[0.0] + normal[phase]) / 2.0, float(points[1] - points[0])


@pytest.mark.parametrize("phase", [-1.0, 1.0])
@pytest.mark.parametrize("squared_shift", [0.5, 4.0, 16.0])
def test_what_the_eavesdropper_is_certified_to_learn_covers_opposite_phases(phase: float, squared_shift: float) -> None:
    delta = 1e-3
    design = Design(
        workers=2,
        scheduled=1,
        received_watts=(squared_shift,),
        counts=(1,),
        sensitivity=Sensitivity(removal=1.0, replacement=1.0),
        noise_watts=2.0,
        facts=(facts.Transmitters(weakest_gain=1.0),),
    )
    mechanism = Eavesdropper(gain=1.0, own_noise_watts=2.0).mechanism(design, "replace-one")
    epsilon = certified_epsilon("pld", mechanism, delta)
    first, second, cell = heard_beside_a_worker(phase, squared_shift)
    assert np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * cell <= delta
    assert np.maximum(second - math.exp(epsilon) * first, 0.0).sum() * cell <= delta


@given(
    squared_shifts=st.lists(st.floats(0, 100), min_size=1, max_size=6),
    counts=st.lists(st.integers(0, 5), min_size=6, max_size=6),
    asked=st.integers(0, 40),
)
@settings(max_examples=100, deadline=None)
def test_the_worst_slots_are_the_largest_in_a_plain_list(
    squared_shifts: list[float], counts: list[int], asked: int
) -> None:
    mechanism = GaussianSlots(
        squared_shifts=tuple(squared_shifts), counts=tuple(counts[: len(squared_shifts)]), adjacency="replace-one"
    )
    listed = sorted((s for s, n in zip(squared_shifts, counts, strict=False) for _ in range(n)), reverse=True)
    assert mechanism.strongest(asked).total == pytest.approx(math.fsum(listed[:asked]), rel=1e-12, abs=1e-12)
    kept = mechanism.strongest(asked)
    assert sorted((s for s, n in kinds(kept) for _ in range(n)), reverse=True) == listed[:asked]


ADVERSARIES: list[Adversary] = [Release(), Release(colluders=7), Server(), NEAR]


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda adversary: f"{adversary.name}-{adversary.colluders}")
@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_a_statement_says_what_its_epsilon_was_made_with(adversary: Adversary, adjacency: str) -> None:
    statement = state_privacy(DESIGN, adversary, "pld", adjacency=adjacency, delta=1e-3, target_epsilon=5.0)
    mechanism = adversary.mechanism(DESIGN, adjacency)
    watts = max(DESIGN.received_watts if adversary.name != "eavesdropper" else (0.02 * v for v in DESIGN.sent_watts))
    if mechanism.sampling != "none":
        strongest = statement.sensitivity * watts / (statement.noise_watts_per_symbol / 2.0)
        assert max(mechanism.squared_shifts) == pytest.approx(strongest, rel=1e-12)
    assert statement.epsilon == certified_epsilon("pld", mechanism, 1e-3)
    assert (statement.adversary, statement.colluders, statement.adjacency) == (
        adversary.name,
        adversary.colluders,
        adjacency,
    )
    assert statement.sampling_rate == (1.0 if adversary.name == "server" else 4 / (100 - adversary.colluders))
    assert statement.compositions == (DESIGN.participations if adversary.name == "server" else 60)
    assert statement.schedule_failure == (1e-9 if adversary.name == "server" else 0.0)
    assert statement.to_dict()["target_epsilon"] == 5.0


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda adversary: f"{adversary.name}-{adversary.colluders}")
def test_who_hears_nothing_learns_nothing(adversary: Adversary) -> None:
    statement = state_privacy(DESIGN.scaled(0.0), adversary, "pld", adjacency="replace-one", delta=1e-3)
    assert (statement.epsilon, statement.adversary) == (0.0, adversary.name)
