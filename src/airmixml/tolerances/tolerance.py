"""The sizes of each impairment that are tried, from mild to severe, the search along them, and what it found."""

from __future__ import annotations

import math
import statistics
import tomllib
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Final

from airmixml.errors import ScenarioError
from airmixml.scenario import Air
from airmixml.wording import did_you_mean, shown_name

_STEPS: Final = (1.0, 2.0, 5.0)
_FINE_STEPS: Final = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
NOT_ALONE: Final = {
    "resync_seconds": "does nothing by itself: how often phases are put right, which the base air says (--set)",
}
"""Numeric keys that have no ladder, and why."""


@dataclass(frozen=True, kw_only=True)
class ImpairmentLadder:
    """One impairment and the sizes that are tried."""

    key: str  #: of the table ``[air]``
    name: str  #: what it is, in a few words
    unit: str  #: of its size
    sizes: tuple[float, ...]  #: from mild to severe
    hardware: str  #: what real devices have
    log: bool = True  #: whether equal steps are equal factors
    needs: dict[str, Any] = field(default_factory=dict)  #: other keys without which it does nothing, and their values
    along: tuple[str, ...] = ()  #: keys that belong to it: a class of hardware with others of its own is not judged
    limits: dict[str, float] = field(default_factory=dict)  #: what classes of hardware have whose air leaves it out

    @classmethod
    def read(cls, key: str, entry: dict[str, Any]) -> ImpairmentLadder:
        """Return an entry of ``impairment_ladders.toml``."""
        sizes = tuple(entry.pop("sizes", ()))
        if "decades" in entry:
            low, high = entry.pop("decades")
            steps = _FINE_STEPS if entry.pop("fine", False) else _STEPS
            sizes = tuple(
                size for ten in range(-12, 12) for step in steps if low <= (size := float(f"{step}e{ten}")) <= high
            )
        elif "steps" in entry:
            first, last, step = entry.pop("steps")
            count = round(abs(last - first) / step)
            sizes = tuple(first + (last - first) * place / count for place in range(count + 1))
        return cls(key=key, sizes=sizes, along=tuple(entry.pop("along", ())), **entry)

    @property
    def fewer_is_worse(self) -> bool:
        """Whether small sizes are the severe ones."""
        return self.sizes[0] > self.sizes[-1]

    def on(self, air: Air, size: float) -> Air:
        """Return an air with the impairment of that size."""
        return replace(air, **{**self.needs, self.key: size})

    def is_milder(self, size: float, other: float) -> bool:
        """Return whether a size is milder than another, or as mild."""
        return size >= other if self.fewer_is_worse else size <= other


IMPAIRMENT_LADDERS: Final = tuple(
    ImpairmentLadder.read(key, entry)
    for key, entry in tomllib.loads(
        files(__package__).joinpath("impairment_ladders.toml").read_text(encoding="utf-8")
    ).items()
)
"""Every impairment whose size is varied."""


def chosen_ladders(only: str | None) -> tuple[ImpairmentLadder, ...]:
    """Return the ladders that ``--only KEY,KEY`` names, in the order of the table; all without it."""
    if only is None:
        return IMPAIRMENT_LADDERS
    known = {each.key: each for each in IMPAIRMENT_LADDERS}
    asked = [name.strip().removeprefix("air.") for name in only.split(",")]
    for name in asked:
        if name in NOT_ALONE:
            raise ScenarioError(f"--only {name}: {NOT_ALONE[name]}; leave it out")
        if name not in known:
            raise ScenarioError(
                f"--only {shown_name(name)}: must be numeric keys of the table [air], such as "
                f"phase_error_radians,absent{did_you_mean(name, list(known))}"
            )
    return tuple(each for each in IMPAIRMENT_LADDERS if each.key in asked)


class LadderSearch:
    """Where the search along one ladder stands: try the most severe size, then halve what is left.

    The size before the first one is none at all, which is tolerated by definition. Every size that the answer names was
    tried: the search assumes nothing but that more is not better. ``coarse`` leaves out every second size, and keeps
    the most severe.
    """

    def __init__(self, ladder: ImpairmentLadder, *, coarse: bool = False) -> None:
        self.ladder = ladder
        self._rungs = ladder.sizes[::-2][::-1] if coarse else ladder.sizes
        self._tolerated, self._refused = -1, len(self._rungs)
        self.next_size: float | None = self._rungs[-1]  # what to try next; None when the answer is known
        self.tried: list[float] = []
        self.largest_tolerated: float | None = None  # None where not even the mildest is
        self.smallest_refused: float | None = None  # None where all are tolerated

    def told(self, size: float, *, tolerated: bool) -> None:
        """Take into account whether a size is tolerated."""
        self.tried.append(size)
        if tolerated:
            self._tolerated, self.largest_tolerated = self._rungs.index(size), size
        else:
            self._refused, self.smallest_refused = self._rungs.index(size), size
        between = (self._tolerated + self._refused) // 2
        self.next_size = self._rungs[between] if self._refused - self._tolerated > 1 else None


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
        return {
            "size": self.size,
            "score": None if self.error else self.score,
            "fall": None if self.error else self.fall,
            "standard_error": self.standard_error,
            "scores": list(self.scores),
            "error": self.error or None,
        }
