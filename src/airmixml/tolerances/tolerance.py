"""What a study of tolerances found, one entry for each impairment."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airmixml.scenario import Scenario, keys_in_force
from airmixml.scenario.toml import finite
from airmixml.tolerances.impairment_ladder import ImpairmentLadder


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One size that was tried."""

    size: float  #: how bad the impairment was
    scores: tuple[float, ...]  #: with each seed, in points (accuracy in per cent); empty where it could not be run
    falls: tuple[float, ...]  #: by how many points each is below that of the ideal air with the same seed
    #: standard error of a mean score that is due to the number of test samples; 0 where it is not known
    test_error: float = 0.0
    error: str = ""  #: why it could not be run

    @property
    def score(self) -> float:
        """Mean over the seeds; NaN where it could not be run."""
        return statistics.fmean(self.scores) if self.scores else math.nan

    @property
    def fall(self) -> float:
        """Mean fall over the seeds; infinite where it could not be run."""
        return statistics.fmean(self.falls) if self.falls else math.inf

    @property
    def standard_error(self) -> float:
        """Of the mean fall: that of the seeds, and not less than that of so few test samples."""
        of_seeds = statistics.stdev(self.falls) / math.sqrt(len(self.falls)) if len(self.falls) > 1 else 0.0
        return max(of_seeds, self.test_error)

    def is_tolerated(self, drop: float) -> bool:
        """Return whether the fall is at most ``drop``, or not more than that by more than its standard error."""
        return self.fall - self.standard_error <= drop

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "size": self.size,
            "score": None if self.error else self.score,
            "fall": None if self.error else self.fall,
            "standard_error": self.standard_error,
            "scores": list(self.scores),
            "error": self.error or None,
        }


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """What one class of hardware has of an impairment, and whether that is tolerated."""

    air: str  #: name of the class, an air that comes with the package
    size: float | None  #: what it has; None where it has none of it
    tolerated: bool | None = None  #: by accuracy; None where it has none
    fall: float | None = None  #: in points, where just this was tried
    #: what a system without margin would spend; None where the impairment does not change it
    epsilon: float | None = None
    target_kept: bool | None = None  #: whether that is within the target; None likewise
    along: dict[str, Any]  #: other keys of the class that were set with it

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        ok = None if self.size is None else bool(self.tolerated) and self.target_kept is not False
        return finite({**vars(self), "along": finite(self.along), "ok": ok})  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What is known of one impairment."""

    ladder: ImpairmentLadder  #: what it is
    #: most severe size at which the accuracy holds; None where not even the mildest is tolerated
    tolerated: float | None
    refused: float | None  #: mildest size at which it does not; None where all are tolerated
    tried: tuple[Tried, ...]  #: all sizes with their accuracies, from mild to severe
    why_not: str  #: why none of the sizes could be run; empty where some could
    #: what a system without margin would spend, by size, from mild to severe; empty where it has no target
    epsilons: dict[float, float | None]
    private: float | None  #: most severe size with which the target holds; None where there is none, or nothing to ask
    revealing: float | None  #: mildest size with which it does not
    delivered: tuple[Delivered, ...]  #: what each class of hardware has

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        ladder = self.ladder
        return {
            "key": f"air.{ladder.key}",
            "name": ladder.name,
            "unit": ladder.unit,
            "worse": "smaller" if ladder.fewer_is_worse else "larger",
            "range": [ladder.sizes[0], ladder.sizes[-1]],
            "hardware": ladder.hardware,
            "tolerated": self.tolerated,
            "refused": self.refused,
            "why_not": self.why_not or None,
            "tried": [each.to_dict() for each in self.tried],
            "privacy": {
                "kept": self.private,
                "missed": self.revealing,
                "epsilons": [{"size": size, "epsilon": finite(epsilon)} for size, epsilon in self.epsilons.items()],
            }
            if self.epsilons
            else None,
            "delivered": {each.air: each.to_dict() for each in self.delivered},
        }


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """Everything that a study found."""

    scenario: Scenario  #: with the base air
    metric: str  #: what is compared
    drop: float  #: how many points it may fall
    seeds: Sequence[int]  #: of each size
    ideal: tuple[float, ...]  #: score of each seed on the ideal air, in points
    base: tuple[float, ...]  #: the same on the base air
    found: tuple[Tolerance, ...]  #: each impairment
    target: float | None  #: epsilon that the power is set for; None where power follows from no target
    kept: int  #: runs that were there already
    runs: int  #: all runs
    out: Path  #: folder with everything
    seconds: float  #: how long it took

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.scenario.name,
            "air": keys_in_force(self.scenario.air),
            "mode": "simulation",
            "metric": self.metric,
            "drop": self.drop,
            "seeds": list(self.seeds),
            "ideal": {"mean": statistics.fmean(self.ideal), "scores": list(self.ideal)},
            "base": {"mean": statistics.fmean(self.base), "scores": list(self.base)},
            "target_epsilon": self.target,
            "tolerances": [each.to_dict() for each in self.found],
            "scenario": self.scenario.to_json(),
            "runs": self.runs,
            "kept": self.kept,
        }
