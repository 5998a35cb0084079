"""Audits of runs with rounds: all slots are heard, each round under the model that was broadcast before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError
from airmixml.arrays import Doubles
from airmixml.audit import Audit, AuditSettings, fault_named
from airmixml.radio import draws, transmission
from airmixml.workers.gradients import Gradients

Audited = Callable[..., Audit]
FEW: dict[str, Any] = {"trials": 300}
TABLE = ("workers.count=40", "radio.scheduled=40", "privacy.delta=1e-3", "workers.centre=public", "privacy.epsilon=5")
CLASSES = ("workers.norm=unit", "workers.label_code=centred", "learner.model=ridge", "learner.rounds=4")
ROUNDS = ("private-table", *TABLE, *CLASSES)
ALONE = (*ROUNDS, "workers.sends=gradients", "learner.rounds=0", "radio.slots=4", "learner.descent=adam")
MASKED = ("trustless-digits-rounds", "privacy.epsilon=1")
HIDDEN = (*ROUNDS, "workers.count=379", "radio.scheduled=100", "privacy.adversary=release", "privacy.accountant=rdp")
FEW_DIGITS = ("workers.count=50", "radio.scheduled=50", "learner.rounds=3", "privacy.epsilon=5")
IMPERFECT = (*MASKED, *FEW_DIGITS, "privacy.noise=receiver", "privacy.adversary=server", "air.preset=line-of-sight")


def claimed(audit: Audit) -> float:
    assert audit.sharpest is not None
    assert audit.sharpest.epsilon is not None
    return audit.sharpest.epsilon


def refuted(audit: Audit) -> bool:
    """Whether an attack caught it, not only a look at the noise."""
    return any(map(audit.refutes, audit.bounds))


def squared_mu(audit: Audit) -> float:
    """Of Gaussian mechanisms that have exactly this epsilon at this delta (Dong et al. 2022), by bisection."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    epsilon = claimed(audit)

    def excess(mu: float) -> float:
        cut = epsilon / mu
        return float(norm.cdf(mu / 2 - cut) - math.exp(epsilon) * norm.cdf(-mu / 2 - cut)) - audit.delta

    return float(brentq(excess, 1e-3, 50.0)) ** 2


@pytest.mark.parametrize("scenario", [ROUNDS, pytest.param(ALONE, marks=pytest.mark.long)])
def test_scores_have_the_law_of_the_claim(scenario: tuple[str, ...], audited: Audited) -> None:
    """Log-likelihood ratios of a Gaussian mechanism are normal: mean +-mu^2 / 2, variance mu^2."""
    audit = audited(*scenario, adversary="server", trials=600)
    square, trials = squared_mu(audit), audit.trials
    assert not audit.caught
    for scores, sign in ((trials.scores_in, 1.0), (trials.scores_out, -1.0)):
        error = math.sqrt(square / len(scores))
        assert float(scores.mean()) == pytest.approx(sign * square / 2.0, abs=4.5 * error)
        assert float(scores.var()) == pytest.approx(square, rel=4.5 * math.sqrt(2.0 / len(scores)))
    assert (audit.best.epsilon or 0.0) > 0.6 * claimed(audit)


@pytest.mark.parametrize("fault", ["half-noise", "wrong-sensitivity", "no-clip"])
@pytest.mark.parametrize("scenario", [ROUNDS, pytest.param(ALONE, marks=pytest.mark.long)])
def test_faults_are_refuted_by_the_server(scenario: tuple[str, ...], fault: str, audited: Audited) -> None:
    assert refuted(audited(*scenario, adversary="server", fault=fault, **FEW))


@pytest.mark.parametrize("scenario", [ROUNDS, ALONE])
def test_noise_of_another_slot_is_seen_in_the_noise_of_rounds(scenario: tuple[str, ...], audited: Audited) -> None:
    audit = audited(*scenario, adversary="server", fault="reused-round-noise", trials=100)
    assert audit.caught
    (found,) = [check for check in audit.noise_checks if check.passed is False]
    assert "the noise of rounds" in found.why_not
    assert "repeats itself" in found.why_not


