"""What designs, adversaries and statements make of a few numbers, all worked out by hand or counted out in full."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from slots_for_tests import gaussian_epsilon_with_many_digits

from airmixml.messages import PrivacyError
from airmixml.privacy import Design, Eavesdropper, GaussianSlots, Release, Sensitivity, Server, facts, state_privacy
from airmixml.privacy.adversaries import Everyone
from airmixml.privacy.evaluation import Question, better_receivers, calibrate_power, certified_epsilon
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.privacy.statements import in_steps, state_jointly, together

# Squared shifts are the squared move times received watts, over half of 4 W.
DESIGN = Design(
    workers=100,
    scheduled=4,
    received_watts=(0.1, 0.4, 0.2),
    counts=(30, 10, 20),
    sensitivity=Sensitivity(removal=6.0, replacement=10.0),
    noise_watts=4.0,
)
BY_COINS = replace(DESIGN, sampling="poisson")
NEAR = Eavesdropper(gain=0.02, own_noise_watts=8.0)


def epsilon_of(total: float, delta: float) -> float:
    return float(gaussian_epsilon_with_many_digits(total, delta))


# ------------------------------------------------------------------------------------------------- sensitivity


@pytest.mark.parametrize(
    ("removal", "moves"),
    [(6.0, [6.0, 10.0, 10.0, 10.0, 6.0, 10.0]), (20.0, [20.0, 10.0, 20.0, 10.0, 20.0, 20.0])],
)
def test_squared_moves(removal: float, moves: list[float]) -> None:
    """A removed worker is silent, or another sits there; a replaced one whose coin may fall so leaves a seat empty."""
    sensitivity = Sensitivity(removal=removal, replacement=10.0)
    found = [
        sensitivity.squared_move(adjacency, sampling)
        for sampling in ("none", "without-replacement", "poisson")
        for adjacency in ("remove-one", "replace-one")
    ]
    assert found == moves
    assert Sensitivity.paper(4, 3) == Sensitivity(removal=7.0, replacement=7.0)
    assert (sensitivity.numbers, sensitivity.in_rounds) == (0, 0)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_sensitivity_is_positive_and_finite(wrong: float) -> None:
    for given in ({"removal": wrong, "replacement": 1.0}, {"removal": 1.0, "replacement": wrong}):
        with pytest.raises(PrivacyError, match="must be finite and above 0"):
            Sensitivity(**given)


# ------------------------------------------------------------------------------------------------------ designs


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scheduled": 0}, "scheduled = 0"),
        ({"scheduled": 101}, "scheduled = 101"),
        ({"noise_watts": 0.0}, "noise_watts = 0"),
        ({"noise_watts": math.inf}, "noise_watts = inf"),
        ({"counts": (0, 0, 0)}, "slots = 0"),
        ({"sampling": "none"}, "sampling = 'none'"),
        ({"sampling": "poisson", "max_participations": 30}, "max_participations: needs sampling"),
        ({"max_participations": 2}, "must be at least 3 for 60 slots of 4 among 100"),
        ({"max_participations": 2, "workers": 101}, "must be at least 3 for 60 slots of 4 among 101"),
    ],
)
def test_designs_that_cannot_be(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        replace(DESIGN, **wrong)


def test_designs_at_the_edge_of_what_can_be() -> None:
    assert replace(DESIGN, counts=(1, 0, 0)).slots == 1
    assert replace(DESIGN, scheduled=1).scheduled == 1
    assert replace(DESIGN, scheduled=100).everybody_sends
    assert not replace(DESIGN, scheduled=99).everybody_sends
    assert replace(DESIGN, max_participations=3).round_length == 20  # 80 of 100 workers send in a round
    assert replace(DESIGN, workers=80, max_participations=3).rounds == 3


def test_rounds_in_which_nobody_sends_twice() -> None:
    """60 slots, at most 7 each: rounds of 9 slots, 36 workers, the seventh of them 6 slots long."""
    limited = replace(DESIGN, max_participations=7)
    assert (limited.round_length, limited.rounds, limited.participations) == (9, 7, 7)
    assert limited.schedule_failure == 0.0
    kept = replace(limited, slots_per_round=12)  # a part of a longer run
    assert (kept.round_length, kept.rounds) == (12, 5)
    assert (DESIGN.round_length, DESIGN.rounds) == (1, 60)
    everybody = replace(DESIGN, workers=4)
    assert (everybody.participations, everybody.schedule_failure) == (60, 0.0)


def test_participations_of_schedules_by_chance_and_of_one_s_own() -> None:
    """A tail of 1e-9 / 100 of 60 coins of 0.04, as SciPy has it."""
    most = next(m for m in range(60) if stats.binom.sf(m, 60, 0.04) <= 1e-11)
    assert (DESIGN.participations, DESIGN.schedule_failure) == (most, 1e-9)
    for own, participations in ((9, 9), (200, 60)):
        design = DESIGN.stating(facts.OwnSchedule(most=own))
        assert (design.participations, design.schedule_failure) == (participations, 0.0)
    drawn = DESIGN.stating(facts.Drawn(received_watts=1.0, participations=5))
    assert (drawn.participations, drawn.schedule_failure) == (5, 0.0)


def test_gains_fail_for_one_worker_less_often_than_for_some() -> None:
    """One of four seats, one of 100 coins; in a hidden draw any of them may be the worker's."""
    assert DESIGN.failure_of_gains(1e-6, "without-replacement") == 1e-6
    assert DESIGN.failure_of_gains(1e-6, "none") == 1e-6 / 4
    assert BY_COINS.failure_of_gains(1e-6, "poisson") == 1e-6 / 100
    assert BY_COINS.failure_of_gains(1e-6, "none") == 1e-6 / 100


