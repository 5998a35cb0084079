"""What an informed adversary found: how often it names a worker, a row or a person, and detects that they took part."""

from dataclasses import dataclass
from typing import ClassVar, Final

from scipy.stats import binom

from airmixml.attacks.findings import Findings, level_of
from airmixml.attacks.linkage import FALSE_POSITIVES
from airmixml.output.numbers import NONE

_CHANCE_ALONE: Final = 1e-4


@dataclass(frozen=True, kw_only=True)
class Informed:
    """How often targets of one kind were found.

    Attributes:
        attacked: how many of them were attacked.
        trials: of all of them together, each with noise of its own.
        copies: the most workers that hold one of them.
        candidates: samples among which the right one is looked for.
        named: share of the trials in which it was named.
        hits: share in which it was detected, at 1 % false alarms.
        advantage: detections less false alarms where the likelier of present and absent is named.
        mu_median: distance of present and absent in standard deviations of the noise, of the median target. None where
            the schedule is hidden.
        mu_largest: the same of the one that stands out most.
    """

    attacked: int
    trials: int
    copies: int
    candidates: int
    named: float
    hits: float
    advantage: float
    mu_median: float | None = None
    mu_largest: float | None = None

    @property
    def chance(self) -> float:
        """How often a guess names the right one."""
        return 1.0 / self.candidates

    @property
    def share(self) -> float:
        """Part of what guessing leaves open that was named, or detected; 0 where chance does as well."""
        return max(self._beyond(self.named, self.chance), self._beyond(self.hits, FALSE_POSITIVES))

    def _beyond(self, rate: float, chance: float) -> float:
        by_chance = float(binom.sf(round(rate * self.trials) - 1, self.trials, chance))
        return (rate - chance) / (1.0 - chance) if by_chance < _CHANCE_ALONE else 0.0

    @property
    def mu(self) -> str:
        """The median and the largest distance, in few digits."""
        if self.mu_median is None or self.mu_largest is None:
            return NONE
        return f"{self.mu_median:.3g} (largest {self.mu_largest:.3g})"


@dataclass(frozen=True, kw_only=True)
class InformedFindings(Findings):
    """What was found of workers, of rows with all their copies, and of people where workers hold several rows."""

    informed: ClassVar[bool] = True
    worker: Informed
    row: Informed
    person: Informed | None = None

    @property
    def of(self) -> dict[str, Informed]:
        """Findings by whom they are of."""
        every = {"worker": self.worker, "row": self.row, "person": self.person}
        return {whom: found for whom, found in every.items() if found is not None}

    @property
    def level(self) -> str:
        """From 5 % on it is a leak; from a half on everything is exposed."""
        return level_of(max(found.share for found in self.of.values()))

    @property
    def strength(self) -> tuple[float, ...]:
        """The largest share."""
        return (max(found.share for found in self.of.values()),)

    def among(self, _held: int) -> int:
        """Return among how many samples one was looked for."""
        return self.row.candidates

    def cells(self) -> dict[str, str]:
        """Return how often each was named and detected, and the distances."""
        named = {f"named, {whom}": f"{100 * found.named:.0f} %" for whom, found in self.of.items()}
        hits = {f"hits, {whom}": f"{100 * found.hits:.0f} %" for whom, found in self.of.items()}
        distances = {f"mu, {whom}": found.mu for whom, found in self.of.items()}
        guessing = {"guessing": f"{100 * self.row.chance:.0f} %", "copies": f"{self.row.copies:,}"}
        return {**named, **hits, **distances, **guessing}

    def caption(self) -> str:
        """Return how often rows are named."""
        return f"names {100 * self.row.named:.0f} % of the rows among {self.row.candidates}"

    def learned(self) -> list[str]:
        """Return whom it names and detects how often: the kind of target that stands out most."""
        whom, found = max(self.of.items(), key=lambda each: each[1].share)
        plural = {"person": "people"}.get(whom, f"{whom}s")
        return [
            f"names {100 * found.named:.0f} % of the {plural} attacked among {found.candidates} candidates (guessing "
            f"{100 * found.chance:.0f} %)",
            f"detects {100 * found.hits:.0f} % of them at {100 * FALSE_POSITIVES:.0f} % false alarms",
        ]

    def nothing(self) -> str:
        """Return that nobody is told from others."""
        return f"cannot name or detect a {', '.join(self.of)}".replace(", row", " or row") + " beyond chance"
