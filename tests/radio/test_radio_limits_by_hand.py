"""What is exactly at a limit, what nothing was said of, and the numbers that refusals advise: worked out by hand."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import ndtri

from airmixml import Scenario, simulate
from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading import weakest_gain
from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.masks.graph import Honest, who_is_left
from airmixml.masks.rules import fewest_who_know, is_recoverable, majority
from airmixml.messages import PluginError, PrivacyError, ScenarioError
from airmixml.privacy import Design, Sensitivity
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots
from airmixml.radio.masking import (
    Masking,
    check_recoverable,
    check_recovered,
    choose_masking,
    enough_absent,
    gain_error_of,
    informed_with,
    mask_share_of,
    most_recoverable_share,
    rules_of,
)
from airmixml.radio.mixing import (
    EqualMix,
    LargestPower,
    NonMix,
    PrivatePower,
    Ratios,
    check_added_power,
    check_lowest_power,
    control_power,
)
from airmixml.radio.privacy_target import (
    centring_target,
    check_privacy_target,
    check_target_met,
    plan_row_privacy,
    private_received_watts,
    row_statement,
    slots_target,
)
from airmixml.radio.slot_totals import DecibelHistogram
from airmixml.radio.system import sensitivity_of
from airmixml.radio.tally import AirReport, rehearse
from airmixml.radio.workers_noise import IntegerSums, fact_of, fit_sums
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Secret, Streams

DIGITS = Scenario.preset("trustless-digits")
INTEGERS = DIGITS.with_overrides('privacy.arithmetic="integers"')
THIRTY = DIGITS.with_overrides("workers.count=30", "radio.scheduled=30")
MNIST = Scenario.preset("private-mnist")


def of(count: int, *changes: str) -> Scenario:
    return DIGITS.with_overrides(f"workers.count={count}", f"radio.scheduled={count}", *changes)


# ------------------------------------------------------------------------------------------------------- masks


def test_noise_of_which_nothing_was_said() -> None:
    """A watt of one's own and nothing else, of which a part in 1e9 is left to rounding; 8 bits are 255 levels."""
    alone = Masking(graph=None, honest=Honest(count=5))
    assert (alone.own_watts, alone.pair_watts, alone.self_watts, alone.added_watts) == (1.0, 0.0, 0.0, 1.0)
    assert 1.0 - alone.hidden_watts == pytest.approx(1e-9, rel=1e-6, abs=0.0)
    assert alone.rounded_watts(0) == 0.0
    assert alone.rounded_watts(8) == pytest.approx((6.0 / 127) ** 2 / 12.0, rel=1e-2, abs=0.0)
    assert replace(alone, own_watts=3.0).rounded_watts(8) == pytest.approx(3.0 * alone.rounded_watts(8), rel=1e-12)


@pytest.mark.parametrize("adversary", ["server", "release"])
def test_masks_are_as_strong_as_the_power_limit_lets_them_be(adversary: str) -> None:
    """Who hears the sum alone changes nothing where masks hide the rest."""
    masking = choose_masking(THIRTY.with_overrides(f'privacy.adversary="{adversary}"'))
    most = dbm_to_watts(THIRTY.radio.max_power_dbm - 10.0) * weakest_gain(THIRTY)
    assert masking.added_watts == pytest.approx(most, rel=1e-9, abs=0.0)