def test_sent_power() -> None:
    """1.5 times the received power over a gain of 0.01, at most the limit of 20 W times how loud a worker may be."""
    sent = facts.Transmitters(weakest_gain=0.01, limit_watts=20.0, excess=1.5)
    assert DESIGN.stating(sent).sent_watts == pytest.approx((15.0, 20.0, 20.0))
    loud = DESIGN.stating(sent, facts.ImperfectAir(gain_bound=1.25))
    assert loud.sent_watts == pytest.approx((15.0, 25.0, 25.0))
    drawn = DESIGN.stating(replace(sent, loudness=1.2), facts.ImperfectAir(gain_bound=9.0))
    assert drawn.sent_watts == pytest.approx((15.0, 24.0, 24.0))


def test_shifts_and_the_noise_multiplier() -> None:
    assert DESIGN.squared_shifts(10.0) == pytest.approx((0.5, 2.0, 1.0))
    assert DESIGN.noise_multiplier("replace-one") == pytest.approx(math.sqrt(1 / 2.0))
    assert DESIGN.noise_multiplier("remove-one") == pytest.approx(math.sqrt(1 / 1.2))
    assert DESIGN.scaled(0.0).noise_multiplier("remove-one") == math.inf


def test_a_design_scaled() -> None:
    after = DESIGN.stating(facts.Drawn(received_watts=3.0, participations=5, server_watts=8.0, sent_watts=7.0))
    louder = after.scaled(2.5)
    assert louder.received_watts == pytest.approx((0.25, 1.0, 0.5))
    drawn = louder.fact(facts.Drawn)
    assert (drawn.received_watts, drawn.server_watts, drawn.sent_watts) == (7.5, 20.0, 7.0)


def test_all_antennas_of_the_server() -> None:
    """A gain of 3 in every slot, but 5 in the last kind's rounds; after a run what it drew."""
    several = DESIGN.stating(facts.Antennas(gain=3.0, count=4, failure=1e-7))
    assert several.at_server().received_watts == pytest.approx((0.3, 1.2, 0.6))
    in_rounds = DESIGN.stating(facts.Antennas(gain=3.0, in_rounds=(7.0, 5.0), count=4))
    assert in_rounds.at_server().received_watts == pytest.approx((0.3, 1.2, 1.0))
    drawn = facts.Drawn(received_watts=3.0, participations=5, server_watts=8.0)
    after = several.stating(drawn).at_server()
    assert after.fact(facts.Drawn).received_watts == 8.0
    unbounded = DESIGN.stating(facts.Antennas(gain=math.inf, count=4))
    with pytest.raises(PrivacyError, match=r"air\.antennas: fading puts no bound"):
        unbounded.at_server()
    assert unbounded.stating(drawn).at_server().fact(facts.Drawn).received_watts == 8.0
    assert unbounded.scaled(0.0).at_server().received_watts == (0.0, 0.0, 0.0)
    assert DESIGN.at_server() == DESIGN
    undrawn = several.stating(replace(drawn, server_watts=None)).at_server()
    assert undrawn.fact(facts.Drawn).received_watts == 9.0  # the gain times what one antenna had


