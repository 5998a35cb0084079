"""The sizes of each impairment that are tried, from mild to severe, the search along them, and what it found."""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Final

from airmixml.errors import ScenarioError
from airmixml.scenario import Air
from airmixml.wording import did_you_mean, shown_name

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
    sizes: Sequence[float]  #: from mild to severe
    hardware: str  #: what real devices have
    log: bool = True  #: whether equal steps are equal factors
    needs: dict[str, Any] = field(default_factory=dict)  #: other keys without which it does nothing, and their values
    along: Sequence[str] = ()  #: keys that belong to it: a class of hardware with others of its own is not judged
    limits: dict[str, float] = field(default_factory=dict)  #: what classes of hardware have whose air leaves it out

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
    ImpairmentLadder(key=key, **entry)
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
        self.tried: list[float] = []

    @property
    def next_size(self) -> float | None:
        """What to try next; None when the answer is known."""
        if self._refused - self._tolerated == 1:
            return None
        return self._rungs[(self._tolerated + self._refused) // 2 if self.tried else -1]

    @property
    def largest_tolerated(self) -> float | None:
        """None where not even the mildest is."""
        return None if self._tolerated < 0 else self._rungs[self._tolerated]

    @property
    def smallest_refused(self) -> float | None:
        """None where all are tolerated."""
        return None if self._refused == len(self._rungs) else self._rungs[self._refused]

    def told(self, size: float, *, tolerated: bool) -> None:
        """Take into account whether a size is tolerated."""
        self.tried.append(size)
        if tolerated:
            self._tolerated = self._rungs.index(size)
        else:
            self._refused = self._rungs.index(size)


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
