"""How strong noise and masks are, and who is left behind them: closed forms of complete graphs, and brute force."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from airmixml import Scenario
from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading import weakest_gain
from airmixml.masks.graph import Honest
from airmixml.masks.rules import majority
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.radio.masking import (
    above_thermal_db_of,
    check_recoverable,
    check_recovered,
    choose_masking,
    enough_absent,
    gain_error_of,
    honest_with,
    informed_with,
    mask_share_of,
    masking_of,
    most_recoverable_share,
    most_withstood,
    rules_of,
    times_the_noise,
    with_masks_settled,
)
from airmixml.radio.mixing import control_power, largest_power_scale

# Thirty workers who all share masks with each other.
THIRTY = Scenario.preset("trustless-digits").with_overrides("workers.count=30", "radio.scheduled=30")


@pytest.mark.parametrize("colluders", [0, 5])
@pytest.mark.parametrize("share", [0.25, 0.6])
def test_noise_and_masks_of_a_complete_graph(colluders: int, share: float) -> None:
    """h honest workers: 1 / (h s^2) has a part 1 - w, the bound (1 + 1 / h) / ((h - 1) e^2) on masks the part w."""
    asked = THIRTY.with_overrides(
        f"privacy.colluders={colluders}", f"privacy.mask_share={share}", "privacy.above_thermal_db=7"
    )
    masking, honest = choose_masking(asked), 30 - colluders
    thermal = dbm_to_watts(asked.radio.noise_dbm)
    assert (masking.honest.count, masking.honest.neighbours) == (honest, honest - 1)
    assert masking.own_watts == pytest.approx(10**0.7 * thermal / 2 / 30, rel=1e-12, abs=0.0)
    of_masks = (1 + 1 / honest) / (honest - 1) / masking.pair_watts
    assert of_masks / (of_masks + 1 / (honest * masking.own_watts)) == pytest.approx(share, rel=1e-9, abs=0.0)
    assert masking.hidden_watts == pytest.approx((1 - share) * honest * masking.own_watts, rel=1e-8, abs=0.0)
    assert masking.added_watts == pytest.approx(masking.own_watts + 29 * masking.pair_watts, rel=1e-12, abs=0.0)
    assert masking.self_watts == 0.0
    assert above_thermal_db_of(asked, masking) == pytest.approx(7.0, rel=1e-12, abs=0.0)


def test_self_masks_hide_a_worker_that_is_called_absent() -> None:
    """What hides it then is its own noise and its self mask: as much as masks hid it with."""
    masking = choose_masking(THIRTY.with_overrides("privacy.most_absent=0.2", "privacy.mask_share=0.5"))
    assert masking.honest.count == 24
    assert masking.own_watts + masking.self_watts == pytest.approx(masking.hidden_watts, rel=1e-8, abs=0.0)
    assert masking.added_watts == pytest.approx(
        masking.own_watts + 29 * masking.pair_watts + masking.self_watts, rel=1e-12
    )


def test_without_a_level_the_power_limit_sets_it() -> None:
    """All that the farthest worker adds is 10 dB below the limit."""
    masking = choose_masking(THIRTY)
    most = dbm_to_watts(THIRTY.radio.max_power_dbm - 10.0) * weakest_gain(THIRTY)
    assert masking.added_watts == pytest.approx(most, rel=1e-9, abs=0.0)
    alone = THIRTY.with_overrides("privacy.noise=workers", "privacy.colluders=0")
    assert choose_masking(alone).added_watts == pytest.approx(most, rel=1e-9, abs=0.0)
    for adversary in ("server", "release"):  # who hear the sum: 20 dB above the receiver's noise are enough
        summed = choose_masking(alone.with_overrides(f'privacy.adversary="{adversary}"'))
        thermal = dbm_to_watts(THIRTY.radio.noise_dbm)
        assert summed.own_watts == pytest.approx(min(100.0 * thermal / 2 / 30, most), rel=1e-9, abs=0.0)
    assert masking_of(Scenario.preset("private-mnist")) is None
    assert choose_masking(alone.with_overrides("privacy.colluders=7")).honest == Honest(count=23)


@pytest.mark.parametrize("masked", [True, False])
def test_settled_masks_are_the_ones_that_were_chosen(masked: bool) -> None:
    asked = THIRTY.with_overrides("air.reciprocity_nmse_db=-25", f"privacy.noise={'masked' if masked else 'workers'}")
    settled = with_masks_settled(asked)
    first, second = choose_masking(asked), choose_masking(settled)
    for name in ("own_watts", "pair_watts", "self_watts", "hidden_watts"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), rel=1e-5, abs=0.0)
    assert settled.privacy.mask_degree == (30 if masked else 0)  # of 29, which is odd
    assert (settled.privacy.mask_share > 0.0) == masked
    assert settled.privacy.above_thermal_db == pytest.approx(above_thermal_db_of(asked, first), abs=1e-6)


def test_a_level_that_rounds_to_zero_is_not_left_to_be_chosen() -> None:
    settled = with_masks_settled(THIRTY.with_overrides("privacy.above_thermal_db=1e-9"))
    assert settled.privacy.above_thermal_db == pytest.approx(1e-6, rel=1e-12, abs=0.0)


def test_the_share_of_masks_that_leaves_least_noise() -> None:
    """r / (1 + r), r = sqrt(N) g, within 0.1 and 0.999; g^2 is half of the squared error."""
    assert times_the_noise(900, 0.2) == pytest.approx(7.0)
    assert mask_share_of(THIRTY) == 0.1
    errors = THIRTY.with_overrides("air.reciprocity_nmse_db=-10")
    r = math.sqrt(30) * gain_error_of(errors)
    assert gain_error_of(errors) == pytest.approx(math.sqrt(0.05), rel=0.15)
    assert mask_share_of(errors) == pytest.approx(r / (1 + r), rel=1e-12, abs=0.0)
    assert mask_share_of(errors.with_overrides("privacy.mask_share=0.3")) == 0.3
    assert mask_share_of(THIRTY.with_overrides("privacy.noise=workers")) == 0.0


def test_absent_workers_are_gains_of_zero() -> None:
    """Of gains 1 with chance 0.9, else 0, variance over squared mean is 1 / 9; recovery leaves none of it."""
    absent = THIRTY.with_overrides("air.absent=0.1")
    assert gain_error_of(absent, absences=True) == pytest.approx(1 / 3, rel=1e-9, abs=0.0)
    assert gain_error_of(absent) == 0.0
    assert gain_error_of(absent.with_overrides("privacy.most_absent=0.4"), absences=True) == 0.0


@pytest.mark.parametrize("colluders", [0, 4])
def test_how_many_may_be_absent(colluders: int) -> None:
    """Of 30, enough to sign: above (30 + C) / 2; and of 29 shares enough to rebuild: above (29 + C) / 2."""
    asked = THIRTY.with_overrides(f"privacy.colluders={colluders}", "privacy.most_absent=0.1")
    most = max(a for a in range(30) if 30 - a >= majority(30, colluders) and 29 - a >= majority(29, colluders))
    assert most_recoverable_share(asked) == math.floor(1e4 * most / 30) / 1e4
    choose_masking(asked.with_overrides(f"privacy.most_absent={most / 30 - 1e-6}"))
    with pytest.raises(PrivacyError, match=f"{most + 1} of the 30 workers"):
        choose_masking(asked.with_overrides(f"privacy.most_absent={(most + 1) / 30 - 1e-6}"))
    assert most_recoverable_share(asked.with_overrides("privacy.noise=workers", "privacy.most_absent=0")) == 0.0


@pytest.mark.parametrize(("chance", "slots"), [(0.05, 1), (0.05, 400), (0.3, 1)])
def test_enough_absent(chance: float, slots: int) -> None:
    """More are absent in some slot once in a million runs, by SciPy's binomial; whole per cents."""
    asked = THIRTY.with_overrides("workers.count=200", "radio.scheduled=200", f"radio.slots={slots}")
    most = next(m for m in range(200) if stats.binom.sf(m, 200, chance) <= 1e-6 / slots)
    assert enough_absent(asked, chance=chance) == math.ceil(most / 2) / 100
    assert enough_absent(asked, least=190, chance=chance) == 0.95
    assert enough_absent(asked, least=3, chance=0.0) == 0.02
    aired = asked.with_overrides(f"air.absent={chance}", "privacy.most_absent=0.4")
    assert enough_absent(aired) == math.ceil(most / 2) / 100


