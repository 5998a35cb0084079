"""What a study of tolerances found, one entry for each impairment."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airmixml.scenario import Scenario, keys_in_force
from airmixml.scenario.air_words import finite
from airmixml.storage.run_folder import REPORT
from airmixml.tolerances.impairment_ladder import ImpairmentLadder
from airmixml.tolerances.unplanned_epsilon import NeededPower

FILES: Final = (*(f"tolerances.{suffix}" for suffix in ("md", "csv", "json", "png", "svg")), REPORT)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One size that was tried.

    Attributes:
        size: how bad the impairment was.
        scores: with each seed, in points (accuracy in per cent); empty where it could not be run.
        falls: by how many points each is below that of the ideal air with the same seed.
        test_error: standard error of a mean score that is due to the number of test samples; 0 where it is not known.
        error: why it could not be run.
    """

    size: float
    scores: tuple[float, ...]
    falls: tuple[float, ...]
    test_error: float = 0.0
    error: str = ""

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
    """What one class of hardware has of an impairment, and whether that is tolerated.

    Attributes:
        air: name of the class, an air that comes with the package.
        size: what it has; None where it has none of it.
        tolerated: by accuracy; None where it has none.
        fall: in points, where just this was tried.
        epsilon: what a system without margin would spend; None where the impairment does not change it.
        target_kept: whether that is within the target; None likewise.
        along: other keys of the class that were set with it.
    """

    air: str
    size: float | None
    tolerated: bool | None = None
    fall: float | None = None
    epsilon: float | None = None
    target_kept: bool | None = None
    along: dict[str, Any]

    @property
    def is_ok(self) -> bool | None:
        """Whether neither accuracy nor the target suffers; None where the class has none of it."""
        return None if self.size is None else bool(self.tolerated) and self.target_kept is not False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return finite({**vars(self), "along": finite(self.along), "ok": self.is_ok})  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What is known of one impairment.

    Attributes:
        ladder: what it is.
        tolerated: most severe size at which the accuracy holds; None where not even the mildest is tolerated.
        refused: mildest size at which it does not; None where all are tolerated.
        tried: all sizes with their accuracies, from mild to severe.
        why_not: why none of the sizes could be run; empty where some could.
        epsilons: what a system without margin would spend, by size, from mild to severe.
        private: most severe size with which the target holds; None where there is none, or nothing to ask.
        revealing: mildest size with which it does not.
        delivered: what each class of hardware has.
    """

    ladder: ImpairmentLadder
    tolerated: float | None
    refused: float | None
    tried: tuple[Tried, ...]
    why_not: str
    epsilons: dict[float, float | None]
    private: float | None
    revealing: float | None
    delivered: tuple[Delivered, ...]

    @property
    def asks_privacy(self) -> bool:
        """Whether it can raise epsilon, and there is a target."""
        return bool(self.epsilons)

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
            if self.asks_privacy
            else None,
            "delivered": {each.air: each.to_dict() for each in self.delivered},
        }


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """Everything that a study found.

    Attributes:
        scenario: with the base air.
        metric: what is compared.
        drop: how many points it may fall.
        seeds: of each size.
        ideal: score of each seed on the ideal air, in points.
        base: the same on the base air.
        found: each impairment.
        target: epsilon that the power is set for; None where power follows from no target.
        needed: transmit power on the ideal air, where it follows from a target.
        kept: runs that were there already.
        runs: all runs.
        out: folder with everything.
        seconds: how long it took.
    """

    scenario: Scenario
    metric: str
    drop: float
    seeds: Sequence[int]
    ideal: tuple[float, ...]
    base: tuple[float, ...]
    found: tuple[Tolerance, ...]
    target: float | None
    needed: NeededPower | None
    kept: int
    runs: int
    out: Path
    seconds: float

    @property
    def floor(self) -> float:
        """The mean score at which it has fallen by ``drop``."""
        return statistics.fmean(self.ideal) - self.drop

    @property
    def compared(self) -> str:
        """What is compared, in a word."""
        return {"accuracy.final": "accuracy", "scores.r2": "R^2", "scores.labels_right": "labels right"}[self.metric]

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
            "needed_power_dbm": None if self.needed is None else vars(self.needed),
            "tolerances": [each.to_dict() for each in self.found],
            "scenario": self.scenario.to_json(),
            "runs": self.runs,
            "kept": self.kept,
        }
