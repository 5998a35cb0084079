"""Slots, and the Gaussian mechanism, by hand and with many digits: at their ends, and what is refused."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.special import erf
from slots_for_tests import gaussian_epsilon_with_many_digits

from airmixml.messages import PrivacyError
from airmixml.privacy import Design, GaussianSlots, Release, Sensitivity, Server, facts, state_privacy
from airmixml.privacy.evaluation import Question, calibrate_power
from airmixml.privacy.gaussian import (
    gaussian_epsilon,
    gaussian_epsilons,
    gaussian_mu,
    gaussian_profile,
    log_gaussian_delta,
    total_variation,
)
from airmixml.privacy.paper_bounds import slot_privacy_loss, tight_epsilon, total_privacy_loss
from airmixml.privacy.statements import Ledger, PrivacyStatement, state_row, with_any_schedule

SLOTS = GaussianSlots(squared_shifts=(0.5, 2.0, 0.0, 1.0), counts=(30, 10, 5, 0), adjacency="replace-one")
DESIGN = Design(
    workers=100,
    scheduled=4,
    received_watts=(0.02,),
    counts=(60,),
    sensitivity=Sensitivity(removal=6.0, replacement=10.0),
    noise_watts=4.0,
)


def delta_with_many_digits(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


# -------------------------------------------------------------------------------------------------------- slots


def test_slots_that_say_nothing_more() -> None:
    """A known schedule, of one step, in which nothing fails."""
    one = GaussianSlots(squared_shifts=(0.5,), counts=(3,), adjacency="remove-one")
    assert (one.sampling, one.sampled, one.population, one.sampling_rate) == ("none", 1, 1, 1.0)
    assert (one.steps, one.schedule_failure, one.gain_failure, one.hidden_failure) == (1, 0.0, 0.0, 0.0)
    assert (one.rounding, one.squared_move, one.composed) == (None, 1.0, 0)


def test_counts_and_sums_of_slots() -> None:
    assert (SLOTS.slots, SLOTS.kinds) == (45, [(0.5, 30), (2.0, 10), (0.0, 5)])
    assert SLOTS.total == pytest.approx(35.0)
    drawn = replace(SLOTS, sampling="poisson", sampled=4, population=100)
    assert drawn.sampling_rate == 0.04
    assert replace(drawn, sampling="none").sampling_rate == 1.0
    assert drawn.as_drawn().sampling == "without-replacement"
    assert replace(drawn, adjacency="remove-one").as_drawn().sampling == "poisson"


@pytest.mark.parametrize(("asked", "total"), [(0, 0.0), (4, 8.0), (10, 20.0), (12, 21.0), (40, 35.0), (99, 35.0)])
def test_the_strongest_slots(asked: int, total: float) -> None:
    assert SLOTS.strongest(asked).total == pytest.approx(total)


def test_louder_slots_stay_finite_and_silent_ones_silent() -> None:
    assert SLOTS.louder(3.0).squared_shifts == (1.5, 6.0, 0.0, 3.0)
    assert SLOTS.louder(1e300).squared_shifts == (1e200, 1e200, 0.0, 1e200)


@pytest.mark.parametrize(
    "wrong",
    [
        {"adjacency": "other"},
        {"sampling": "other"},
        {"squared_shifts": (), "counts": ()},
        {"counts": (1, 2)},
        {"squared_shifts": (0.5, -1e-9, 0.0, 1.0)},
        {"squared_shifts": (0.5, math.inf, 0.0, 1.0)},
        {"squared_shifts": (0.5, math.nan, 0.0, 1.0)},
        {"counts": (1, -1, 0, 0)},
        {"sampled": 0},
        {"sampled": 2},
    ],
)
def test_slots_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(PrivacyError):
        replace(SLOTS, **wrong)


@pytest.mark.parametrize("most", [1, 2, 5, 12])
def test_fewer_kinds_are_never_more_private_and_close(most: int) -> None:
    """Shifts of 1, 1/2, 1/4 ... in seven slots each: every one is rounded up, the largest stays."""
    kinds = tuple(2.0**-k for k in range(30))
    many = GaussianSlots(squared_shifts=kinds, counts=(7,) * 30, adjacency="remove-one")
    few = many.coarsened(most)
    assert len(few.kinds) <= most
    assert few.slots == many.slots
    assert max(few.squared_shifts) == 1.0
    listed, rounded = (
        sorted(s for s, n in zip(each.squared_shifts, each.counts, strict=True) for _ in range(n))
        for each in (many, few)
    )
    assert all(one <= other for one, other in zip(listed, rounded, strict=True))
    # Steps of six decades over the kinds: each is rounded up by less than one of them.
    if most > 1:
        width = 10 ** (6.0 / (most - 1))
        assert all(other <= max(one, 1e-6) * width * (1 + 1e-9) for one, other in zip(listed, rounded, strict=True))
    assert many.coarsened(30) is many


# --------------------------------------------------------------------------------------------------- mechanism


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 50.0])
def test_delta_of_a_gaussian(mu: float, epsilon: float) -> None:
    exact = delta_with_many_digits(mu, epsilon)
    if exact > 1e-280:
        assert log_gaussian_delta(mu, epsilon) == pytest.approx(float(mpmath.log(exact)), rel=1e-8, abs=1e-8)
        assert gaussian_profile([mu], epsilon)[0] == pytest.approx(float(exact), rel=1e-7)
    assert total_variation(mu) == pytest.approx(float(erf(mu / math.sqrt(8.0))), rel=1e-14)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.6])
@pytest.mark.parametrize("mu", [1e-12, 1e-7, 0.02, 1.0, 40.0, 9e5])
def test_epsilon_of_one_gaussian_and_of_many(mu: float, delta: float) -> None:
    """Rounded up by 1e-12 and more where mu is so large or small that digits are short."""
    exact = float(gaussian_epsilon_with_many_digits(mu**2, delta)) if mu < 1e3 else None
    found = gaussian_epsilon(mu, delta)
    if exact is not None:
        assert exact <= found <= exact * (1 + 1e-9) + 2e-12
        if exact == 0.0 and erf(mu / math.sqrt(8.0)) < delta:
            assert found == 0.0
    assert gaussian_epsilons(np.array([[mu, 0.5], [mu, mu]]), delta)[1, 1] == pytest.approx(found, rel=1e-9, abs=3e-12)
    assert gaussian_epsilons(np.array([[mu, 0.5]]), delta)[0, 1] == pytest.approx(
        gaussian_epsilon(0.5, delta), rel=1e-9, abs=3e-12
    )


def test_a_mu_beyond_all_digits_has_a_simple_bound() -> None:
    """delta <= Phi(mu / 2 - epsilon / mu): epsilon = mu^2 / 2 + mu z."""
    z = float(-mpmath.mpf(-4.264890793922824602))  # Phi(-z) = 1e-5
    assert gaussian_epsilon(1e7, 1e-5) == pytest.approx(1e14 / 2 + 1e7 * z, rel=1e-11)
    assert gaussian_epsilon(1e7, 1e-5) >= 1e14 / 2 + 1e7 * z


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 0.3])
@pytest.mark.parametrize("epsilon", [1e-15, 1e-6, 0.1, 1.0, 100.0, 1e8, 1e14])
def test_the_largest_mu_of_an_epsilon(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_epsilon(mu, delta) <= epsilon
    assert gaussian_epsilon(mu * (1 + 1e-8) + 1e-15, delta) > epsilon or mu < 1e-6
    if epsilon < 1e-14:  # all of delta is total variation
        with mpmath.workdps(30):
            assert mu == pytest.approx(float(mpmath.sqrt(8) * mpmath.erfinv(delta)), rel=1e-6)


@pytest.mark.parametrize(("mu", "delta"), [(-1e-9, 0.1), (1e150, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, 1.0)])
def test_what_has_no_epsilon(mu: float, delta: float) -> None:
    for call in (gaussian_epsilon, gaussian_epsilons):
        with pytest.raises(PrivacyError):
            call(mu, delta)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf])
def test_what_has_no_mu(epsilon: float) -> None:
    with pytest.raises(PrivacyError, match="epsilon = "):
        gaussian_mu(epsilon, 1e-5)


# -------------------------------------------------------------------------------------------------- statements


def test_the_epsilon_of_each_worker() -> None:
    """mu^2 = 10 x watts over half of 4 W, and 0.3 spent besides."""
    ledger = Ledger(participations=np.array([0, 3, 1]), received_watts=np.array([0.0, 0.2, 0.05]))
    assert ledger.losses(noise_watts=4.0, sensitivity=10.0).tolist() == pytest.approx([0.0, 1.0, 0.25])
    found = ledger.epsilons(noise_watts=4.0, sensitivity=10.0, delta=1e-4)
    exact = [0.0, *(float(gaussian_epsilon_with_many_digits(s, 1e-4)) for s in (1.0, 0.25))]
    assert found.tolist() == pytest.approx(exact, rel=1e-9, abs=1e-11)
    besides = ledger.epsilons(noise_watts=4.0, sensitivity=10.0, delta=1e-4, spent_mu=0.3)
    assert besides[1] == pytest.approx(float(gaussian_epsilon_with_many_digits(1.09, 1e-4)), rel=1e-9)


def test_a_drawn_schedule_tells_what_any_other_would_have_cost() -> None:
    """Five slots were drawn of at most eight: the server's mu^2 is 5 x 0.1, before the draw 8 x 0.1."""
    limited = replace(DESIGN, max_participations=8)
    after = limited.stating(facts.Drawn(received_watts=0.1, participations=5))
    stated = state_privacy(after, Server(), "gdp", adjacency="replace-one", delta=1e-4)
    told = with_any_schedule(stated, after, Server())
    assert told.epsilon == pytest.approx(float(gaussian_epsilon_with_many_digits(0.5, 1e-4)), rel=1e-9)
    assert told.before_the_draw == pytest.approx(float(gaussian_epsilon_with_many_digits(0.8, 1e-4)), rel=1e-9)
    most = limited.stating(facts.Drawn(received_watts=0.16, participations=8))
    same = state_privacy(most, Server(), "gdp", adjacency="replace-one", delta=1e-4)
    assert with_any_schedule(same, most, Server()).before_the_draw is None
    strong = limited.stating(facts.Drawn(received_watts=0.16, participations=5))  # fewer slots, and as much power
    same = state_privacy(strong, Server(), "gdp", adjacency="replace-one", delta=1e-4)
    assert with_any_schedule(same, strong, Server()).before_the_draw is None
    plan = state_privacy(limited, Server(), "gdp", adjacency="replace-one", delta=1e-4)
    assert with_any_schedule(plan, limited, Server()) is plan


