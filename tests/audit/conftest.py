from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.audit import Audit, Auditor, AuditSettings, fault_named
from airmixml.audit.faults import SOUND
from airmixml.audit.trials import Bench, Keeper
from airmixml.radio.draws import AirSetting
from airmixml.radio.tally import placed_distances
from airmixml.scenario import RunContext
from airmixml.streams import Streams
from airmixml.workers import load_dataset


@pytest.fixture(scope="session")
def audited() -> Callable[..., Audit]:
    """Audit a preset with overrides as one adversary."""

    def call(preset: str, *overrides: str, adversary: str, fault: str = "", **options: Any) -> Audit:
        scenario = Scenario.preset(preset).with_overrides(*overrides)
        dataset = load_dataset(scenario.workers, Streams(scenario.seed))
        asked = {"adversaries": (adversary,), **options}
        return Auditor(scenario, dataset, AuditSettings(fault=fault_named(fault), **asked)).audit(adversary)

    return call


@pytest.fixture(scope="session")
def bench_of() -> Callable[..., Bench]:
    """What the trials of a preset have in common."""

    def call(preset: str, trials: int = 10_000) -> Bench:
        scenario = Scenario.preset(preset)
        dataset = load_dataset(scenario.workers, Streams(scenario.seed))
        return Bench(
            air=AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, placed_distances(scenario)),
            classes=dataset.label_dim,
            adjacency=scenario.privacy.adjacency,
            trials=trials // 2,
            fault=SOUND,
            keeper=Keeper(),
            context=RunContext(),
        )

    return call
