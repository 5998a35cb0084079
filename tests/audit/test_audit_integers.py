"""Audits of sums of integers: trials against exact Skellam chances, bounds near the claim, faults on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import ive
from scipy.stats import chi2

from airmixml import Scenario, ScenarioError
from airmixml.audit import Audit, AuditSettings, fault_named, noise_check
from airmixml.audit.faults import SOUND
from airmixml.audit.isolating_listener import check_added_noise
from airmixml.audit.sums import heard_noise, known_schedule_trials
from airmixml.audit.trials import Bench, Keeper
from airmixml.radio.draws import AirSetting
from airmixml.radio.tally import placed_distances
from airmixml.scenario import RunContext

Audited = Callable[..., Audit]
FEW = (
    "workers.count=150",
    "radio.scheduled=150",
    "privacy.epsilon=1",
    "privacy.mask_degree=16",
    "privacy.arithmetic=integers",
)


def bench_of(*overrides: str, fault: str = "", trials: int = 20_000) -> Bench:
    scenario = Scenario.preset("trustless-iris").with_overrides(*FEW, *overrides)
    return Bench(
        air=AirSetting.of(scenario, 5, 3, placed_distances(scenario)),
        classes=3,
        adjacency="remove-one",
        trials=trials // 2,
        fault=fault_named(fault),
        keeper=Keeper(),
        context=RunContext(),
    )


def test_what_is_heard_has_the_chances_of_skellam_numbers_modulo_a_power_of_two() -> None:
    bench = bench_of("privacy.modulus_bits=10")
    sums = bench.air.integers
    assert sums is not None
    noise = heard_noise(bench.air.scenario, [sums], SOUND)
    code, trials = sums.noise.code, 40_000
    sent = torch.full((trials, 1), 0.25 * code.step / sums.noise.workers, dtype=torch.float64)  # a quarter of a step
    received = noise.put_on(sent, torch.ones(trials), torch.Generator().manual_seed(1)).numpy()[:, 0]
    steps = np.rint(received * sums.noise.workers / code.step).astype(int)
    variance = sums.honest.count * sums.noise.variance_per_worker
    reach = int(4.0 * math.sqrt(variance)) + 2
    values = np.arange(-reach, reach + 1)
    chances = 0.75 * ive(values, variance) + 0.25 * ive(values - 1, variance)  # a quarter is rounded up
    counts = np.array([(steps == value).sum() for value in values])
    often = chances * trials > 20.0
    statistic = float(((counts - trials * chances) ** 2 / (trials * chances))[often].sum())
    assert chi2.sf(statistic, int(often.sum())) > 1e-6
    assert np.abs(steps).max() < 2 ** (code.bits - 1) + 1


def test_scores_differ_as_the_norm_over_the_noise() -> None:
    bench = bench_of()
    sums = bench.air.integers
    assert sums is not None
    trials = known_schedule_trials(bench, 0)
    deviation = math.sqrt(sums.honest.count * sums.noise.variance_per_worker)
    moved = sums.noise.code.steps / deviation  # norm of the canary over the deviation, both in steps
    apart = (trials.scores_in.mean() - trials.scores_out.mean()) / np.std(trials.scores_out)
    assert apart == pytest.approx(moved, abs=6.0 * math.sqrt(2.0 / bench.trials))


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_check, "_ENOUGH_NUMBERS", 900)


@pytest.mark.parametrize("adversary", ["server", "release", "everyone"])
def test_a_sound_mechanism_is_not_caught_and_half_its_noise_is(adversary: str, audited: Audited) -> None:
    sound = audited("trustless-iris", *FEW, adversary=adversary, trials=100_000)
    assert not sound.caught
    assert sound.sharpest is not None
    assert sound.sharpest.epsilon == pytest.approx(1.0, abs=1e-6)
    assert 0.8 < (sound.best.epsilon or 0.0) < 1.0
    broken = audited("trustless-iris", *FEW, adversary=adversary, fault="half-noise")
    assert any(map(broken.refutes, broken.bounds))


@pytest.mark.parametrize("fault", ["no-noise", "coarse-step"])
def test_bounds_refute_a_claim_without_its_noise_or_steps(fault: str, audited: Audited) -> None:
    broken = audited("trustless-iris", *FEW, adversary="server", fault=fault)
    assert any(map(broken.refutes, broken.bounds))


@pytest.mark.parametrize("recovered", ["privacy.most_absent=0", "privacy.most_absent=0.05"])
@pytest.mark.parametrize("fault", ["no-mask", "reused-seed"])
def test_masks_that_are_missing_or_come_again_are_caught(fault: str, recovered: str, audited: Audited) -> None:
    broken = audited(
        "trustless-iris", *FEW, "privacy.mask_degree=120", recovered, adversary="everyone", fault=fault, trials=100
    )
    assert broken.noise_checks[0].passed is False


def test_masks_cancel_in_the_sum_of_what_is_formed() -> None:
    check = check_added_noise(bench_of(), 0, 1e-6)
    assert check.passed is True
    assert check.deviation == pytest.approx(1.0, abs=0.05)


def test_own_noise_alone_counts_without_masks(audited: Audited) -> None:
    few = [each for each in FEW if "mask_degree" not in each]
    audit = audited("trustless-iris", *few, "privacy.noise=workers", adversary="everyone", trials=100_000)
    assert not audit.caught
    assert 0.8 < (audit.best.epsilon or 0.0) < 1.0


def test_rounds_of_integers(audited: Audited) -> None:
    audit = audited(
        "trustless-iris",
        *FEW,
        "learner.rounds=3",
        adversary="server",
        trials=200,
    )
    assert not audit.caught
    assert audit.noise_checks[1].deviation == pytest.approx(1.0, abs=0.14)  # 900 numbers


@pytest.mark.parametrize(
    ("overrides", "fault", "message"),
    [
        ((), "wrong-sensitivity", "shorten what is longer"),
        (("learner.rounds=3",), "no-clip", "shorten what is longer"),
        (("privacy.arithmetic=real",), "coarse-step", 'use privacy.arithmetic = "integers"'),
    ],
)
def test_faults_that_break_nothing_are_refused(overrides: tuple[str, ...], fault: str, message: str) -> None:
    scenario = Scenario.preset("trustless-iris").with_overrides(*FEW, *overrides)
    with pytest.raises(ScenarioError, match=message):
        AuditSettings(fault=fault_named(fault)).check(scenario)
