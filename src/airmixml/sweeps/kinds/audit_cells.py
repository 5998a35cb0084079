"""Cells of ``airmix audit``: each is audited alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from airmixml.scenario import RunContext
from airmixml.sweeps.batches import Part, Place
from airmixml.sweeps.kinds.cells import CellKind, Metrics, fields_of, flat

if TYPE_CHECKING:
    from airmixml.audit import AuditResult, AuditSettings

_SHOWN: Final = ("epsilon_lower", "epsilon_claimed", "caught")
_STATED: Final = (*_SHOWN, "confidence", "delta", "adversary", "adjacency")


@dataclass(frozen=True)
class AuditCells(CellKind):
    """Audits scenarios with these settings."""

    name: ClassVar[str] = "audit"
    default_metrics: ClassVar[tuple[str, ...]] = _SHOWN
    note: ClassVar[str] = "the confidence holds for each cell; among many cells some may be refuted by chance"
    settings: AuditSettings

    @classmethod
    def of(cls, *, audit: AuditSettings | None = None, **_others: Any) -> Self:
        """Return the kind for these settings, or the default ones."""
        from airmixml.audit import AuditSettings

        settings = audit or AuditSettings()
        return cls(replace(settings, adversaries=tuple(settings.adversaries)))

    @property
    def asked(self) -> str:
        """The settings, as JSON."""
        return json.dumps({**vars(self.settings), "fault": self.settings.fault.name}, sort_keys=True)

    def metric_names(self) -> Iterator[str]:
        """Return the bounds against each adversary, and what the check of the noise says."""
        from airmixml.audit.noise_check import NoiseCheck

        yield from _STATED
        yield from (f"noise_check.{name}" for name in (*fields_of(NoiseCheck), "passed", "why_not"))
        yield from (f"{adversary}.{name}" for adversary in ("release", "server") for name in _SHOWN)

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Metrics]:
        """Audit one cell."""
        from airmixml.audit.auditor import audit_scenario
        from airmixml.audit.trials import Keeper

        (part,) = parts
        (scenario,) = part.scenarios
        self.settings.check(scenario)
        keeper = Keeper(place.beginnings(part))
        yield audit_metrics(audit_scenario(scenario, self.settings, context=context, keeper=keeper, run_dir=Path()))


def audit_metrics(result: AuditResult) -> Metrics:
    """Return the metrics of an audit: those of the scenario's own adversary, then of each that was audited."""
    plain = result.to_dict()
    found: Metrics = {name: plain[name] for name in _STATED}
    for each in plain["audits"]:
        found |= {f"{each['adversary']}.{name}": each[name] for name in _SHOWN}
    return {**found, **flat(plain["noise_check"], prefix="noise_check."), "seconds": plain["seconds"]}