def test_who_is_left_when_more_collude() -> None:
    """A complete graph: all honest workers; with absent ones, colluders beyond the quorum leave own noise alone."""
    honest, note = honest_with(THIRTY, 20)
    assert (honest.count, honest.neighbours, note) == (10, 9, "")
    assert honest_with(THIRTY, 28)[0].neighbours == 1
    for most in (29, 30, 40):  # nobody is left to share masks with
        assert honest_with(THIRTY, most)[0] == Honest(count=1)
    absent = THIRTY.with_overrides("privacy.most_absent=0.2", "privacy.colluders=4")
    honest, note = honest_with(absent, 4)
    assert (honest.count, honest.neighbours, note) == (20, 19, "")
    assert honest_with(absent, 11)[1] == ""  # of a quorum of 21 of 30, 12 must have signed both lists
    honest, note = honest_with(absent, 12)
    assert (honest.count, honest.neighbours) == (12, 0)
    assert "both secrets" in note
    assert (most_withstood(absent), most_withstood(THIRTY)) == (11, 28)
    assert most_withstood(THIRTY.with_overrides("privacy.noise=workers")) is None
    alone = honest_with(THIRTY.with_overrides("privacy.noise=workers"), 7)
    assert (alone[0].count, alone[0].neighbours, alone[1]) == (23, 0, "")


