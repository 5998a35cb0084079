"""Attacks on sums of integers: they find what little noise leaves, and nothing of what enough of it hides."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.attacks import attack
from airmixml.attacks.isolating_listener import isolated_precision
from airmixml.attacks.watched import watch

FEW = (
    *("workers.count=60", "workers.train_samples=60", "radio.scheduled=60", "workers.holding=dealt"),
    *("privacy.arithmetic=integers", "privacy.mask_degree=16"),
)
EVERY = ("informed-server", "informed-release", "informed-everyone")


def scenario_of(*overrides: str) -> Scenario:
    return Scenario.preset("trustless-iris").with_overrides(*FEW, *overrides)


@pytest.mark.parametrize(("epsilon", "least", "most"), [(1e5, 0.99, 1.0), (0.1, 0.0, 0.1)])
def test_informed_adversaries_name_a_sample_at_next_to_no_noise(
    epsilon: float, least: float, most: float, tmp_path: Path
) -> None:
    case = attack(scenario_of(f"privacy.epsilon={epsilon:g}"), EVERY, out=tmp_path / "found", pictures=False)
    named = [found.findings.worker.named for found in case.found.values()]  # type: ignore[attr-defined]
    assert len(named) == 3
    assert all(least <= each <= most for each in named)


@pytest.mark.parametrize("masked", [True, False])
def test_everyone_has_the_sum_of_the_honest_workers_or_each_alone(masked: bool) -> None:
    """Skellam noise of variance V in steps on v, or of V / N without masks: precisions 1 / (V step^2), N times that."""
    alone = () if masked else ("privacy.noise=workers", "privacy.mask_degree=0")
    view = watch(scenario_of(*alone))
    sums = view.setting.integers
    assert sums is not None
    each = sums.noise.variance_per_worker * sums.noise.code.step**2
    member = np.full(60, -1)
    member[[3, 4]] = 0, 1
    found = isolated_precision(view, member, 2)
    np.testing.assert_allclose(found, 1.0 / (60 * each if masked else each), rtol=1e-6)
    member[4] = 0  # a vector that two workers send: twice of it in the sum, or twice heard
    np.testing.assert_allclose(isolated_precision(view, member, 1), (4.0 / 60 if masked else 2.0) / each, rtol=1e-5)


def test_the_server_weighs_slots_by_noise_and_rounding() -> None:
    view = watch(scenario_of())
    sums = view.setting.integers
    assert sums is not None
    deviation = math.sqrt(sums.noise.noise_variance) / 60
    assert view.weights[0] ** -0.5 == pytest.approx(deviation, rel=0.02)
    assert view.weights[0] ** -0.5 >= deviation


def test_an_eavesdropper_is_everyone(tmp_path: Path) -> None:
    case = attack(scenario_of(), ("informed-everyone", "eavesdropper"), out=tmp_path / "found", pictures=False)
    assert "what everyone does" in case.left_out["eavesdropper"]