@pytest.mark.parametrize(
    ("in_sum", "more", "watts", "failure"),
    [
        (2.0, (), 6.0, 0.0),  # 4 W of the receiver and 2 W of the workers outweigh 5 W
        (1.0, (), 5.0, 0.0),  # just as much
        (0.5, (), 5.0, 1e-8),  # less: only what workers bring alone counts
        (9.0, (facts.ImperfectAir(),), 5.0, 1e-8),
    ],
)
def test_noise_of_workers(in_sum: float, more: tuple[facts.Fact, ...], watts: float, failure: float) -> None:
    brought = facts.WorkersNoise(alone_watts=5.0, in_sum_watts=in_sum, by="masks", failure=1e-8)
    found = DESIGN.stating(brought, *more).in_workers_noise()
    assert (found.noise_watts, found.fact(facts.WorkersNoise).failure) == (watts, failure)
    rounded = replace(brought, rounding=facts.Rounding(step_mu=0.1, numbers=3))
    found = DESIGN.stating(rounded, *more).in_workers_noise()
    assert (found.noise_watts, found.fact(facts.WorkersNoise).failure) == (5.0, 1e-8)
    assert DESIGN.in_workers_noise() == DESIGN


def test_parts_of_a_run_with_gradients_at_its_end() -> None:
    """40 slots of moments, of two kinds, then 20 of gradients: 50 slots have 10 of those, 45 have 5."""
    assert [DESIGN.with_slots(n, gradients=20).counts for n in (30, 41, 50, 60)] == [(30,), (40, 1), (40, 10), (40, 20)]
    assert DESIGN.with_slots(30, gradients=20).received_watts == (0.4,)
    assert DESIGN.with_slots(50, gradients=20).received_watts == (0.4, 0.2)
    assert DESIGN.with_slots(50).received_watts == (0.4,)
    limited = replace(DESIGN, max_participations=7).with_slots(20)
    assert (limited.round_length, limited.rounds) == (9, 3)


def test_parts_of_a_run_have_the_mean_gains_of_their_rounds() -> None:
    means = facts.ImperfectAir(gain_bound=4.0, in_rounds=(4.0, 3.0, 2.0))
    design = DESIGN.stating(means, facts.Antennas(gain=2.0, in_rounds=(2.0, 1.8, 1.6)))
    two = design.with_rounds(2)
    assert two.received_watts == pytest.approx((0.1, 0.4, 0.3))
    assert (two.fact(facts.ImperfectAir).in_rounds, two.fact(facts.Antennas).in_rounds) == ((4.0, 3.0), (2.0, 1.8))
    assert design.with_rounds(0).received_watts == DESIGN.received_watts
    assert design.with_rounds(0).fact(facts.ImperfectAir).in_rounds == ()
    assert DESIGN.with_rounds(2) == DESIGN
    assert means.of_kinds(3) == (4.0, 4.0, 2.0)
    assert facts.ImperfectAir(gain_bound=4.0).of_kinds(2) == (4.0, 4.0)


