"""Figures of attacks beside what guessing gives, which of them are beyond chance, and how bad that is: four grades.

All figures of a setting, of whatever adversary and attack, are tested at once (Holm 1979). If everyone were guessing,
any figure at all would count as found with a probability of at most ``FALSE_ALARMS``, however figures depend on each
other.

A grade is never better than the epsilon that covers what was attacked: that of a row, where rows lie on many workers.
Every kind of findings has its own figures; tables, verdicts and pictures ask all of them the same questions.

Scores tell membership, identity and labels without any schedule or ratio. Of scored candidates some are held by workers
(private) and some by nobody (decoys). If the private ones stand out, taking part has been revealed; if the likeliest
private sample of a mixture is that of the worker who dominates it, so has the worker behind the slot.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom, norm, rankdata

from airmixml.arrays import Doubles, Integers
from airmixml.messages import NOTHING_PROMISED, ScenarioError

GRADES: Final = ("hidden", NOTHING_PROMISED, "leaks", "exposed")
FALSE_ALARMS: Final = 0.01
# Of what guessing leaves open: from here on it is a leak, and from here on most of it is out.
LEAK: Final = 0.05
EXPOSED: Final = 0.5
# How far samples of a test set of its own may differ from those that workers hold without anybody having taken part: a
# few hundredths of the AUC in MNIST, and fewer than so many detected at 1 % false alarms.
_OTHER_SAMPLES_AUC: Final = 0.1
_OTHER_SAMPLES_DETECTED: Final = 0.05
FALSE_POSITIVES: Final = 0.01
_LARGEST_SHARE: Final = 20
_ALIKE: Final = 1.001


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One figure of an attack: how often an adversary succeeds, and how often a guess does."""

    what: str  # what the adversary does, such as "reads a sample's class"
    rate: float
    guessing: float
    p_value: float  # of such a rate or a larger one by guessing
    shown: str = ""  # the rate in words; by default in per cent
    trials: int = 0  # of a rate that counts independent ones
    deviation: float = 0.0  # of another rate
    of: str = "row"  # whose epsilon limits the rate: that of a "row", of a "worker" alone, or of none
    from_silence: bool = False  # whether the alternative is an absent worker, which remove-one alone limits
    identifies: bool = False  # whether a single success is a leak

    @property
    def share(self) -> float:
        """Part of what guessing leaves open that was found: 0 is guessing, 1 is everything."""
        return (self.rate - self.guessing) / (1.0 - self.guessing) if self.guessing < 1.0 else 0.0

    @property
    def level(self) -> str:
        """How much it is where it is beyond chance: "exposed", "leaks", or empty for less than 5 %."""
        if max(self.share, self.rate if self.identifies else 0.0) >= EXPOSED:
            return "exposed"
        return "leaks" if self.identifies or self.share >= LEAK else ""

    @property
    def text(self) -> str:
        return self.shown or _percent(self.rate)

    def like(self, rate: float) -> str:
        """Return another rate, written like this one."""
        if self.shown and self.trials:
            count = rate * self.trials
            text = "<0.001" if 0.0 < count < 0.001 else f"{count:,.0f}" if count >= 10.0 else f"{count:.2g}"
            return f"{text} of {self.trials:,}"
        return f"{rate:.2f}" if self.deviation else _percent(rate)

    def p_value_beyond(self, limit: float) -> float:
        """Return the p-value of the rate where the true one is at most that limit."""
        if self.deviation:
            return float(norm.sf((self.rate - limit) / self.deviation))
        return tail(self.rate, self.trials, limit)


def _percent(rate: float) -> str:
    return f"{100 * rate:.{0 if rate >= 0.1 or not rate else 1}f} %"


def tail(rate: float, trials: int, chance: float) -> float:
    """Return the probability of such a share of right ones or more in so many trials, rounded down to whole ones."""
    return float(binom.sf(math.floor(rate * trials + 1e-9) - 1, trials, min(1.0, chance))) if trials else 1.0


