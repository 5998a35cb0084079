import math
from dataclasses import replace

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slots_for_tests import assert_calibrated, spent

from airmixml.messages import PrivacyError
from airmixml.privacy import (
    Adversary,
    Design,
    Eavesdropper,
    Question,
    Release,
    Sensitivity,
    Server,
    calibrate_power,
    facts,
)

NEAR = Eavesdropper(gain=1e-8, own_noise_watts=4e-15)
SENSITIVITY = Sensitivity(removal=7.0, replacement=9.0)


def design_of(watts: tuple[float, ...], counts: tuple[int, ...], workers: int, scheduled: int) -> Design:
    return Design(
        workers=workers,
        scheduled=scheduled,
        received_watts=watts,
        counts=counts,
        sensitivity=SENSITIVITY,
        noise_watts=4e-15,
        facts=(facts.Transmitters(weakest_gain=1e-7),),
    )


ONE_KIND = design_of((3e-15,), (200,), 100, 2)
THREE_KINDS = design_of((1e-15, 5e-15, 2e-14), (60, 30, 10), 100, 2)

some_designs = st.builds(
    lambda kinds, workers, scheduled: design_of(
        tuple(1e-15 * 10.0**log for log, _ in kinds), tuple(count for _, count in kinds), workers, scheduled
    ),
    st.lists(st.tuples(st.floats(-2, 2), st.sampled_from([1, 20, 500])), min_size=1, max_size=4),
    st.sampled_from([8, 100, 60_000]),
    st.sampled_from([1, 2, 8]),
)
targets = st.floats(math.log(0.05), math.log(1e8)).map(math.exp)
deltas = st.floats(-9, -1).map(lambda log: 10.0**log)


@given(
    design=some_designs,
    adversary=st.sampled_from([Release(), Release(colluders=3), Server(), NEAR]),
    adjacency=st.sampled_from(["replace-one", "remove-one"]),
    excess=targets,
    delta=deltas,
)
@settings(max_examples=150, deadline=None)
def test_paper_loose_meets_every_target_above_its_least_and_no_more(
    design: Design, adversary: Adversary, adjacency: str, excess: float, delta: float
) -> None:
    assert_calibrated(design, adversary, "paper-loose", adjacency, math.log(1.0 / delta) + excess, delta)


@given(
    design=some_designs,
    adversary=st.sampled_from([Server(), Server(colluders=5)]),
    adjacency=st.sampled_from(["replace-one", "remove-one"]),
    epsilon=targets,
    delta=deltas,
)
@settings(max_examples=150, deadline=None)
def test_gdp_meets_every_target_of_the_server_and_no_more(
    design: Design, adversary: Adversary, adjacency: str, epsilon: float, delta: float
) -> None:
    assert_calibrated(design, adversary, "gdp", adjacency, epsilon, delta)


@given(design=some_designs, adversary=st.sampled_from([Release(), NEAR]), epsilon=targets, delta=deltas)
@settings(max_examples=60, deadline=None)
def test_gdp_meets_every_target_where_power_tells_the_schedule(
    design: Design, adversary: Adversary, epsilon: float, delta: float
) -> None:
    assert_calibrated(design.stating(facts.PowerTells()), adversary, "gdp", "replace-one", epsilon, delta)


@given(
    design=some_designs,
    accountant=st.sampled_from(["paper-tight", "rdp", "pld"]),
    adjacency=st.sampled_from(["replace-one", "remove-one"]),
    epsilon=targets,
    delta=deltas,
)
@settings(max_examples=5, deadline=None)
def test_every_accountant_meets_targets_of_the_server_and_no_more(
    design: Design, accountant: str, adjacency: str, epsilon: float, delta: float
) -> None:
    if accountant == "paper-tight":
        epsilon += math.log(1.0 / delta) / 511.0
    if accountant == "pld":
        epsilon = min(epsilon, 100.0)
    assert_calibrated(design, Server(), accountant, adjacency, epsilon, delta)


@given(
    limit=st.integers(3, 60),
    adversary=st.sampled_from([Release(), Release(colluders=3), Server(), NEAR]),
    accountant=st.sampled_from(["gdp", "paper-loose"]),
    excess=targets,
    delta=deltas,
)
@settings(max_examples=60, deadline=None)
def test_targets_are_met_and_no_more_where_participations_are_limited(
    limit: int, adversary: Adversary, accountant: str, excess: float, delta: float
) -> None:
    limited = replace(THREE_KINDS, max_participations=limit)
    epsilon = excess + (math.log(1.0 / delta) if accountant == "paper-loose" else 0.0)
    assert_calibrated(limited, adversary, accountant, "replace-one", epsilon, delta)