def test_facts_of_several_copies() -> None:
    sent = facts.Transmitters(limit_watts=3.0, failure=0.4).of_copies(2, 5.0)
    assert (sent.limit_watts, sent.failure) == (15.0, 0.8)
    assert facts.Transmitters(failure=0.4).of_copies(3, 5.0).failure == 1.0
    assert facts.Antennas(failure=0.4).of_copies(2, 5.0).failure == 0.8
    assert facts.Antennas(failure=0.4).of_copies(3, 5.0).failure == 1.0
    assert facts.ImperfectAir(gain_failure=0.3).of_copies(3, 5.0).gain_failure == pytest.approx(0.9)
    assert facts.ImperfectAir(gain_failure=0.3).of_copies(4, 5.0).gain_failure == 1.0
    assert facts.Drawn(sent_watts=2.0).of_copies(3, 5.0).sent_watts == 10.0
    integers = facts.WorkersNoise(alone_watts=1.0, rounding=facts.Rounding(step_mu=(0.1, 0.2), numbers=(7, 5)))
    assert integers.of_copies(3, 5.0).rounding == facts.Rounding(step_mu=(0.1, 0.2), numbers=(21, 15))
    assert facts.WorkersNoise(alone_watts=1.0).of_copies(3, 5.0) == facts.WorkersNoise(alone_watts=1.0)


def test_who_may_know_the_schedule() -> None:
    masks = facts.WorkersNoise(alone_watts=1.0, in_sum_watts=1.0)
    alone = facts.WorkersNoise(alone_watts=1.0)
    integers = facts.WorkersNoise(alone_watts=1.0, rounding=facts.Rounding(step_mu=(0.1,), numbers=(7,)))
    told = [
        [bool(DESIGN.stating(fact).schedule_revealed(colluders)) for colluders in (0, 1)]
        for fact in (masks, alone, integers, facts.RanksTell(), facts.PowerTells(), facts.OwnSchedule(most=2))
    ]
    assert told == [[False, True], [False, False], [True, True], [False, True], [True, True], [True, True]]
    assert [DESIGN.stating(fact).schedule_told for fact in (masks, facts.RanksTell(), facts.PowerTells())] == [
        False,
        False,
        True,
    ]


# -------------------------------------------------------------------------------------------------- adversaries


@pytest.mark.parametrize("removal", [6.0, 20.0])
@pytest.mark.parametrize("colluders", [96, 97])
def test_a_removed_worker_s_seat_may_go_to_a_colluder_or_to_nobody(removal: float, colluders: int) -> None:
    """Four seats for at most four who do not collude: the mixture moves by a replacement, or by all of a worker."""
    design = replace(DESIGN, sensitivity=Sensitivity(removal=removal, replacement=10.0))
    seen = Release(colluders=colluders).mechanism(design, "remove-one")
    assert (seen.sampling, seen.squared_move) == ("none", max(removal, 10.0))
    assert seen.total == pytest.approx(max(removal, 10.0) * (30 * 0.1 + 10 * 0.4 + 20 * 0.2) / 2.0)
    assert Release(colluders=95).mechanism(design, "remove-one").sampling == "without-replacement"


def test_rounds_hide_a_worker_among_those_that_do_not_collude() -> None:
    """Rounds of 9 slots are samples of 36 workers, of the strongest slots: 10 of 2 and 20 of 1 hold seven rounds."""
    limited = replace(DESIGN, max_participations=7)
    seen = Release(colluders=10).mechanism(limited, "replace-one")
    assert (seen.sampling, seen.sampled, seen.population, seen.composed) == ("without-replacement", 36, 90, 7)
    assert seen.total == pytest.approx(7 * 2.0)
    all_in = Release(colluders=64).mechanism(limited, "replace-one")  # 36 others for 36 seats
    assert (all_in.sampling, all_in.total) == ("none", pytest.approx(7 * 2.0))
    assert Release(colluders=63).mechanism(limited, "replace-one").population == 37


def test_a_replacement_is_two_steps_only_where_workers_toss_coins() -> None:
    """Views: hidden, as if known, and of coins a removal of squared move 6 and an addition."""
    assert [view.steps for view in Release().views(DESIGN, "replace-one")] == [1, 1]
    assert [view.steps for view in Release().views(DESIGN, "remove-one")] == [1, 1]
    assert [view.steps for view in Release().views(BY_COINS, "remove-one")] == [1, 1]
    hidden, known, two_steps = Release().views(BY_COINS, "replace-one")
    assert (hidden.steps, known.steps, two_steps.steps) == (1, 1, 2)
    assert (hidden.sampling, known.sampling, two_steps.sampling) == ("poisson", "none", "poisson")
    assert (hidden.adjacency, two_steps.adjacency) == ("replace-one", "remove-one")
    assert max(two_steps.squared_shifts) == pytest.approx(6.0 * 0.4 / 2.0)
    told = BY_COINS.stating(facts.PowerTells())
    assert [view.sampling for view in Release().views(told, "replace-one")] == ["none"]