def counted(what: str, rate: float, trials: int, guessing: float, **more: Any) -> Measured:
    """Return a share of independent trials; its p-value is binomial if no other is given."""
    how = {"p_value": tail(rate, trials, guessing), **more}
    return Measured(what=what, rate=rate, trials=trials, guessing=guessing, **how)


def beyond_chance(figures: Collection[Measured]) -> float:
    """Return the largest p-value that counts as found among all figures of a setting (Holm); -1 where none does."""
    found = -1.0
    for left, p_value in zip(range(len(figures), 0, -1), sorted(each.p_value for each in figures), strict=True):
        if p_value > FALSE_ALARMS / left:
            break
        found = p_value
    return found


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

    def among(self, held: int) -> int:
        """Return among how many samples one is named, where workers hold so many different ones."""
        return held

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class PlainFindings(Findings):
    """Findings of an attack that needs no class of its own."""

    share: float  # part of what guessing leaves open that was learned: 0 is guessing, 1 is everything
    words: str  # what the adversary does, such as "names the class of 30 of 40 workers"
    figures: dict[str, float] = field(default_factory=dict)  # numbers for JSON
    p_value: float = 0.0  # of such a share by guessing; 0 where that was ruled out

    def measured(self) -> list[Measured]:
        p_value = self.p_value if self.share > 0.0 else 1.0
        return [Measured(what=self.words, rate=self.share, guessing=0.0, p_value=p_value, of="")]


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