def test_noise_of_another_slot_in_the_real_code(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    real = draws.draw_noise

    def of_the_first(setting: draws.AirSetting, slots: range, *device: Any) -> Any:
        rounds = draws.slots_of_rounds(setting.scenario)
        return real(setting, range(rounds.start, rounds.start + 1) if slots.start in rounds else slots, *device)

    assert not audited(*ROUNDS, adversary="server", trials=100).caught
    monkeypatch.setattr(transmission, "draw_noise", of_the_first)
    audit = audited(*ROUNDS, adversary="server", trials=100)
    assert audit.noise_checks[0].passed
    assert "repeats itself" in audit.noise_checks[1].why_not


def test_a_clip_that_is_forgotten_in_the_real_code(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(self: Gradients) -> tuple[Doubles, Doubles]:
        errors = self._told.errors(self.inputs, self.one_hot)
        return errors, np.full(self.pool_size, self.unit)

    monkeypatch.setattr(Gradients, "_shares", property(unclipped))
    assert refuted(audited(*ROUNDS, adversary="server", **FEW))
    assert refuted(audited(*MASKED, adversary="everyone", trials=2000))


def test_gradients_of_the_wrong_unit_in_the_real_code(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Gradients.unit.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Gradients, "unit", property(lambda self: 2.0 * unit(self)))
    assert refuted(audited(*ROUNDS, adversary="server", **FEW))


def test_an_isolating_listener_hears_the_rounds_too(audited: Audited) -> None:
    audit = audited(*MASKED, adversary="everyone", trials=20_000)
    assert audit.trials.how.startswith("9 slots, every worker heard separately")
    assert not audit.caught
    assert (audit.best.epsilon or 0.0) > 0.8 * claimed(audit)


@pytest.mark.parametrize("fault", ["no-mask", "reused-seed", "half-noise", "no-clip"])
def test_faults_are_caught_by_an_isolating_listener(fault: str, audited: Audited) -> None:
    assert audited(*MASKED, adversary="everyone", fault=fault, trials=1000).caught


@pytest.mark.parametrize(("scenario", "adversary"), [(HIDDEN, "release"), (IMPERFECT, "server")])
def test_rounds_under_one_model(scenario: tuple[str, ...], adversary: str, audited: Audited) -> None:
    """Where the schedule is hidden, and on an imperfect air."""
    sound, broken = (audited(*scenario, adversary=adversary, fault=fault, trials=2000) for fault in ("", "no-clip"))
    assert sound.trials.how.endswith("; one model is broadcast in all rounds")
    assert not sound.caught
    assert refuted(broken)


def test_replaced_rows_move_by_twice_the_norm(audited: Audited) -> None:
    """Of a share of 0.9 all that is claimed is reached; of the moments, that labels differ: w^2 of 1 + w^2."""
    audit = audited(*ROUNDS, adversary="server", adjacency="replace-one", trials=2000)
    square = (0.9 + 0.1 * 1.0 / (1.0 + 1.0)) * squared_mu(audit)  # the weight of labels is 1
    assert not audit.caught
    assert float(audit.trials.scores_in.var()) == pytest.approx(square, rel=4.5 * math.sqrt(2.0 / 1000))


@pytest.mark.parametrize(
    ("preset", "fault", "adversaries", "why"),
    [
        ("private-iris", "no-clip", (), "there are no rounds; use learner.rounds"),
        ("private-iris", "reused-round-noise", (), "there are no rounds; use learner.rounds"),
        ("trustless-digits-rounds", "reused-round-noise", ("everyone",), "audit the server"),
    ],
)
def test_faults_that_break_nothing_are_refused(preset: str, fault: str, adversaries: tuple[str, ...], why: str) -> None:
    settings = AuditSettings(adversaries=adversaries, fault=fault_named(fault))
    with pytest.raises(ScenarioError, match=why):
        settings.check(Scenario.preset(preset))


def test_noise_of_the_slot_before_in_the_real_code(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round alone has the noise of the slot of moments."""
    real = draws.draw_noise

    def of_the_moments(setting: draws.AirSetting, slots: range, *device: Any) -> Any:
        if slots.start != draws.slots_of_rounds(setting.scenario).start:
            return real(setting, slots, *device)
        return real(replace(setting, in_rounds=False), range(1), *device)

    monkeypatch.setattr(transmission, "draw_noise", of_the_moments)
    audit = audited(*ROUNDS, adversary="server", trials=100)
    assert audit.noise_checks[0].passed
    assert audit.noise_checks[1].why_not == "the noise of rounds repeats itself"