def test_the_known_view_of_a_hidden_schedule_moves_as_a_seat_that_another_takes() -> None:
    after = DESIGN.stating(facts.Drawn(received_watts=1.3, participations=7))
    _, known = Release().views(after, "replace-one")
    assert (known.total, known.given) == (pytest.approx(10.0 * 1.3 / 2.0), "the schedule that was drawn")
    _, removed = Release().views(after, "remove-one")
    most = DESIGN.participations  # of the strongest slots
    assert removed.total == pytest.approx(10.0 * (0.4 * 10 + 0.2 * (most - 10)) / 2.0)
    assert removed.given == "a random schedule"


@pytest.mark.parametrize(("removal", "softer", "turned"), [(6.0, 10.0, 24.0), (20.0, 20.0, 80.0), (2.0, 10.0, 10.0)])
def test_others_in_a_seat_may_be_softer_or_turned(removal: float, softer: float, turned: float) -> None:
    """Of vectors of norm r whose replacement moves 10: a x - b y within max(r^2, 10); turned round, within (2 r)^2.

    A replaced worker is in its own seats and has its own gains, so that with a known schedule 10 remain. Where it is
    removed others have them, softer and turned too.
    """
    design = replace(DESIGN, sensitivity=Sensitivity(removal=removal, replacement=10.0))
    for fact, moves in ((facts.OthersInSeats(), softer), (facts.OthersInSeats(loudest=1.5, turned=True), turned)):
        hidden, known = Release().views(design.stating(fact), "replace-one")
        assert (hidden.sampling, hidden.squared_move) == ("without-replacement", moves)
        assert (known.sampling, known.squared_move) == ("none", 10.0)
        removed = Release().views(design.stating(fact), "remove-one")
        assert [view.squared_move for view in removed] == [moves, moves]
        assert Server().mechanism(design.stating(fact), "remove-one").squared_move == removal
    assert Release().mechanism(design, "replace-one").squared_move == 10.0


def test_failures_of_gains_of_each_adversary() -> None:
    """Of some worker 8e-7: of one in four seats 2e-7 where the schedule is known, or all that is left unknown."""
    air = facts.ImperfectAir(gain_bound=1.5, gain_failure=8e-7)
    assert Server().mechanism(DESIGN.stating(air), "replace-one").gain_failure == pytest.approx(2e-7)
    antennas = facts.Antennas(gain=2.0, count=2, failure=4e-6)
    assert Server().mechanism(DESIGN.stating(air, antennas), "replace-one").gain_failure == pytest.approx(1e-6)
    less = replace(antennas, failure=4e-8)
    assert Server().mechanism(DESIGN.stating(air, less), "replace-one").gain_failure == pytest.approx(2e-7)
    assert Release().mechanism(DESIGN.stating(air), "replace-one").gain_failure == 8e-7
    drawn = facts.Drawn(received_watts=1.3, participations=7, server_watts=2.6)
    assert Server().mechanism(DESIGN.stating(air, drawn), "replace-one").gain_failure == 0.0
    sent = facts.Transmitters(weakest_gain=0.01, failure=3e-6)
    assert NEAR.mechanism(DESIGN.stating(air, sent), "replace-one").gain_failure == 3e-6
    assert NEAR.mechanism(DESIGN.stating(air, replace(sent, failure=1e-9)), "replace-one").gain_failure == 8e-7


