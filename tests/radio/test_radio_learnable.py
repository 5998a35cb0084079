"""Designs from which nothing can be learned: how strong all that arrives is, and that they are refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from airmixml import Scenario, run
from airmixml.messages import ScenarioError
from airmixml.planning import InputMoments, make_plan
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.learnable import check_learnable, received_strength
from airmixml.radio.tally import placed_distances

WORKERS = 500


def setting_of(*changes: str) -> AirSetting:
    scenario = Scenario.preset("private-iris").with_overrides(
        f"workers.count={WORKERS}", f"radio.scheduled={WORKERS}", *changes
    )
    return AirSetting.of(scenario, 5, 3, np.linspace(20.0, 300.0, WORKERS))


def mu_of(epsilon: float, delta: float) -> float:
    """Solve the privacy profile of a Gaussian mechanism (Balle and Wang 2018, Theorem 8)."""
    return float(
        brentq(
            lambda mu: ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) - delta, 1e-6, 50
        )
    )


def strength_of(setting: AirSetting) -> float:
    return received_strength(setting, draw_slots(setting, range(1)))


def test_strength_is_that_of_all_workers_together() -> None:
    """With equal ratios in one slot, a removed worker moves the sum by mu deviations, all together by N times that."""
    setting = setting_of("privacy.epsilon=1", "privacy.adjacency=remove-one")
    mu = mu_of(1.0, setting.scenario.privacy.delta)
    assert strength_of(setting) == pytest.approx((WORKERS * mu) ** 2, rel=1e-6)
    check_learnable(setting)


def test_slots_add_up_and_power_counts_in_proportion() -> None:
    one, ten = (setting_of("mixing.power=fixed", f"radio.slots={slots}") for slots in (1, 10))
    louder = setting_of("mixing.power=fixed", f"mixing.power_scale_watts={10 * one.scenario.mixing.power_scale_watts}")
    assert strength_of(ten) == pytest.approx(10 * strength_of(one))
    assert strength_of(louder) == pytest.approx(10 * strength_of(one))


@pytest.mark.parametrize("d", [0.5, 1.07, 3.0])
def test_no_learner_beats_the_bound(d: float) -> None:
    """The best rule for the name of one of three classes, whose sums lie as far apart as can be, by simulation."""
    tried, rng = 200_000, np.random.default_rng(7)
    means = d / 3.0 * np.eye(3)  # each sqrt(2) d / 3 from the others
    names = rng.integers(3, size=tried)
    received = means[names] + rng.standard_normal((tried, 3))
    gain = (received.argmax(axis=1) == names).mean() - 1.0 / 3.0
    assert 0.3 * (bound := 2.0 * ndtr(d / 3.0 / math.sqrt(2.0)) - 1.0) < gain < bound


def test_a_target_that_lets_a_fifth_be_gained_is_the_least() -> None:
    """sqrt(2) d / 3 is the distance at which two Gaussians have the total variation distance 1/5."""
    least = 3.0 * 0.2533471031357997 * math.sqrt(2.0)  # the quantile of 0.6, from tables
    watts = setting_of("mixing.power=fixed").scenario.mixing.power_scale_watts
    strength = strength_of(setting_of("mixing.power=fixed"))
    for factor, refused in ((1.001, False), (0.999, True)):
        scale = f"mixing.power_scale_watts={watts * factor * least**2 / strength}"
        setting = setting_of("mixing.power=fixed", scale)
        if not refused:
            check_learnable(setting)
            continue
        with pytest.raises(ScenarioError, match="at most 20 % more answers"):
            check_learnable(setting)


def test_a_large_design_is_refused_too() -> None:
    """535,040 numbers at -56 dB each: before, the energy of all of them together let it pass."""
    scenario = Scenario.preset("private-mnist").with_overrides("radio.max_power_dbm=-120")
    with pytest.raises(ScenarioError, match="too weak to learn from"):
        check_learnable(AirSetting.of(scenario, 1025, 10, placed_distances(scenario)))


@pytest.mark.parametrize(("changes", "key"), [
    (("radio.max_power_dbm=-140",), "radio.max_power_dbm = -140"),
    (("radio.max_power_dbm=-140", "mixing.power=max"), "radio.max_power_dbm = -140"),
    (("mixing.power=fixed", "mixing.power_scale_watts=1e-30"), "mixing.power_scale_watts = 1e-30"),
    (("privacy.epsilon=1e-5", "privacy.delta=1e-12"), "privacy.epsilon = 1e-05"),
])  # fmt: skip
def test_hopeless_designs_are_refused_and_what_is_named_suffices(changes: tuple[str, ...], key: str) -> None:
    with pytest.raises(ScenarioError, match=rf"^{key}: .*too weak to learn from: .*; must be ") as refused:
        check_learnable(setting_of(*changes))
    said = re.search(r"must be (?:at least|about) ([-+.e0-9]+)", str(refused.value))
    assert said is not None
    needed, name = float(said[1].rstrip(",")), key.partition(" ")[0]
    check_learnable(setting_of(*changes, f"{name}={needed}"))


def test_the_power_that_is_named_lets_the_target_be_used_in_full() -> None:
    with pytest.raises(ScenarioError, match="at least") as refused:
        check_learnable(setting_of("radio.max_power_dbm=-140"))
    needed = str(refused.value).split("at least ")[1].split()[0]
    enough = setting_of(f"radio.max_power_dbm={needed}")
    assert not draw_slots(enough, range(1)).limited.any()


def test_plan_and_run_refuse_before_anything_is_sent(tmp_path) -> None:  # type: ignore[no-untyped-def]
    hopeless = Scenario.preset("private-iris").with_overrides("radio.max_power_dbm=-140")
    found = make_plan(hopeless, 5, 3, InputMoments(mean=0.0, deviation=1.0))
    assert not found.feasible
    assert "too weak to learn from: " in found.verdict
    for private in (False, True):
        scenario = hopeless.with_overrides("workers.count=100", "radio.scheduled=100") if private else hopeless
        with pytest.raises(ScenarioError, match="too weak to learn from"):
            run(scenario, out=tmp_path / "run", private=private)
        assert not (tmp_path / "run").exists()
