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


def test_no_test_of_two_signs_beats_the_bound() -> None:
    """The best guess of the sign of a number d deviations from 0 is right with probability Phi(d)."""
    d = np.linspace(0.0, 3.0, 301)
    assert np.all(ndtr(d) <= 0.5 + d / 2.0)


@pytest.mark.parametrize(("changes", "key"), [
    (("radio.max_power_dbm=-140",), "radio.max_power_dbm = -140"),
    (("radio.max_power_dbm=-140", "mixing.power=max"), "radio.max_power_dbm = -140"),
    (("mixing.power=fixed", "mixing.power_scale_watts=1e-30"), "mixing.power_scale_watts = 1e-30"),
    (("privacy.epsilon=1e-5", "privacy.delta=1e-12"), "privacy.epsilon = 1e-05"),
])  # fmt: skip
def test_hopeless_designs_are_refused_and_what_is_named_suffices(changes: tuple[str, ...], key: str) -> None:
    with pytest.raises(ScenarioError, match=rf"^{key}: .*nothing can be learned; must be ") as refused:
        check_learnable(setting_of(*changes))
    said = re.search(r"must be (?:at least|about) ([-+.e0-9]+)", str(refused.value))
    assert said is not None
    needed, name = float(said[1].rstrip(",")), key.partition(" ")[0]
    check_learnable(setting_of(*changes, f"{name}={2 * needed if needed > 0.0 else needed + 1.0}"))


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
    assert "nothing can be learned; must be at least" in found.verdict
    for private in (False, True):
        scenario = hopeless.with_overrides("workers.count=100", "radio.scheduled=100") if private else hopeless
        with pytest.raises(ScenarioError, match="nothing can be learned"):
            run(scenario, out=tmp_path / "run", private=private)
        assert not (tmp_path / "run").exists()