def test_everyone_hears_each_worker_in_the_noise_of_workers_alone() -> None:
    brought = facts.WorkersNoise(alone_watts=5.0, in_sum_watts=1.0, by="masks", failure=1e-8)
    limited = replace(DESIGN, max_participations=7).stating(brought)
    seen = Everyone().mechanism(limited, "remove-one")
    assert (seen.sampling, seen.hidden_failure) == ("none", 1e-8)
    assert seen.total == pytest.approx(6.0 * 7 * 0.4 / 2.5)
    assert (NEAR.mechanism(limited, "remove-one"), len(NEAR.views(limited, "remove-one"))) == (seen, 1)
    assert (Everyone().noise_watts(limited), NEAR.noise_watts(limited), NEAR.noise_watts(DESIGN)) == (5.0, 5.0, 8.0)
    with pytest.raises(PrivacyError, match="nothing hides a worker"):
        Everyone().mechanism(DESIGN, "remove-one")
    rounding = facts.Rounding(step_mu=(0.1, 0.1, 0.2), numbers=(11, 11, 5))
    integers = replace(DESIGN, max_participations=7).stating(replace(brought, rounding=rounding))
    rounded = Server().mechanism(integers, "remove-one")
    assert (rounded.rounding, rounded.rounded, rounded.counts) == (rounding, 7, (30, 10, 20))
    assert rounded.squared_shifts == pytest.approx((6.0 * 0.1 / 2.5, 6.0 * 0.4 / 2.5, 6.0 * 0.2 / 2.5))
    assert rounded.total_at_most == math.inf
    drawn = integers.stating(facts.Drawn(received_watts=1.3, participations=5))
    after = Server().mechanism(drawn, "remove-one")  # others may have all 60 slots of some kind, with less in all
    assert (after.rounded, after.total_at_most) == (60, pytest.approx(6.0 * 1.3 / 2.5))


def test_who_hears_what() -> None:
    masked = DESIGN.stating(facts.WorkersNoise(alone_watts=5.0))
    assert (Server().hears(DESIGN), Server().hears(masked)) == (True, False)
    two = DESIGN.stating(facts.Antennas(gain=2.0, count=2))
    assert (Server().antennas(two), Release().antennas(two)) == (2, 0)
    assert replace(NEAR, own_antennas=3).antennas(two) == 3
    assert (Server.knows_schedule, Release.knows_schedule, Eavesdropper.knows_schedule, Everyone.knows_schedule) == (
        True,
        False,
        False,
        True,
    )
    assert (Server.own_receiver, Release.own_receiver, Eavesdropper.own_receiver, Everyone.own_receiver) == (
        False,
        False,
        True,
        False,
    )


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf])
def test_an_eavesdropper_has_noise(wrong: float) -> None:
    with pytest.raises(PrivacyError, match="own_noise_watts"):
        replace(NEAR, own_noise_watts=wrong)


# ---------------------------------------------------------------------------------------------------- questions


def test_delta_gives_what_gains_take() -> None:
    known = GaussianSlots(squared_shifts=(0.5,), counts=(3,), adjacency="replace-one", gain_failure=4e-6)
    assert certified_epsilon("gdp", known, 1e-5) == pytest.approx(epsilon_of(1.5, 6e-6), rel=1e-9)
    with pytest.raises(PrivacyError, match="must be below"):
        certified_epsilon("gdp", known, 4e-6)
    for wrong in (0.0, 1.0):
        with pytest.raises(PrivacyError, match=r"privacy\.delta"):
            certified_epsilon("gdp", replace(known, gain_failure=0.0), wrong)


@pytest.mark.parametrize("steps", [2, 3])
def test_neighbours_some_steps_apart(steps: int) -> None:
    """(e, d) for one step is (n e, (1 + exp e + ... + exp((n - 1) e)) d) for n."""
    one = GaussianSlots(squared_shifts=(0.05,), counts=(3,), adjacency="replace-one")
    found = certified_epsilon("gdp", replace(one, steps=steps), 1e-5)
    step = found / steps
    shared = 1e-5 / sum(math.exp(place * step) for place in range(steps))
    assert epsilon_of(0.15, shared) <= step * (1 + 1e-9)
    assert epsilon_of(0.15, shared) > step / 1.02