def test_masks_of_a_protected_run_hide_as_much_as_planned() -> None:
    asked = of(400, "privacy.mask_degree=64", "privacy.above_thermal_db=7", "privacy.colluders=20")
    planned, drawn = choose_masking(asked), choose_masking(asked, Secret())
    assert planned.graph is not None
    assert drawn.graph is not None
    assert not np.array_equal(planned.graph.successors, drawn.graph.successors)
    assert drawn.own_watts == planned.own_watts
    assert drawn.hidden_watts == pytest.approx(planned.hidden_watts, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("colluders", [0, 3])
def test_who_knows_the_graph_of_a_round_that_recovers(colluders: int) -> None:
    """The fewest who hold enough shares, of lists that half-way from a majority to 380 sign."""
    asked = of(400, "privacy.mask_degree=64", "privacy.most_absent=0.05", f"privacy.colluders={colluders}")
    graph, rules, told = choose_masking(asked).graph, rules_of(asked, choose_masking(asked)), informed_with(asked)
    assert graph is not None
    assert rules is not None
    assert told is not None
    assert rules.quorum == (majority(400, colluders) + 380) // 2
    assert told[0] == fewest_who_know(graph, rules.quorum, rules.threshold)
    assert "both secrets" in told[1]


def test_the_share_of_masks_where_some_are_absent() -> None:
    """Of gains 1 with chance 0.9 else 0, r = sqrt(30) / 3; recovery leaves none; and 0.999 at most."""
    absent, r = THIRTY.with_overrides("air.absent=0.1"), math.sqrt(30.0) / 3.0
    assert mask_share_of(absent) == pytest.approx(r / (1.0 + r), rel=1e-9)
    assert mask_share_of(absent.with_overrides("privacy.most_absent=0.4")) == 0.1
    assert mask_share_of(of(10_000_000, "air.absent=0.2")) == 0.999
    both = absent.with_overrides("air.reciprocity_nmse_db=-10")
    alone = gain_error_of(both) ** 2  # of those who send
    assert gain_error_of(both, absences=True) ** 2 == pytest.approx((alone + 0.1) / 0.9, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (("privacy.mask_degree=4", "privacy.colluders=9"), "9 colluding or absent workers may cut"),
        (("privacy.mask_degree=48", "privacy.colluders=6", "privacy.most_absent=0.05"), "11 colluding or absent"),
        (("privacy.mask_degree=2",), "chance may cut"),
        (("privacy.colluders=99",), "so many leave fewer than two of the 100 workers .* must be at most 98,"),
    ],
)
def test_graphs_of_masks_that_may_be_cut(changes: tuple[str, ...], refusal: str) -> None:
    """The degree that is advised is even, and not cut; nor is the one that is chosen."""
    asked = of(100, *changes)
    with pytest.raises(PrivacyError, match=refusal) as raised:
        choose_masking(asked)
    for degree in re.findall(r"at least (\d+), or 0, which takes (\d+)", str(raised.value)):
        advised, chosen = map(int, degree)
        assert advised % 2 == 0
        assert not choose_masking(asked.with_overrides(f"privacy.mask_degree={advised}")).honest.is_cut
        free = choose_masking(asked.with_overrides("privacy.mask_degree=0")).graph
        assert free is not None
        assert free.degree == chosen


def test_as_many_may_be_absent_as_leave_a_graph_of_that_degree_whole() -> None:
    """Fewer than leave enough shares: the graph is cut before."""
    asked = of(100, "privacy.mask_degree=64", "privacy.colluders=6", "privacy.most_absent=0.01")
    graph = choose_masking(asked).graph
    assert graph is not None
    whole, rebuilt = (
        max(a for a in range(50) if works(a))
        for works in (
            lambda a: not who_is_left(graph, 6, a).is_cut,
            lambda a: is_recoverable(100, graph.degree, 6, a),
        )
    )
    assert whole < rebuilt
    assert most_recoverable_share(asked) == whole / 100


def test_two_workers_hide_each_other() -> None:
    assert choose_masking(of(2)).honest == Honest(count=2, neighbours=1, gap=2.0)


