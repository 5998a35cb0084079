"""What a comparison found: one row for each method, or for each value of the varied key."""

import statistics
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from airmixml.compare.work import Outcome
from airmixml.privacy import PrivacyStatement
from airmixml.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method, or one value of the varied key, over all seeds.

    Attributes:
        name: of the method, or the value as it was given.
        label: what tables and pictures call it.
        about: what the method is; None for a value.
        outcomes: one for each seed.
    """

    name: str
    label: str
    about: str | None = None
    outcomes: tuple[Outcome, ...]

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each seed."""
        return [outcome.accuracy for outcome in self.outcomes]

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the accuracy over the seeds; None for one seed."""
        return statistics.stdev(self.accuracies) if len(self.outcomes) > 1 else None

    @cached_property
    def privacy(self) -> tuple[PrivacyStatement, ...]:
        """The worst seed's guarantee for the scenario's neighbours, then for the other kind."""
        by_kind = zip(*(outcome.privacy for outcome in self.outcomes), strict=False)
        return tuple(max(kind, key=lambda stated: stated.epsilon) for kind in by_kind)

    @property
    def first(self) -> Outcome:
        """The first seed's outcome: symbols, air time and operations are the same for all of them."""
        return self.outcomes[0]

    @property
    def energy_joules(self) -> float | None:
        """Mean energy over the seeds."""
        spent = [outcome.energy_joules for outcome in self.outcomes if outcome.energy_joules is not None]
        return statistics.fmean(spent) if spent else None

    @property
    def seconds(self) -> float:
        """Mean wall time over the seeds."""
        return statistics.fmean(outcome.seconds for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values for JSON."""
        value = {"value": self.name, "shown": self.label}
        return {
            **(value if self.about is None else {"method": self.name, "about": self.about}),
            "accuracy": {"mean": self.accuracy, "deviation": self.deviation, "by_seed": self.accuracies},
            "privacy": [statement.to_dict() for statement in self.privacy],
            "uplink_symbols": self.first.uplink_symbols,
            "air_seconds": self.first.air_seconds,
            "energy_joules": self.energy_joules,
            "worker_multiply_accumulates": self.first.worker_multiply_accumulates,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row per method, or per value of the varied key.

    Attributes:
        scenario: what is compared at.
        rows: what each of them gave.
        left_out: methods that were not run, and why.
        varied: the key whose values the rows are; empty where rows are methods.
        seeds: seeds of each row.
        kept: results that were there already.
        out: folder with everything.
    """

    scenario: Scenario
    rows: tuple[Row, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    varied: str = ""
    seeds: list[int]
    kept: int
    out: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values for JSON."""
        privacy = self.scenario.privacy
        return {
            "name": self.scenario.name,
            "target": {name: getattr(privacy, name) for name in ("epsilon", "delta", "adversary", "adjacency")},
            "varied": self.varied or None,
            "seeds": self.seeds,
            "rows": [row.to_dict() for row in self.rows],
            "left_out": self.left_out,
            "scenario": self.scenario.to_dict(),
        }
