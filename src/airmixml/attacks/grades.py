"""What an attack found, and how bad that is: five grades, from what was found and from what is claimed.

A grade is never better than the epsilon that covers what was attacked: that of a row, where rows lie on many workers.
Every kind of findings has its own figures; tables, verdicts and pictures ask all of them the same questions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from scipy.stats import binom

from airmixml.storage.results import from_plain
from airmixml.wording import NOTHING_PROMISED

TOO_FEW: Final = "too few to tell"
GRADES: Final = ("hidden", NOTHING_PROMISED, TOO_FEW, "leaks", "exposed")
# Of what guessing leaves open: from here on it is a leak, and from here on most of it is out.
LEAK: Final = 0.05
EXPOSED: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Findings(ABC):
    """Figures of one attack on one setting: a dataclass of numbers, texts and other such dataclasses."""

    # "server" for reconstructions, "listener" for attacks without a schedule, "informed" for names of candidates by
    # those who know all samples but one, "inversion" for what these reconstruct, "other" for attacks of other packages
    kind: ClassVar[str] = "other"
    informed: ClassVar[bool] = False  # whether the adversary knows all samples but one
    titles: ClassVar[dict[str, str]] = {}  # of the table, by adversary; "" for one table of all adversaries
    explanation: ClassVar[str] = ""  # stands above the table
    legend: ClassVar[dict[str, str]] = {}  # what columns of the table mean, in a few words

    @classmethod
    def note(cls, _found: Sequence[Self]) -> str:
        """Return the explanation, with what it says of these findings."""
        return cls.explanation

    @property
    @abstractmethod
    def strength(self) -> tuple[float, ...]:
        """Larger for the better of two attacks of this kind; first which part of what guessing leaves open it found."""

    @property
    def level(self) -> str:
        """How much was found: "exposed", "leaks", or empty for nothing beyond chance."""
        return level_of(self.strength[0])

    @abstractmethod
    def cells(self) -> dict[str, str]:
        """Return the columns of the table and their texts."""

    @abstractmethod
    def caption(self, grade: str) -> str:
        """Return what was found, in a few words below a picture."""

    @abstractmethod
    def learned(self) -> list[str]:
        """Return what the adversary does, such as "reads 7 of 10 samples"; asked only where something was found."""

    def among(self, held: int) -> int:
        """Return among how many samples one is named, where workers hold so many different ones."""
        return held

    def nothing(self) -> str:
        """Return what to say of the adversary where a small epsilon hides everybody."""
        return "cannot identify any sample"

    def too_few(self) -> str:
        """Return what there was too little of to tell a finding from a guess; asked where none was beyond chance."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, figures: dict[str, Any]) -> Self:
        """Return the findings that ``to_dict`` was called on; a figure that it leaves out has its default."""
        defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING}
        found: Self = from_plain(cls, {**defaults, **figures})
        return found


@dataclass(frozen=True, kw_only=True)
class PlainFindings(Findings):
    """Findings of an attack that needs no class of its own."""

    share: float  # part of what guessing leaves open that was learned: 0 is guessing, 1 is everything
    words: str  # what the adversary does, such as "names the class of 30 of 40 workers"
    columns: dict[str, str]  # texts of the attack's table, by column
    figures: dict[str, float] = field(default_factory=dict)  # numbers for JSON and CSV

    @property
    def strength(self) -> tuple[float, ...]:
        """The share."""
        return (self.share,)

    def cells(self) -> dict[str, str]:
        """Return the columns."""
        return self.columns

    def caption(self, _grade: str) -> str:
        """Return the words."""
        return self.words

    def learned(self) -> list[str]:
        """Return the words."""
        return [self.words]


def level_of(share: float, *, anybody: bool = False) -> str:
    """Return the level: from 5 % on a leak, from a half on exposed; anybody found beyond chance is a leak too."""
    return "exposed" if share >= EXPOSED else "leaks" if share >= LEAK or anybody else ""


def beyond_guessing(share: float, guessing: float) -> float:
    """Return which part of what guessing leaves open was found out: 0 is guessing, 1 is everything."""
    return (share - guessing) / (1.0 - guessing) if guessing < 1.0 else 0.0


def naming_bound(epsilon: float | None, delta: float, adjacency: str, candidates: int) -> float:
    """Return what a claim leaves of naming which of M equally likely samples a worker holds: a probability.

    However an adversary against whom (epsilon, delta) holds goes about it, and whatever it knows of all others, it is
    right with probability s. Remove-one: P(names c | c is held) <= e^epsilon P(names c | nobody) + delta, whose sum
    over all c gives s <= e^epsilon / M + delta. Replace-one: the same with each of the other M - 1 samples in place of
    nobody gives s <= (e^epsilon + (M - 1) delta) / (e^epsilon + M - 1). Without a claim it is 1.
    """
    if epsilon is None:
        return 1.0
    if adjacency == "remove-one":
        logarithm = epsilon - math.log(candidates)
        return 1.0 if logarithm >= 0.0 else min(1.0, math.exp(logarithm) + delta)
    others = (candidates - 1) * math.exp(-epsilon)
    return min(1.0, (1.0 + others * delta) / (1.0 + others))


def grade_of(level: str, bound: float, *, too_few: bool = False) -> str:
    """Return the grade: where nothing was found, only a claim that bounds naming below a half hides people.

    A half is what "exposed" begins at. Where there was too little to tell a finding from a guess, nothing found says
    nothing.
    """
    return level or (TOO_FEW if too_few else "hidden" if bound < EXPOSED else NOTHING_PROMISED)


def can_tell(trials: int, share: float, chance: float, significance: float) -> bool:
    """Whether that share of right answers would be told from chance in so many trials."""
    return bool(trials) and float(binom.sf(math.ceil(share * trials) - 1, trials, chance)) < significance