@pytest.mark.parametrize("beyond", ["the list", "the shares"])
def test_how_many_a_refusal_allows_to_be_absent(beyond: str) -> None:
    """As many whole per cents of the seats as hold those who are absent, or a neighbourhood as absent as the worst."""
    asked = of(400, "privacy.mask_degree=64", "privacy.most_absent=0.1")
    masking, sending = choose_masking(asked), torch.ones(1, 400, dtype=torch.bool)
    rules = rules_of(asked, masking)
    assert masking.graph is not None
    assert rules is not None
    neighbours = masking.graph.neighbours
    seat = max(neighbours, key=lambda seat: len(set(neighbours[seat])))
    gone = set(
        sorted(set(neighbours[seat]), key=neighbours[seat].count)[
            : 38 if beyond == "the shares" else rules.most_absent_neighbours + 1
        ]
    )
    sending[0, list(gone)] = False
    lost = max(
        sum(other in gone for other in others)
        for seat, others in neighbours.items()
        if seat not in gone or any(other not in gone for other in others)
    )
    assert len(gone) <= lost < 50
    assert (lost > 64 - rules.threshold) == (beyond == "the shares")
    with pytest.raises(ScenarioError, match=f"must be at least {math.ceil(lost / 64 * 100) / 100:g}, or raise"):
        check_recoverable(asked, masking, sending, range(1))
    twelve = THIRTY.with_overrides("privacy.most_absent=0.2")
    sending = torch.ones(2, 30, dtype=torch.bool)
    sending[1, :13] = False
    with pytest.raises(ScenarioError, match=r"13 of the 30 workers of slot 4 are absent, so .* at least 0\.44, or"):
        check_recoverable(twelve, choose_masking(twelve), sending, range(3, 5))
    with pytest.raises(ScenarioError, match=r"= 0: 13 of the 30 .* must be at least 0\.44$"):
        check_recovered(THIRTY, choose_masking(THIRTY), sending, range(3, 5))


def test_more_absent_than_chance_calls_for_are_enough() -> None:
    """0 unless told otherwise, and what chance adds is the chance of the air."""
    assert enough_absent(THIRTY) == 0.0
    assert enough_absent(THIRTY, 3) == 0.1
    assert enough_absent(THIRTY, 30) == 1.0


# ------------------------------------------------------------------------------------------------------ mixing


class Given(Ratios):
    """Shares as they are given."""

    about = "as given"

    def __init__(self, shares: list[float]) -> None:
        self.given = shares

    def shares(self, chances: Any) -> Any:
        return np.tile(self.given, (len(chances), 1))


@pytest.mark.parametrize(
    ("shares", "allowed"),
    [
        ([0.0, 1.0], True),
        ([0.5, 0.5 + 0.9e-9], True),
        ([0.5, 0.5 - 0.9e-9], True),
        ([0.5, 0.5 + 1.05e-9], False),
        ([-1e-12, 1.0], False),
    ],
)
def test_shares_add_up_to_one(shares: list[float], allowed: bool) -> None:
    """Within 1e-9, and none is below 0."""
    source, prior = slot_words(Streams(0), "ratios"), torch.full((2,), 0.5, dtype=torch.float64)
    if allowed:
        assert Given(shares).draw(DIGITS.mixing, prior, range(3), source).tolist() == [shares] * 3
    else:
        with pytest.raises(PluginError, match="be at least 0 and sum to 1"):
            Given(shares).draw(DIGITS.mixing, prior, range(3), source)


def test_one_has_all_or_each_its_prior() -> None:
    """Of priors 1, 2 and 5 one worker has all in an eighth, a quarter and five eighths of 20,000 slots; 5 errors."""
    source, prior = slot_words(Streams(0), "ratios"), torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    drawn = NonMix().draw(DIGITS.mixing, prior, range(20_000), source)
    assert set(map(tuple, drawn.tolist())) == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}
    assert drawn.mean(dim=0).tolist() == pytest.approx([0.125, 0.25, 0.625], abs=5 * 0.5 / math.sqrt(20_000))
    assert EqualMix().draw(DIGITS.mixing, prior, range(2), source).tolist() == [[1.0, 2.0, 5.0]] * 2


