"""The verdict on some audits."""

from __future__ import annotations

from pathlib import Path

from airmixml import Scenario
from airmixml.audit import Audit, AuditResult, Fault


def result_of(audits: list[Audit], fault: Fault) -> AuditResult:
    scenario = Scenario.preset("paper-iris")
    return AuditResult(
        scenario=scenario, fault=fault, audits=audits, resumed_blocks=0, seconds=0.0, run_dir=Path("runs")
    )


def verdict_of(audits: list[Audit], fault: Fault) -> str:
    return result_of(audits, fault).verdict
