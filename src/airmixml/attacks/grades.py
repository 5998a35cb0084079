"""What an attack found, and how bad that is: five grades, from what was found and from what is claimed.

A grade is never better than the epsilon that covers what was attacked: that of a row, where rows lie on many workers.
Every kind of findings has its own figures; tables, verdicts and pictures ask all of them the same questions.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from airmixml.attacks.measured import EXPOSED, FALSE_ALARMS, Measured
from airmixml.storage.files import from_plain
from airmixml.wording import NOTHING_PROMISED

TOO_FEW: Final = "too few to tell"
GRADES: Final = ("hidden", NOTHING_PROMISED, TOO_FEW, "leaks", "exposed")


@dataclass(frozen=True, kw_only=True)
class Findings(ABC):
    """Figures of one attack on one setting: a dataclass of numbers, texts and other such dataclasses."""

    # "server" for reconstructions, "listener" for attacks without a schedule, "informed" for names of candidates by
    # those who know all samples but one, "inversion" for what these reconstruct, "other" for attacks of other packages
    kind: ClassVar[str] = "other"
    informed: ClassVar[bool] = False  # whether the adversary knows all samples but one

    @abstractmethod
    def measured(self) -> list[Measured]:
        """Return every figure that verdicts take into account."""

    @property
    def strength(self) -> tuple[float, ...]:
        """Larger for the better of two attacks of this kind; first which part of what guessing leaves open it found."""
        return (max((each.share for each in self.measured() if each.p_value <= FALSE_ALARMS), default=0.0),)

    def also(self) -> dict[str, str]:
        """Return what else there is to say beside the figures, by name."""
        return {}

    @abstractmethod
    def caption(self, grade: str) -> str:
        """Return what was found, in a few words below a picture."""

    def among(self, held: int) -> int:
        """Return among how many samples one is named, where workers hold so many different ones."""
        return held

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
    columns: dict[str, str]  # what else there is to say, by name
    figures: dict[str, float] = field(default_factory=dict)  # numbers for JSON and CSV
    p_value: float = 0.0  # of such a share by guessing; 0 where that was ruled out

    def measured(self) -> list[Measured]:
        """Return the share."""
        p_value = self.p_value if self.share > 0.0 else 1.0
        known: dict[str, Any] = {"rate": self.share, "guessing": 0.0, "p_value": p_value, "p_if_half": 0.0, "of": ""}
        return [Measured(what=self.words, **known)]

    def also(self) -> dict[str, str]:
        """Return the columns."""
        return self.columns

    def caption(self, _grade: str) -> str:
        """Return the words."""
        return self.words


def guessing_bound(epsilon: float | None, delta: float, adjacency: str, guessing: float) -> float:
    """Return what a claim leaves of guessing right about a worker: a probability, where a blind guess has this one.

    However an adversary against whom (epsilon, delta) holds goes about it, and whatever it knows of all others, it is
    right with probability s. Remove-one: P(right | held) <= e^epsilon P(right | nobody) + delta, of which P(right |
    nobody) is at most g, that of the best blind guess; the same of wrong guesses gives 1 - s >= (1 - g - delta) /
    e^epsilon. Replace-one: the same with each other sample in place of nobody
    gives s <= (e^epsilon g + (1 - g) delta) / (e^epsilon g + 1 - g). Without a claim it is 1.
    """
    if epsilon is None or guessing >= 1.0:
        return 1.0
    if adjacency == "remove-one":
        right = math.exp(min(0.0, epsilon + math.log(guessing))) + delta
        return min(1.0, right, 1.0 - max(0.0, 1.0 - guessing - delta) * math.exp(-epsilon))
    others = (1.0 / guessing - 1.0) * math.exp(-epsilon)
    return min(1.0, (1.0 + others * delta) / (1.0 + others))


def naming_bound(epsilon: float | None, delta: float, adjacency: str, candidates: int) -> float:
    """Return what a claim leaves of naming which of so many equally likely samples a worker holds: a probability."""
    return guessing_bound(epsilon, delta, adjacency, 1.0 / candidates)


def grade_of(level: str, bound: float, *, too_few: bool = False) -> str:
    """Return the grade: where nothing was found, only a claim that bounds naming below a half hides people.

    A half is what "exposed" begins at. Where there was too little to tell a finding from a guess, nothing found says
    nothing.
    """
    return level or (TOO_FEW if too_few else "hidden" if bound < EXPOSED else NOTHING_PROMISED)