def test_power_exactly_at_its_limit() -> None:
    """A watt of each of three, who may send a watt: the limit binds nobody. A worker without a share reaches nobody."""
    asked = MNIST.with_overrides("radio.max_power_dbm=30", "radio.scheduled=3")
    ratios = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    power = control_power(asked, 0.25, ratios, ratios)
    assert power.power_scale_watts.tolist() == [1.0]
    assert power.limited.tolist() == [False]
    assert control_power(asked, 0.25 * (1 + 1e-9), ratios, ratios).limited.tolist() == [True]
    ratios = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    reached = torch.tensor([[False, True, True]])
    nobody = control_power(asked, 0.25, ratios, ratios + 0.5, reached)
    assert nobody.power_scale_watts.tolist() == [0.25]
    assert nobody.power_watts.tolist() == [[0.0, 0.0, 0.0]]
    assert LargestPower().received_watts(asked, lambda: 3.0) == 0.0  # all that is allowed is not planned


@pytest.mark.parametrize(
    ("returned", "told"),
    [(2.0, "2.0"), (torch.ones(2), r"a tensor of shape \(2,\)"), (torch.ones(1, 1), r"a tensor of shape \(1, 1\)")],
)
def test_a_policy_that_returns_no_beta_of_each_slot(monkeypatch: Any, returned: object, told: str) -> None:
    asked = MNIST.with_overrides("radio.max_power_dbm=30", "radio.scheduled=3")
    ratios = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    for each, said in ((returned, told), (torch.tensor(0.5), ""), (torch.tensor([0.5]), "")):
        monkeypatch.setattr(PrivatePower, "power_scale", lambda *_, each=each: each)
        if said:
            with pytest.raises(PluginError, match=f"its power_scale returns {said}; .* one beta for each slot, 1"):
                control_power(asked, 0.25, ratios, ratios)
        else:
            assert control_power(asked, 0.25, ratios, ratios).power_scale_watts.tolist() == [0.5]


def test_what_exactly_the_limit_takes_is_allowed() -> None:
    """A milliwatt is 0 dBm: no less than a lowest power of 0 dBm; a watt at the farthest is 30 dBm."""
    lowest = DIGITS.with_overrides("air.min_power_dbm=0")
    check_lowest_power(lowest, 0.5e-3, 0.5e-3, 1.0)
    check_lowest_power(DIGITS.with_overrides("air.min_power_dbm=10", "air.attenuator_db=10"), 0.5e-3, 0.5e-3, 1.0)
    with pytest.raises(ScenarioError, match=r"air\.min_power_dbm = 0: no worker needs more than -3\.0 dBm"):
        check_lowest_power(lowest, 0.25e-3, 0.25e-3, 1.0)
    thirty = DIGITS.with_overrides("radio.max_power_dbm=30")
    check_added_power(thirty, weakest_gain(thirty))
    refusal = r"would take 33\.0 dBm of the farthest worker, .* = 30; must be at most 4\.0, or"
    with pytest.raises(ScenarioError, match=refusal):
        check_added_power(thirty.with_overrides("privacy.above_thermal_db=7"), weakest_gain(thirty) * 10**0.3)


# -------------------------------------------------------------------------------------------------------- sums


SUMS = IntegerSums(
    noise=IntegerNoise(code=IntegerCode(numbers=6, norm=2.0, step=0.25, bits=10), workers=12, variance_per_worker=3.0),
    honest=Honest(count=9, neighbours=8, gap=9.0, failure=0.3),
    masked=True,
    received_watts=5e-12,
)


@pytest.mark.parametrize(("masked", "slots", "failure"), [(True, 3, 0.9), (True, 4, 1.0), (False, 3, 0.0)])
def test_how_often_a_graph_fails(masked: bool, slots: int, failure: float) -> None:
    """In any slot, once at most; own noise does not rest on it."""
    asked = INTEGERS.with_overrides(f"radio.slots={slots}")
    fact = fact_of(asked, (replace(SUMS, masked=masked),), 1e-12)
    assert fact.failure == pytest.approx(failure, rel=1e-12)
    assert SUMS.assumed_range == 0.0


