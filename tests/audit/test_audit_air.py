"""Audits on imperfect airs: sound statements stand, gains above their bound are caught, scores have the right law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from airmixml import Scenario
from airmixml.audit import Audit, AuditSettings
from airmixml.audit.faults import FAULTS, SOUND
from airmixml.audit.noise_check import check_noise
from airmixml.audit.sums import hidden_schedule_trials, known_schedule_trials
from airmixml.audit.trials import Bench, Keeper
from airmixml.messages import ScenarioError
from airmixml.radio.draws import AirSetting
from airmixml.radio.tally import placed_distances, rehearse
from airmixml.scenario import RunContext
from airmixml.streams import Streams
from airmixml.workers import load_dataset

Audited = Callable[..., Audit]
SMALL = (
    *("privacy.sensitivity=encoder", "radio.slots=40", "mixing.policy=equalmix", "radio.scheduled=100"),
    *("mixing.power=fixed", "mixing.power_scale_watts=6e-12"),
)
ROUGH = (
    *("air.phase_error_radians=0.5", "air.amplitude_error_db=1", "air.absent=0.1", "air.frequency_offset_hz=3000"),
    *("air.estimation_nmse_db=-15", "air.power_step_db=0.5"),
)
POISSON = ("radio.schedule=poisson", "privacy.accountant=pld")


def refuted(audit: Audit) -> bool:
    return any(map(audit.refutes, audit.bounds))


@pytest.mark.parametrize(
    ("fault", "schedule", "adjacency"),
    [
        ("", (), "replace-one"),
        ("gain-above-bound", (), "replace-one"),
        pytest.param("half-noise", (), "replace-one", marks=pytest.mark.long),
        ("", POISSON, "remove-one"),
        pytest.param("gain-above-bound", POISSON, "remove-one", marks=pytest.mark.long),
        ("half-noise", POISSON, "remove-one"),
    ],
)
def test_an_imperfect_air_refutes_nothing_and_hides_no_fault(
    fault: str, schedule: tuple[str, ...], adjacency: str, audited: Audited
) -> None:
    audit = audited("paper-iris", *SMALL, *schedule, *ROUGH, adversary="server", adjacency=adjacency, fault=fault)
    assert audit.caught is bool(fault)
    assert refuted(audit) is bool(fault)


def test_a_hidden_schedule_on_an_imperfect_air_is_left_out() -> None:
    rough = Scenario.preset("paper-iris").with_overrides(*SMALL, *ROUGH)
    with pytest.raises(ScenarioError, match="a hidden schedule on an imperfect air is not audited; audit the server"):
        AuditSettings(adversaries=("release",)).check(rough)
    assert AuditSettings().audited(rough) == ("server",)
    assert AuditSettings().audited(Scenario.preset("paper-iris")) == ("release", "server")


def test_trials_of_a_hidden_schedule_on_an_imperfect_air_are_refused_too() -> None:
    """Whether the schedule is hidden may depend on the data, so that settings cannot refuse it."""
    rough = Scenario.preset("paper-iris").with_overrides(*SMALL, *ROUGH)
    with pytest.raises(ScenarioError, match=r"^adversary = 'release': a hidden schedule on an imperfect air .*$"):
        hidden_schedule_trials(bench_on(rough, "remove-one"))


def bench_on(scenario: Scenario, adjacency: str) -> Bench:
    """The trials of a scenario whose samples have 4 inputs and 3 classes."""
    return Bench(
        air=AirSetting.of(scenario, 4, 3, placed_distances(scenario)),
        classes=3,
        adjacency=adjacency,
        trials=2000,
        fault=SOUND,
        keeper=Keeper(),
        context=RunContext(),
    )


@pytest.mark.parametrize(("adjacency", "move"), [("remove-one", (4 + 1) * 1.2), ("replace-one", 4 + 2)])
def test_the_score_uses_both_quadratures_and_the_pilots(adjacency: str, move: float) -> None:
    """mu^2 = sum beta q^2 |g|^2 ||dv||^2 / (sigma^2 / 2), however phases turn: the scores lie mu^2 apart."""
    turned = ("air.phase_error_radians=20", "air.amplitude_error_db=3", "air.pilot_share=0.2")
    scenario = Scenario.preset("paper-iris").with_overrides(*SMALL, *turned)
    ledger = rehearse(scenario, 4, 3).ledger
    worst = int(ledger.received_watts.argmax())
    trials = known_schedule_trials(bench_on(scenario, adjacency), worst)
    squared_mu = float(ledger.received_watts[worst]) * move / (10 ** (-11.4 - 3) / 2)
    apart = trials.scores_in.mean() - trials.scores_out.mean()
    assert apart == pytest.approx(squared_mu, abs=5 * math.sqrt(2 * squared_mu / 2000))
    assert trials.scores_in.std() == pytest.approx(math.sqrt(squared_mu), rel=0.08)


def test_too_little_noise_is_found_on_an_imperfect_air() -> None:
    scenario = Scenario.preset("paper-iris").with_overrides(*SMALL, *ROUGH, "radio.slots=1000")
    dataset = load_dataset(scenario.workers, Streams(0))
    bench = bench_on(scenario, "remove-one")
    sound = check_noise(bench, dataset, 1e-4)
    assert sound.passed
    assert sound.deviation == pytest.approx(1.0, abs=5 / math.sqrt(2 * 7000))
    assert check_noise(replace(bench, fault=FAULTS["half-noise"]), dataset, 1e-4).passed is False


@pytest.mark.long
@pytest.mark.parametrize("air", ["lab", "line-of-sight", "low-cost"])
def test_presets_on_every_air(air: str, audited: Audited) -> None:
    for preset in ("paper-iris", "private-iris"):
        on_air = f"air.preset={air}"
        assert not audited(preset, on_air, adversary="server").caught
    assert refuted(audited("private-iris", on_air, adversary="server", fault="gain-above-bound"))