def test_colluders_who_know_the_graph() -> None:
    """Without recovery all neighbours of one worker; in a complete graph there is no graph to know."""
    assert informed_with(THIRTY) is None
    assert informed_with(THIRTY.with_overrides("privacy.noise=workers")) is None
    ring = THIRTY.with_overrides("workers.count=100", "radio.scheduled=100", "privacy.mask_degree=24")
    told = informed_with(ring)
    graph = choose_masking(ring).graph
    assert told is not None
    assert graph is not None
    assert told[0] == min(len(set(others)) for others in graph.neighbours.values())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("workers.count=1", "radio.scheduled=1"), "radio.scheduled = 1: must be at least 2"),
        (("privacy.colluders=29",), "must be at most 28"),
        (
            ("workers.count=99", "radio.scheduled=99", "privacy.mask_degree=8", "privacy.colluders=9"),
            "may cut the graph of masks",
        ),
    ],
)
def test_masks_that_hide_nobody_are_refused(changes: tuple[str, ...], said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        choose_masking(THIRTY.with_overrides(*changes))


def test_as_many_colluders_as_leave_two() -> None:
    masking = choose_masking(THIRTY.with_overrides("privacy.colluders=28"))
    assert (masking.honest.count, masking.honest.neighbours) == (2, 1)


def test_rules_are_of_those_who_share_masks() -> None:
    absent = THIRTY.with_overrides("privacy.most_absent=0.2", "privacy.colluders=4")
    masking = choose_masking(absent)
    rules = rules_of(absent, masking)
    assert rules is not None
    assert (rules.quorum, rules.threshold, rules.most_absent) == (21, 17, 6)
    assert rules.mask_deviation == pytest.approx(math.sqrt(masking.pair_watts))
    assert rules.self_deviation == pytest.approx(math.sqrt(masking.self_watts))
    assert rules_of(THIRTY, choose_masking(THIRTY)) is None


def test_slots_with_too_many_absent_are_refused() -> None:
    """Six of 30 may be absent in every slot; seven in the second one are too many."""
    absent = THIRTY.with_overrides("privacy.most_absent=0.2")
    masking, sending = choose_masking(absent), torch.ones(3, 30, dtype=torch.bool)
    sending[1, :6] = False
    check_recoverable(absent, masking, sending, range(5, 8))
    check_recovered(absent, masking, sending, range(5, 8))
    sending[1, 9] = False
    with pytest.raises(ScenarioError, match="7 of the 30 workers of slot 6 are absent"):
        check_recoverable(absent, masking, sending, range(5, 8))
    check_recoverable(THIRTY, choose_masking(THIRTY), sending, range(5, 8))  # nothing is recovered
    with pytest.raises(ScenarioError, match=r"privacy\.most_absent = 0: 7 of the 30"):
        check_recovered(THIRTY, choose_masking(THIRTY), sending, range(5, 8))
    check_recovered(THIRTY, choose_masking(THIRTY), sending[:1], range(5, 6))


def test_lists_around_one_worker_are_refused() -> None:
    """On a graph of degree 24 a worker whose neighbours are all absent cannot be helped, however few they are."""
    asked = THIRTY.with_overrides(
        "workers.count=400", "radio.scheduled=400", "privacy.mask_degree=64", "privacy.most_absent=0.1"
    )
    masking = choose_masking(asked)
    rules, graph = rules_of(asked, masking), masking.graph
    assert rules is not None
    assert graph is not None
    counts = {seat: len(set(others)) for seat, others in graph.neighbours.items()}
    victim = max(counts, key=lambda seat: counts[seat])
    allowed, gone = rules.most_absent_neighbours, list(dict.fromkeys(graph.neighbours[victim]))
    sending = torch.ones(1, 400, dtype=torch.bool)
    shared = 0
    for neighbour in gone:
        fits = shared + graph.neighbours[victim].count(neighbour) <= allowed
        if not fits:
            break
        shared += graph.neighbours[victim].count(neighbour)
        sending[0, neighbour] = False
    check_recoverable(asked, masking, sending, range(1))
    for neighbour in gone[: rules.most_absent]:
        sending[0, neighbour] = False
    with pytest.raises(ScenarioError, match="neighbours of one worker"):
        check_recoverable(asked, masking, sending, range(1))


# ------------------------------------------------------------------------------------------------------- power


def test_power_of_a_slot_by_hand() -> None:
    """q = 0.5, 0.25, 0.25 behind |h| = 0.1, 0.05, 0.2: P = beta q^2 / |h|^2, and P_max bounds beta."""
    scenario = Scenario.preset("private-mnist").with_overrides("radio.max_power_dbm=30", "radio.scheduled=3")
    ratios = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    magnitude = torch.tensor([[0.1, 0.05, 0.2]], dtype=torch.float64)
    assert largest_power_scale(ratios, magnitude, 1.0).tolist() == pytest.approx([1 / 25])
    asked = control_power(scenario, 0.0025, ratios, magnitude)
    assert asked.power_scale_watts.tolist() == pytest.approx([0.01])  # 0.0025 / 0.5^2
    assert asked.power_watts[0].tolist() == pytest.approx([0.25, 0.25, 0.015625])
    assert asked.limited.tolist() == [False]
    limited = control_power(scenario, 0.04, ratios, magnitude)
    assert limited.power_scale_watts.tolist() == pytest.approx([0.04])
    assert limited.power_watts[0].tolist() == pytest.approx([1.0, 1.0, 0.0625])
    assert limited.limited.tolist() == [True]
    weakest = control_power(scenario, 0.04, ratios, magnitude, weakest=magnitude / 2)
    assert weakest.power_scale_watts.tolist() == pytest.approx([0.01])
    reached = torch.tensor([[False, True, True]])
    without = control_power(scenario, 0.0025, ratios, magnitude, reached)
    assert without.power_watts[0].tolist() == pytest.approx([0.0, 1.0, 0.0625])
    assert without.power_scale_watts.tolist() == pytest.approx([0.04])
    nobody = control_power(scenario, 0.0025, ratios, magnitude, torch.zeros(1, 3, dtype=torch.bool))
    assert nobody.power_watts.tolist() == [[0.0, 0.0, 0.0]]
    assert nobody.power_scale_watts.tolist() == pytest.approx([0.01])  # of perfect channels
    assert nobody.limited.tolist() == [False]


def test_nobody_asks_for_masks_between_two_who_are_absent() -> None:
    """A worker that is absent with all its neighbours: no share of its secret is left, and none is needed."""
    asked = THIRTY.with_overrides("workers.count=400", "radio.scheduled=400", "privacy.most_absent=0.3")
    masking, sending = choose_masking(asked), torch.ones(1, 400, dtype=torch.bool)
    assert masking.graph is not None
    neighbours = masking.graph.neighbours
    assert not masking.graph.complete
    victim = min(neighbours, key=lambda seat: len(set(neighbours[seat])))
    sending[0, [victim, *neighbours[victim]]] = False
    check_recoverable(asked, masking, sending, range(1))