def test_bits_are_as_strong_as_one_wrong_number_in_a_hundred_runs_takes() -> None:
    """Of all planes of three slots: 2 Phi(-sqrt(G)) is 0.01 over their number, and bits +-1/2 have G sigma^2 / 2."""
    asked = INTEGERS.with_overrides("radio.slots=3")
    (sums,) = fit_sums(asked, Sensitivity(removal=2.0, replacement=3.0, numbers=65), masked=True)
    planes = sums.noise.code.bits * 65 * 3
    exact = float(ndtri(0.01 / planes / 2.0)) ** 2 * dbm_to_watts(asked.radio.noise_dbm) / 2.0
    assert sums.received_watts == pytest.approx(exact, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (('mixing.policy="dirmix"',), 'mixing.policy = "dirmix": must be "equalmix"'),
        (("workers.bits=4",), "workers.bits = 4: must be 0"),
        (("privacy.mask_share=0.5",), "privacy.mask_share = 0.5: must be 0"),
        (("privacy.above_thermal_db=3",), "privacy.above_thermal_db = 3: must be 0"),
        (('privacy.accountant="rdp"',), "privacy.accountant"),
        (("privacy.modulus_bits=1",), "privacy.modulus_bits = 1: must be 2 to 62"),
        (('workers.centre="private"',), 'must be "none", "own" or "public"'),
        (('privacy.noise="workers"', "privacy.most_absent=0.1"), "which has no masks"),
        (("privacy.mask_degree=3",), "must be an even number"),
    ],
)
def test_what_integers_do_not_go_with(changes: tuple[str, ...], refusal: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(refusal)):
        INTEGERS.with_overrides(*changes)
    assert INTEGERS.with_overrides("privacy.modulus_bits=2").privacy.modulus_bits == 2


def test_noise_on_integers_is_in_their_sum_and_not_beside_it() -> None:
    receiver = dbm_to_watts(INTEGERS.radio.noise_dbm)
    noise = INTEGERS.privacy.noise_kind.on_integers(INTEGERS.privacy)
    assert noise.in_sum_watts(INTEGERS) == pytest.approx(receiver, rel=1e-12, abs=0.0)


@pytest.mark.parametrize(("symbols", "in_rounds"), [(65, 0), (65, 200), (200, 65)])
def test_rounding_counts_the_longer_vectors(symbols: int, in_rounds: int) -> None:
    """2 sqrt(200) 2^-32 / 0.1 of the norm sqrt(2), however the two are shared out."""
    noise = INTEGERS.privacy.noise_kind.on_integers(INTEGERS.privacy)
    found = noise.rounded(Sensitivity(removal=2.0, replacement=3.0), symbols, in_rounds)
    margin = 20.0 * math.sqrt(max(symbols, in_rounds)) * 2.0**-32
    assert found.replacement - 3.0 == pytest.approx((math.sqrt(3.0) + margin * math.sqrt(2.0)) ** 2 - 3.0, rel=1e-5)
    assert (found.removal, found.numbers, found.in_rounds) == (2.0, symbols, in_rounds)


# ----------------------------------------------------------------------------------------------------- targets


def exact_delta(mu: float, epsilon: float) -> float:
    with mpmath.workdps(30):
        mean, far = mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mu
        return float(mpmath.ncdf(mean - far) - mpmath.exp(epsilon) * mpmath.ncdf(-mean - far))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_refined_mean_takes_its_share_of_mu(share: float) -> None:
    """mu^2 of the slots and of the mean are 1 - w and w of what the target allows, each at its part of delta."""
    asked = MNIST.with_overrides(
        'workers.centre="refined"', f"workers.centre_share={share}", 'privacy.accountant="gdp"', "privacy.epsilon=2"
    )
    delta, (epsilon, of_slots), (of_mean, rest) = asked.privacy.delta, slots_target(asked), centring_target(asked)
    assert (of_slots, rest) == (pytest.approx((1 - share) * delta), pytest.approx(share * delta))
    mu = of_mean / math.sqrt(share)
    assert exact_delta(mu, 2.0) == pytest.approx(delta, rel=1e-6, abs=0.0)
    assert exact_delta(math.sqrt(1 - share) * mu, epsilon) == pytest.approx(of_slots, rel=1e-6, abs=0.0)