def test_the_power_for_the_server_against_many_digits() -> None:
    """Both workers send in all 100 slots, together 0.41e-12 W: mu^2 = 9 x 0.41e-12 / 2e-15 times the factor."""
    everybody = replace(THREE_KINDS, workers=2, scheduled=2)
    factor = calibrate_power(everybody, Server(), "gdp", adjacency="replace-one", epsilon=2.0, delta=1e-5)
    with mpmath.workdps(50):
        low, high = mpmath.mpf("0.1"), mpmath.mpf(2)
        for _ in range(80):
            mu = (low + high) / 2
            delta = mpmath.ncdf(mu / 2 - 2 / mu) - mpmath.exp(2) * mpmath.ncdf(-mu / 2 - 2 / mu)
            low, high = (mu, high) if delta < mpmath.mpf("1e-5") else (low, mu)
        expected = float(mu**2) / (9.0 * 0.41e-12 / 2e-15)
    assert factor == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("epsilon", [0.05, 4.0, math.log(100.0)])
@pytest.mark.parametrize("adversary", [Release(), Server()])
def test_paper_loose_refuses_what_lies_below_ln_1_over_delta_and_names_its_least(
    adversary: Adversary, epsilon: float
) -> None:
    said = r"paper-loose certifies only epsilon above ln\(1/delta\) = 4\.6052"
    asked = Question(adversary=adversary, accountant="paper-loose", adjacency="replace-one", delta=0.01)
    with pytest.raises(PrivacyError, match=said):
        asked.check_target(ONE_KIND, epsilon)
    with pytest.raises(PrivacyError, match=said):
        calibrate_power(ONE_KIND, adversary, "paper-loose", adjacency="replace-one", epsilon=epsilon, delta=0.01)


@pytest.mark.parametrize(
    ("accountant", "adversary"),
    [
        ("paper-tight", Release()),
        ("rdp", Release()),
        pytest.param("pld", Release(), marks=pytest.mark.long),
        ("gdp", Server()),
    ],
)
def test_the_others_manage_half_of_ln_1_over_delta(accountant: str, adversary: Adversary) -> None:
    assert_calibrated(ONE_KIND, adversary, accountant, "replace-one", 0.5 * math.log(1e5), 1e-5)


def test_paper_tight_refuses_what_its_largest_order_cannot_certify() -> None:
    """ln(1/delta) / 511 = 0.02253 for delta = 1e-5."""
    with pytest.raises(
        PrivacyError, match=r"paper-tight certifies only epsilon above 0\.02253 .*privacy.accountant = pld"
    ):
        calibrate_power(ONE_KIND, Server(), "paper-tight", adjacency="replace-one", epsilon=0.0225, delta=1e-5)


def test_a_power_limit_that_keeps_the_target_by_itself_leaves_the_factor_unbounded() -> None:
    """At most 1e-9 W are sent, so mu^2 of the eavesdropper's 200 slots is at most 28 x 1e-17 / 2e-15 x 200 = 28."""
    limited = ONE_KIND.stating(facts.Transmitters(weakest_gain=1e-7, limit_watts=1e-9))
    factor = calibrate_power(limited, NEAR, "paper-loose", adjacency="replace-one", epsilon=100.0, delta=0.01)
    assert factor > 1e6
    assert spent(limited.scaled(1e9 * factor), NEAR, "paper-loose", "replace-one", 0.01) <= 100.0


@given(excess=st.floats(0.01, 0.5), delta=deltas)
@settings(max_examples=20, deadline=None)
def test_a_power_limit_does_not_get_in_the_way_of_targets_below_it(excess: float, delta: float) -> None:
    limited = THREE_KINDS.stating(facts.Transmitters(weakest_gain=1e-7, limit_watts=1e-7))
    factor = calibrate_power(
        limited, NEAR, "paper-loose", adjacency="replace-one", epsilon=math.log(1 / delta) + excess, delta=delta
    )
    assert max(limited.scaled(factor).sent_watts) < 1e-7
    assert_calibrated(limited, NEAR, "paper-loose", "replace-one", math.log(1 / delta) + excess, delta)


def test_a_target_that_no_power_below_the_limit_can_miss_is_refused_where_channels_have_no_floor() -> None:
    """Without a weakest channel somebody may always send at the limit, however little is received."""
    floorless = ONE_KIND.stating(facts.Transmitters(limit_watts=1.0))
    with pytest.raises(PrivacyError, match=r"privacy\.epsilon.* (no power keeps|certifies only)"):
        calibrate_power(floorless, NEAR, "paper-loose", adjacency="replace-one", epsilon=8.0, delta=0.01)