def grade_of(level: str, bound: float) -> str:
    """Return the grade: where nothing was found, only a claim that bounds naming below a half hides people.

    A half is what "exposed" begins at.
    """
    return level or ("hidden" if bound < EXPOSED else NOTHING_PROMISED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of samples that are held, and of decoys that nobody holds: likelihood ratios in logs, or correlations."""

    held: Doubles
    decoys: Doubles


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """How well private candidates are told from public ones, the decoys."""

    auc: float  # probability that a private candidate scores above a decoy; 1/2 is chance
    auc_chance_deviation: float  # standard deviation of that under chance, for candidates that are not alike
    hit_rate: float  # private candidates that score above all but 1 % of the decoys; 0.01 is chance
    private_candidates: int
    public_candidates: int
    method: str  # what the candidates were scored by, "likelihood" or "likeness"

    @classmethod
    def of(cls, scores: Scores, method: str) -> Self:
        members, decoys = len(scores.held), len(scores.decoys)
        if not members or not decoys:
            raise ScenarioError(f"{members} private and {decoys} public candidates: must be at least one of each")
        return cls(
            auc=area_under_curve(scores.held, scores.decoys),
            auc_chance_deviation=float(np.sqrt((members + decoys + 1) / (12.0 * members * decoys))),
            hit_rate=hit_rate(scores.held, scores.decoys, FALSE_POSITIVES),
            private_candidates=members,
            public_candidates=decoys,
            method=method,
        )

    def measured(self, methods: int, *, alike: bool) -> list[Measured]:
        """Return how often who took part scores above who did not, and who is detected, by the best of some methods.

        ``alike``: both are drawn alike (one random split), so that without a leak their order is random. The first
        h + r of all then hold no more than r decoys with a hypergeometric probability; a guess passes as often as a
        decoy beyond those that set the threshold.
        """
        held, decoys = self.private_candidates, self.public_candidates
        chance = norm.sf((self.auc - (0.5 if alike else 0.5 + _OTHER_SAMPLES_AUC)) / self.auc_chance_deviation)
        apart = Measured(
            what="tells who took part (AUC)",
            rate=self.auc,
            guessing=0.5,
            p_value=min(1.0, methods * float(chance)),
            shown=f"{self.auc:.2f}",
            deviation=self.auc_chance_deviation,
            of="row" if alike else "",
        )
        passing = int(FALSE_POSITIVES * decoys)
        guessing, found = (passing + 1) / (decoys + 1), math.floor(self.hit_rate * held + 1e-9)
        p_value = 1.0
        if found and alike:
            p_value = float(hypergeom.cdf(passing, held + decoys, decoys, found + passing))
        elif found:
            p_value = tail(self.hit_rate, held, guessing + _OTHER_SAMPLES_DETECTED)
        # No epsilon limits it as a count: few decoys set a threshold that is itself by chance.
        p_value = min(1.0, methods * p_value)
        return [apart, counted("detects who took part", self.hit_rate, held, guessing, of="", p_value=p_value)]


def area_under_curve(private_scores: Doubles, public_scores: Doubles) -> float:
    """Return P(private > public) + P(private = public) / 2 over all pairs, from ranks (Mann and Whitney)."""
    members, decoys = len(private_scores), len(public_scores)
    ranks = rankdata(np.concatenate([private_scores, public_scores]))
    return float((ranks[:members].sum() - members * (members + 1) / 2.0) / (members * decoys))


def hit_rate(private_scores: Doubles, public_scores: Doubles, false_positive_rate: float) -> float:
    """Return the share of private scores above a threshold that no more than that share of the decoys passes."""
    passing = int(false_positive_rate * len(public_scores))
    threshold = np.sort(public_scores)[::-1][passing]
    return float(np.mean(private_scores > threshold))


@dataclass(frozen=True, kw_only=True)
class Identified:
    """Slots whose strongest worker's sample was looked up among all that are held; ``p_value`` is by guessing."""

    looked_at: int
    identified: int
    p_value: float

    @classmethod
    def of(cls, named: Integers, right: Integers, among: int) -> Self:
        """Return how many names are right; rows of the pool each, guessed among so many."""
        count = int((named == right).sum())
        p_value = float(binom.sf(count - 1, len(right), 1.0 / among))
        return cls(looked_at=len(right), identified=count, p_value=p_value)

    @classmethod
    def of_loudest(cls, scores: Doubles, strength: Doubles, most: int) -> Self:
        """Return how many of the loudest candidates have as many first places; at most a twentieth are looked at.

        The p-value is hypergeometric. Where all are equally strong nobody is loudest, and none are looked at.
        """
        if strength.max() <= _ALIKE * strength.min():
            return cls(looked_at=0, identified=0, p_value=1.0)
        count = min(most, len(scores) // _LARGEST_SHARE)
        first, loudest = (set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (scores, strength))
        found = len(first & loudest)
        p_value = float(hypergeom.sf(found - 1, len(scores), count, count))
        return cls(looked_at=count, identified=found, p_value=p_value)

    def or_better(self, other: Self) -> Self:
        """Return what the better of two methods identified, judged with the truth at hand.

        Its p-value is that of the best of two (Bonferroni).
        """
        best = other if other.identified > self.identified else self
        return replace(best, p_value=min(1.0, 2.0 * best.p_value))

    def measured(self, what: str, guessing: float) -> Measured:
        rate, shown = self.identified / self.looked_at, f"{self.identified:,} of {self.looked_at:,}"
        about: dict[str, Any] = {"p_value": self.p_value, "of": "", "identifies": True}
        return counted(what, rate, self.looked_at, guessing, shown=shown, **about)


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """How often a label was inferred, beside what always naming the most frequent class gives."""

    inferred: int  # how many labels were
    accuracy: float  # share of them that are right
    baseline: float  # share of the most frequent class among the true labels
    p_value: float  # of so many right ones or more, were each right with the baseline's probability


def infer_labels(estimates: NDArray[np.floating], labels: Integers) -> LabelInference:
    """Infer each label as the class of the largest estimate (rows x classes, in any positive scale)."""
    named, count = estimates.argmax(axis=1), len(labels)
    right = int(np.sum(named == labels))
    baseline = float(np.bincount(labels).max() / count)
    p_value = float(binom.sf(right - 1, count, baseline))
    return LabelInference(inferred=count, accuracy=right / count, baseline=baseline, p_value=p_value)