@pytest.mark.parametrize(("copies", "squares"), [(1, 1.0), (3, 9.0), (6, 24.0)])
def test_a_row_on_several_workers(copies: int, squares: float) -> None:
    """At most four of its workers meet in a slot: 4 x 6 times the squares of one, whose mu^2 is 8 x 0.1."""
    limited = replace(DESIGN, max_participations=8)
    row = state_row(limited, Server(), copies, adjacency="replace-one", delta=1e-4)
    assert row.epsilon == pytest.approx(float(gaussian_epsilon_with_many_digits(0.8 * squares, 1e-4)), rel=1e-9)
    assert row.unit == ("row" if copies == 1 else f"row on {copies} workers")


# ------------------------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize(("accountant", "adversary"), [("gdp", Server()), ("pld", Release()), ("rdp", Release())])
@pytest.mark.parametrize("quickly", [False, True])
def test_the_largest_power_that_keeps_a_target(accountant: str, adversary: Server | Release, quickly: bool) -> None:
    limited = replace(DESIGN, max_participations=8)
    asked = {"adjacency": "replace-one", "epsilon": 1.0, "delta": 1e-4}
    factor = calibrate_power(limited, adversary, accountant, **asked, quickly=quickly)
    question = Question(adversary=adversary, accountant=accountant, adjacency="replace-one", delta=1e-4)
    assert question.epsilon(limited.scaled(factor), quickly=quickly)[0] <= 1.0
    assert question.epsilon(limited.scaled((1.08 if quickly else 1.001) * factor), quickly=quickly)[0] > 1.0
    if accountant == "gdp":
        assert 0.8 * factor == pytest.approx(gaussian_mu(1.0, 1e-4) ** 2, rel=1e-9)