def test_rounds_of_gradients_have_no_others_beside_them() -> None:
    several = Scenario.preset("private-mnist-rounds").with_overrides(
        'workers.sends="gradients"', "learner.rounds=0", 'learner.descent="adam"'
    )
    check_privacy_target(several)
    with pytest.raises(ScenarioError, match=r"learner\.rounds = 1: must be 0"):
        check_privacy_target(replace(several, learner=replace(several.learner, rounds=1)))


@pytest.mark.parametrize(("holding", "copies"), [([0, 1, 1, 2, 1], 3), ([0, 0, 1, 2, 3], 2)])
def test_a_row_is_told_of_with_the_most_who_hold_it(holding: list[int], copies: int) -> None:
    planned = plan_row_privacy(MNIST, np.array(holding), lambda count: [count])  # type: ignore[list-item]
    assert planned is not None
    assert (planned.copies, planned.statements) == (copies, (copies,))
    assert plan_row_privacy(MNIST, None, lambda count: []) is None


@pytest.mark.parametrize("rows", [1, 4])
def test_a_row_of_several_is_told_at_its_part_of_a_worker(rows: int) -> None:
    """All of eight send in 60 slots: mu^2 is 60 P d / (sigma^2 / 2), and of one of four rows a sixteenth of that."""
    asked = MNIST.with_overrides(
        "workers.task=regression", "workers.sends=moments", "workers.worker_column=w", f"workers.rows_bound={rows}"
    )
    moves = Sensitivity(removal=6.0, replacement=10.0)
    design = Design(
        workers=8, scheduled=8, received_watts=(0.02,), counts=(60,), sensitivity=moves, noise_watts=4.0
    )  # fmt: skip
    stated = row_statement(asked, design, "server", 1)
    move = 6.0 if asked.privacy.adjacency == "remove-one" else 10.0
    mu = math.sqrt(60 * 0.02 * move / 2.0) / rows
    assert exact_delta(mu, stated.epsilon) == pytest.approx(asked.privacy.delta, rel=1e-6, abs=0.0)


