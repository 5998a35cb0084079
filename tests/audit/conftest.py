from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.audit import Audit, Auditor, AuditSettings, fault_named
from airmixml.streams import Streams
from airmixml.workers import load_dataset


@pytest.fixture(scope="session")
def audited() -> Callable[..., Audit]:
    """Audit a preset with overrides as one adversary."""

    def call(preset: str, *overrides: str, adversary: str, fault: str = "", **options: Any) -> Audit:
        scenario = Scenario.preset(preset).with_overrides(*overrides)
        dataset = load_dataset(scenario.workers, Streams(scenario.seed))
        asked = {"adversaries": (adversary,), "canaries": 0, **options}
        return Auditor(scenario, dataset, AuditSettings(fault=fault_named(fault), **asked)).audit(adversary)

    return call