def test_better_receivers() -> None:
    assert better_receivers(0) == {"+3 dB": pytest.approx(10**0.3), "+10 dB": pytest.approx(10.0)}
    assert better_receivers(16)["64 antennas"] == 4.0
    assert (len(better_receivers(63)), len(better_receivers(64)), len(better_receivers(1))) == (3, 2, 3)


def test_epsilon_of_better_receivers() -> None:
    """mu^2 of the server's seven strongest slots is 14, twice that with 3 dB and so on, at delta 1e-3."""
    limited = replace(DESIGN, max_participations=7)
    asked = Question(adversary=Server(), accountant="gdp", adjacency="replace-one", delta=1e-3)
    found = asked.if_better(limited)
    factors = {"+3 dB": 10**0.3, "+10 dB": 10.0, "64 antennas": 64.0}
    assert found == {name: pytest.approx(epsilon_of(14.0 * f, 1e-3), rel=1e-9) for name, f in factors.items()}
    fading = limited.stating(facts.Antennas(gain=2.0, count=2, many=90.0))
    assert asked.if_better(fading)["64 antennas"] == pytest.approx(epsilon_of(14.0 * 90.0, 1e-3), rel=1e-9)
    unknown = limited.stating(facts.Antennas(gain=2.0, count=2, many=math.inf))
    assert asked.if_better(unknown)["64 antennas"] is None
    assert asked.if_better(limited.stating(facts.WorkersNoise(alone_watts=5.0))) == {}


def test_views_that_an_accountant_considers() -> None:
    """The paper's bounds are printed for a hidden schedule; with a limit on participations a known one counts too."""
    for accountant, design, count in (
        ("pld", DESIGN, 2),
        ("paper-tight", DESIGN, 1),
        ("paper-tight", replace(DESIGN, max_participations=7), 2),
    ):
        asked = Question(adversary=Release(), accountant=accountant, adjacency="replace-one", delta=1e-3)
        assert len(asked.views(design)) == count


# --------------------------------------------------------------------------------------------------- statements


def statement(watts: float, delta: float = 1e-3, failure: float = 0.0):  # type: ignore[no-untyped-def]
    air = facts.ImperfectAir(gain_bound=1.5, gain_failure=4 * failure)
    design = replace(DESIGN, received_watts=(watts,), counts=(20,), max_participations=5)
    design = design.stating(air) if failure else design
    return state_privacy(design, Server(), "gdp", adjacency="replace-one", delta=delta)


def test_exact_statements_add_up_their_squares() -> None:
    """mu^2 of 10 x watts x 5 / 2: 25 watts each; delta 1e-3, of which failures of gains take their sum."""
    alone = statement(0.04)
    assert alone.epsilon == pytest.approx(epsilon_of(1.0, 1e-3), rel=1e-9)
    both = state_jointly([alone, statement(0.16)], gaussian=True)
    assert (both.epsilon, both.delta) == (pytest.approx(epsilon_of(5.0, 1e-3), rel=1e-9), 1e-3)
    assert both.if_better["+10 dB"] == pytest.approx(epsilon_of(50.0, 1e-3), rel=1e-9)
    failing = state_jointly([statement(0.04, failure=1e-4), statement(0.16, failure=2e-4)], gaussian=True)
    assert failing.epsilon == pytest.approx(epsilon_of(5.0, 7e-4), rel=1e-9)
    assert failing.gain_failure == pytest.approx(3e-4)
    with pytest.raises(PrivacyError, match="3 releases: gains exceed"):
        state_jointly([statement(0.04, failure=4e-4)] * 3, gaussian=True)


def test_other_statements_add_up_as_they_are() -> None:
    first, second = statement(0.04, failure=1e-4), statement(0.16, 2e-3, failure=2e-4)
    both = state_jointly([first, second], gaussian=False)
    assert both.epsilon == pytest.approx(first.epsilon + second.epsilon)
    assert (both.delta, both.gain_failure) == (pytest.approx(3e-3), pytest.approx(3e-4))
    unknown = replace(second, if_better={"+3 dB": None}, before_the_draw=None)
    assert state_jointly([first, unknown], gaussian=False).if_better["+3 dB"] is None
    assert state_jointly([replace(first, epsilon=math.inf), second], gaussian=False).epsilon == math.inf
    assert state_jointly([first], gaussian=False) is first
    assert replace(first, schedule_failure=1e-9, hidden_failure=2e-9).failure == pytest.approx(3e-9)