def test_a_policy_beyond_the_target_is_told_the_epsilon_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as much power again: sqrt(1.5) mu, whose epsilon is rounded up by a part in 100,000."""
    asked = Scenario.preset("private-mnist").with_overrides("workers.features=16", "workers.centre=none")
    moves = sensitivity_of(asked, 16, 10)
    allowed = private_received_watts(asked, moves)
    epsilon, delta = asked.privacy.epsilon, asked.privacy.delta

    mu = float(brentq(lambda mu: exact_delta(mu, epsilon) - delta, 0.05 * epsilon, 2.0 * epsilon, xtol=1e-12))
    check_target_met(asked, 16, 10)
    monkeypatch.setattr(PrivatePower, "received_watts", lambda *_: 1.5 * allowed)
    with pytest.raises(PrivacyError, match=r"must be at least [0-9.]+, or let it plan less power") as raised:
        check_target_met(asked, 16, 10)
    advised = float(re.findall(r"at least ([0-9.]+),", str(raised.value))[0])
    needed = brentq(lambda e: exact_delta(math.sqrt(1.5) * mu, e) - delta, epsilon, 3.0 * epsilon, xtol=1e-12)
    assert needed * (1.0 + 4e-6) < advised < needed * (1.0 + 1.6e-5)


HIDDEN = ("radio.scheduled=600", "mixing.policy=equalmix", 'privacy.adversary="release"')


def test_power_below_which_the_limit_tells_nothing_of_a_hidden_schedule() -> None:
    """Planned power, else what the farthest may send at the limit, else as if the schedule were known; never more than
    what a worker at a metre may send."""
    poisson = ("radio.schedule=poisson", "privacy.accountant=rdp", "workers.features=16", "workers.centre=none")
    asked = MNIST.with_overrides(*HIDDEN, *poisson, "radio.slots=50")
    moves = sensitivity_of(asked, 16, 10)

    def found(limit_dbm: float, *changes: str) -> float:
        return private_received_watts(asked.with_overrides(f"radio.max_power_dbm={limit_dbm}", *changes), moves)

    assert found(30) == found(-20) > found(-30) > found(-40) > found(-50) == found(-80)
    for limit_dbm in (-30, -40):
        watts = 10.0 ** (limit_dbm / 10 - 3) * weakest_gain(asked)
        assert 1.0 - found(limit_dbm) / watts == pytest.approx(1e-12, rel=1e-2, abs=0.0)
    assert found(-80) == pytest.approx(found(30, 'privacy.adversary="server"'), rel=1e-9, abs=0.0)
    nearest = float(asked.radio.path_loss_kind.gain(asked.radio, np.array([1.0]))[0]) ** 2
    assert found(-120) == pytest.approx(1e-15 * nearest, rel=1e-9, abs=0.0)


def test_rounds_that_are_received_more_strongly_reach_the_limit_first() -> None:
    """Two rounds with 0.8 of the loss and two slots with 0.2 of it: four times the power."""
    asked = Scenario.preset("private-mnist-rounds").with_overrides(
        *HIDDEN,
        "privacy.accountant=pld",
        "privacy.adjacency=replace-one",
        "learner.rounds=2",
        "radio.slots=2",
        "learner.rounds_share=0.8",
        "radio.max_power_dbm=-35",
    )
    watts = 10.0 ** (-6.5) * weakest_gain(asked) / 4.0
    found = private_received_watts(asked, sensitivity_of(asked, 784, 10))
    assert 1.0 - found / watts == pytest.approx(1e-12, rel=1e-2, abs=0.0)


# ------------------------------------------------------------------------------------------------------ reports


TWELVE = MNIST.with_overrides(
    "workers.count=12", "workers.train_samples=12", "radio.scheduled=12", "radio.slots=3", "workers.features=8",
    "privacy.delta=1e-5",
)  # fmt: skip
HOLDING = np.array([0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4])


@pytest.mark.parametrize("changes", [('workers.centre="refined"',), ("workers.centre=none", "air.antennas=2")])
def test_rows_have_the_square_of_their_copies(changes: tuple[str, ...]) -> None:
    """The slot for a mean, or a second antenna, counts for a row as it counts for a worker."""
    tally = rehearse(TWELVE.with_overrides(*changes), 8, 10, holding=HOLDING)
    rows, one = tally.row_squared_mu(), tally.worker_squared_mu()[0]
    assert rows == pytest.approx(one * np.array([4.0, 9.0, 1.0, 16.0, 4.0]), rel=1e-6, abs=0.0)
    stated = tally.privacy_of_a_row(4)
    assert exact_delta(4.0 * math.sqrt(one), stated.epsilon) == pytest.approx(stated.delta, rel=1e-5, abs=0.0)


def test_powers_of_all_that_sent() -> None:
    """Three slots of twelve workers, each with its own power: the sixth of these is the median, to 0.05 dB."""
    tally = rehearse(TWELVE.with_overrides("workers.centre=none"), 8, 10)
    watts = np.sort(tally.worker_energy_joules) / 3 / tally.system.joules_per_watt
    power = tally.transmit_power
    assert power.median == pytest.approx(10 * math.log10(watts[5]) + 30, abs=0.051)
    assert power.largest == pytest.approx(10 * math.log10(watts[-1]) + 30, abs=1e-9)
    assert power.limit == TWELVE.radio.max_power_dbm
    alike = replace(tally.transmit_power, median=power.largest)
    tally.power_dbm = DecibelHistogram()
    tally.power_dbm.add(torch.tensor([watts[-1] * 1e4]))  # the middle of a step may lie above all that was sent
    assert tally.transmit_power == alike


def test_rounds_are_drawn_one_by_one_with_words_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list[tuple[bool, range]]()

    def noted(setting: AirSetting, slots: range) -> SlotTensors:
        drawn.append((setting.in_rounds, slots))
        return draw_slots(setting, slots)

    monkeypatch.setattr("airmixml.radio.tally.draw_slots", noted)
    asked = Scenario.preset("trustless-digits-rounds").with_overrides("radio.slots=2", "learner.rounds=3")
    tally = rehearse(asked, 65, 10)
    slots = [slot for in_rounds, some in drawn for slot in some if not in_rounds]
    assert slots == [0, 1]
    first = asked.radio.slots + 1  # after one that stays free
    assert [some for in_rounds, some in drawn if in_rounds] == [
        range(slot, slot + 1) for slot in range(first, first + 3)
    ]
    assert (tally.slots, tally.rounds) == (5, 3)


def test_what_a_report_says_of_receptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slots of 30 and 1 over noise of 1 and 3, shares 1/2, 1/2 and 1, 0; medians of 100 values in whole dB."""
    report = simulate(DIGITS.with_overrides("radio.slots=3")).report
    told = report.to_dict()
    assert not {"link", "integers", "rounds"} & set(told)
    assert told["symbols_per_slot"] == report.system.symbols_on_air
    assert report.variance_share == pytest.approx(
        report.scenario.radio.schedule_kind.varying_share(float(report._sums[1]) / 3, 1200, 1200), rel=1e-12
    )
    fresh = AirReport(report.system, SimpleNamespace(private_mean=None))  # type: ignore[arg-type]
    monkeypatch.setattr(fresh, "add_draws", lambda _: None)
    drawn = SimpleNamespace(ratios=torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64))
    variance = torch.tensor([1.0, 3.0], dtype=torch.float64)
    snr = torch.tensor([[1e3, 1e3], [1e6, 1e6]], dtype=torch.float64)
    fresh.add(SimpleNamespace(drawn=drawn, slots=2, noise_variance=variance, snr=snr))  # type: ignore[arg-type]
    assert fresh.noise_variance == 2.0
    assert fresh._sums.tolist() == [4.0, 1.5]
    share = fresh.signal.input_symbols / fresh.signal.symbols
    assert fresh.snr_db.quantile_db(0.5) == pytest.approx(10 * math.log10(share * 1e3 + (1 - share) * 1e6), abs=0.06)
    for place, name in enumerate(("snr_db", "input_snr_db", "label_snr_db")):
        histogram = DecibelHistogram()
        histogram.add(10.0 ** (torch.arange(100).double() / 10.0 + 10.0 * place + 0.005))
        setattr(report, name, histogram)
    told = report.to_dict()
    found = [told[name] for name in ("snr_db", "snr_inputs_db", "snr_labels_db")]
    assert found == pytest.approx([49.05, 149.05, 249.05], abs=1e-6)


def test_receptions_of_integers() -> None:
    """The mean square of what was sent over the noise in a mean; what was received is it, all but a hundredth."""
    sent = simulate(INTEGERS.with_overrides("radio.slots=2", "privacy.epsilon=1000"))
    report, sums = sent.report, sent.report.system.integers
    assert sums is not None
    assert report.noise_variance == pytest.approx(sums.mixture_variance, rel=1e-9, abs=0.0)
    squares = np.square(np.asarray(sent.inputs, dtype=float)).mean() - report.noise_variance
    assert report.to_dict()["snr_inputs_db"] == pytest.approx(10 * math.log10(squares / report.noise_variance), abs=1.0)