def test_a_target_that_no_power_keeps_is_refused() -> None:
    """Corollary 1 begins at ln(1 / delta) = 9.2103."""
    with pytest.raises(PrivacyError, match=r"only epsilon above ln\(1/delta\) = 9\.2103"):
        calibrate_power(DESIGN, Release(), "paper-loose", adjacency="replace-one", epsilon=9.2, delta=1e-4)
    with pytest.raises(PrivacyError, match="all are 0"):
        calibrate_power(DESIGN.scaled(0.0), Server(), "gdp", adjacency="replace-one", epsilon=1.0, delta=1e-4)
    factor = calibrate_power(DESIGN, Release(), "paper-loose", adjacency="replace-one", epsilon=9.5, delta=1e-4)
    # Sixty slots of ln(1 + r^2 4 (e^s - 1)), s = 0.1 times the factor.
    loss = 60 * math.log1p(0.04**2 * 4 * math.expm1(0.1 * factor))
    assert loss == pytest.approx(9.5 - math.log(1e4), rel=1e-6)


def test_statements_that_assume_nothing_more() -> None:
    """Nothing fails, nobody colludes, no antenna counts, and gains are as planned."""
    plain = PrivacyStatement(
        epsilon=1.0,
        delta=1e-5,
        adversary="server",
        accountant="gdp",
        adjacency="replace-one",
        sensitivity=1.0,
        sampling="none",
        sampling_rate=1.0,
        compositions=1,
        noise_watts_per_symbol=1.0,
    )
    assert (plain.failure, plain.gain_failure, plain.gain_bound) == (0.0, 0.0, 1.0)
    assert (plain.colluders, plain.antennas, plain.if_better) == (0, 0, {})
    assert (plain.target_epsilon, plain.before_the_draw, plain.unit) == (None, None, "worker")


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.05])
def test_bounds_of_the_paper_need_a_delta(delta: float) -> None:
    with pytest.raises(PrivacyError, match="delta = "):
        tight_epsilon([0.5], [3], sampling_rate=0.1, delta=delta)
    with pytest.raises(PrivacyError, match="delta = "):
        total_privacy_loss(1.0, delta)
    for rate in (0.0, 1.05):
        with pytest.raises(PrivacyError, match="sampling_rate"):
            slot_privacy_loss(0.5, rate)