@pytest.mark.parametrize(
    ("design", "copies", "factor"),
    [
        (DESIGN, 3, 9.0),  # all three may send in every slot
        (DESIGN, 7, 28.0),  # four at most meet: 4 x 7 worker's worth of squares
        (BY_COINS, 7, 49.0),
        (replace(DESIGN, counts=(1, 0, 0)), 7, 16.0),
    ],
)
def test_copies_of_a_row_meet_in_slots(design: Design, copies: int, factor: float) -> None:
    assert together(design, copies).received_watts == pytest.approx([factor * watts for watts in design.received_watts])


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_how_often_copies_meet_by_chance(sampling: str) -> None:
    """Chances of sum K^2 over 200 slots, 5 copies among 100 workers, by convolution: above the bound 1e-9 / 100."""
    design = replace(DESIGN, received_watts=(0.1,), counts=(200,), scheduled=10, sampling=sampling)
    factor = together(design, 5).received_watts[0] / 0.1
    present = np.arange(6)
    chances = stats.hypergeom.pmf(present, 100, 5, 10)
    if sampling == "poisson":
        chances = stats.binom.pmf(present, 5, 0.1)
    slot = np.zeros(26)
    slot[present**2] = chances
    total = np.ones(1)
    for _ in range(200):
        total = np.convolve(total, slot)
    above = np.cumsum(total[::-1])[::-1]
    bound = factor * design.participations
    assert bound < 25 * design.participations  # better than if all met always
    assert above[math.floor(bound) + 1] <= 1e-11
    assert above[math.floor(0.93 * bound)] > 1e-11


def test_steps_of_a_group() -> None:
    """Each removal leaves one worker less to draw from; a replacement leaves all."""
    seen = Release().mechanism(DESIGN, "remove-one")
    assert (in_steps(seen, 5).steps, in_steps(seen, 5).population) == (5, 96)
    assert in_steps(seen, 99).population == 4
    assert in_steps(Release().mechanism(DESIGN, "replace-one"), 5).population == 100
    two_steps = Release().views(BY_COINS, "replace-one")[2]
    assert (in_steps(two_steps, 5).steps, in_steps(two_steps, 5).population) == (10, 100)


def test_a_replaced_sample_keeps_its_phase_and_a_removed_worker_s_seat_does_not() -> None:
    """As if the schedule were known: 10 for another sample, 4 x 6 where another worker comes with another phase."""
    heard = DESIGN.stating(facts.Transmitters(weakest_gain=0.01))
    hidden, known = NEAR.views(heard, "replace-one")
    assert (hidden.squared_move, known.squared_move) == (24.0, 10.0)
    hidden, known = NEAR.views(heard, "remove-one")
    assert (hidden.squared_move, known.squared_move) == (24.0, 24.0)


def test_a_power_is_found_in_closed_form_whatever_limits_the_transmitters() -> None:
    """Eight who all send, 60 slots of 0.02 W and 5 of none: mu^2 = 60 f 0.02 d / (sigma^2 / 2) for the server."""
    design = Design(
        workers=8,
        scheduled=8,
        received_watts=(0.02, 0.0),
        counts=(60, 5),
        sensitivity=Sensitivity(removal=6.0, replacement=10.0),
        noise_watts=4.0,
    )
    limited = design.stating(replace(design.fact(facts.Transmitters), limit_watts=1e-3))
    mu = gaussian_mu(2.0, 1e-5)
    for each in (design, limited):
        found = calibrate_power(
            each, adversary=Server(), accountant="gdp", adjacency="remove-one", delta=1e-5, epsilon=2.0
        )
        assert found == pytest.approx(mu**2 / (60 * 0.02 * 6.0 / 2.0), rel=1e-8)
    assert (facts.WorkersNoise().failure, facts.WorkersNoise().rounding) == (0.0, None)
