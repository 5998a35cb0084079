"""Broken mechanisms are caught: by a switch, and by breaking the real code. These tests guard the audit itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airmixml import ScenarioError
from airmixml.audit import FAULTS, Audit, fault_named, sums
from airmixml.radio import schedules, transmission
from airmixml.workers import encoding, payloads

Audited = Callable[..., Audit]
SMALL = ("privacy.sensitivity=encoder", "radio.slots=40", "mixing.policy=equalmix")
# An epsilon of one to ten for both adversaries, without a search for the power.
OPTIONS = {
    "fixed": (*SMALL, "radio.scheduled=100", "mixing.power=fixed", "mixing.power_scale_watts=6e-12"),
    "poisson": (
        *SMALL,
        "radio.scheduled=100",
        "radio.schedule=poisson",
        "privacy.accountant=pld",
        "mixing.power=fixed",
        "mixing.power_scale_watts=6e-12",
    ),
}


def refuted(audit: Audit) -> bool:
    """Whether an attack caught it, not only a look at the noise."""
    return any(map(audit.refutes, audit.bounds))


CASES = [
    ("server", ""),
    ("server", "half-noise"),
    ("server", "wrong-sensitivity"),
    ("server", "gain-above-bound"),
    ("release", ""),
    ("release", "half-noise"),
    ("release", "wrong-sensitivity"),
    ("release", "schedule-revealed"),
]


@pytest.mark.parametrize(
    ("adversary", "fault", "schedule", "adjacency"),
    [
        *((*case, "fixed", "replace-one") for case in CASES),
        *(
            pytest.param(*case, "poisson", "remove-one", marks=[pytest.mark.long] if place % 4 > 1 else [])
            for place, case in enumerate(CASES)
        ),
    ],
)
def test_a_fault_is_caught_and_a_sound_mechanism_is_not(
    adversary: str, fault: str, schedule: str, adjacency: str, audited: Audited
) -> None:
    audit = audited("paper-iris", *OPTIONS[schedule], adversary=adversary, adjacency=adjacency, fault=fault)
    sharpest = audit.sharpest
    assert sharpest is not None
    assert sharpest.epsilon is not None
    assert 0.5 < sharpest.epsilon < 60.0
    assert audit.caught is bool(fault)
    assert refuted(audit) is bool(fault)


@pytest.mark.long
def test_presets_with_faults(audited: Audited) -> None:
    for fault in ("half-noise", "wrong-sensitivity"):
        assert refuted(audited("private-iris", adversary="server", fault=fault))
        assert refuted(audited("paper-iris", adversary="server", fault=fault))
    assert refuted(audited("paper-iris", adversary="release", fault="schedule-revealed"))


def test_names() -> None:
    of_masks, of_rounds = {"no-mask", "reused-seed"}, {"no-clip", "reused-round-noise"}
    always = {"half-noise", "no-noise", "wrong-sensitivity", "gain-above-bound", "schedule-revealed"}
    assert set(FAULTS) == always | of_masks | of_rounds | {"coarse-step"}
    assert fault_named("").name == ""
    with pytest.raises(ScenarioError, match=r"--fault = 'halfnoise': must be one of .*; did you mean half-noise\?"):
        fault_named("halfnoise")


@pytest.mark.parametrize("adversary", ["server", "release"])
def test_half_the_noise_in_the_real_code(adversary: str, audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sums.receive_mixtures
    monkeypatch.setattr(sums, "receive_mixtures", lambda clean, noise, *rest: real(clean, noise / 2.0, *rest))
    assert audited("paper-iris", *OPTIONS["fixed"], adversary=adversary).caught


@pytest.mark.parametrize("adversary", ["server", "release"])
def test_an_encoder_that_forgets_to_clip(adversary: str, audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    clipped = (
        *OPTIONS["fixed"],
        "workers.encoder=clip",
        "workers.clip_norm=0.5",
        "workers.label_weight=0.1",
        "mixing.power_scale_watts=6e-11",
    )
    assert not audited("paper-iris", *clipped, adversary=adversary).caught
    monkeypatch.setattr(encoding, "bound_norms", lambda _workers, inputs: (inputs, 0))
    with pytest.raises(ScenarioError, match="which the scenario's encoder declares"):
        audited("paper-iris", *clipped, adversary=adversary)  # the sender looks too
    monkeypatch.setattr(transmission, "within_declared", lambda _workers, inputs: inputs)
    assert audited("paper-iris", *clipped, adversary=adversary).caught


def test_a_sender_that_weighs_labels_wrongly(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = (*OPTIONS["fixed"], "workers.encoder=clip", "workers.label_weight=0.1")
    assert not audited("paper-iris", *scenario, adversary="server").caught
    real = payloads.Samples.__init__

    def heavier(self: Any, *, labels: Any, **options: Any) -> None:
        real(self, labels=10.0 * labels, **options)

    monkeypatch.setattr(payloads.Samples, "__init__", heavier)
    assert audited("paper-iris", *scenario, adversary="server").caught


@pytest.mark.long
def test_a_schedule_that_favours_a_worker(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    # One worker in twenty is looked at, so that of 30 it is the first one alone.
    few = (*SMALL, "workers.count=30", "radio.scheduled=3", "mixing.power=fixed", "mixing.power_scale_watts=2e-15")
    assert not audited("paper-iris", *few, adversary="release", trials=1500).caught
    real = schedules.draw_schedule

    def favouring(*asked: Any) -> Any:
        drawn = real(*asked)
        drawn[~(drawn == 0).any(dim=1), 0] = 0
        return drawn

    monkeypatch.setattr(schedules, "draw_schedule", favouring)
    assert audited("paper-iris", *few, adversary="release", trials=1500).caught
