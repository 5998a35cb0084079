"""What an audit found beside what is claimed: lower bounds on epsilon from the scores of an attack.

An attack gives every trial a score, large where it believes that the canary was there. Scores of trials with the canary
(``scores_in``) and without it (``scores_out``) that separate better than (epsilon, delta) allows refute that epsilon. A
bound is exceeded with probability ``confidence`` by the mechanism's epsilon at ``delta``.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta, chi2, f, normaltest

from airmixml.arrays import Doubles, Integers
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.settings import AUDITED
from airmixml.audit.trials import Trials
from airmixml.messages import PrivacyError, ScenarioError, against, epsilon_text
from airmixml.notebook import html_lines, html_table
from airmixml.planning.account import state_slots
from airmixml.privacy import Design, Question
from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.scenario import Scenario, keys_in_force

# Below this the scores are not taken for normal.
_LEAST_P_VALUE: Final = 1e-4
# Share of the trials that chooses the threshold; the others, which have not seen it, are counted at it.
_CHOOSING_SHARE: Final = 0.25
_SAME: Final = 1e-9  # deviation of scores over their size: rounding
_MOST_THRESHOLDS: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One accountant's epsilon, None where it refuses, and why."""

    accountant: str
    epsilon: float | None
    why: str


def claims_of(design: Design, asked: Question, accountants: Iterable[str]) -> list[Claim]:
    """Return what each of these accountants claims of the slots of a design where the same is asked."""
    claims = []
    for name in accountants:
        try:
            stated = state_slots(replace(asked, accountant=name), design)
            finite = math.isfinite(stated.epsilon)
            epsilon, why = (stated.epsilon, stated.why) if finite else (None, "no finite epsilon holds")
        except PrivacyError as problem:
            epsilon, why = None, str(problem)
        claims.append(Claim(accountant=name, epsilon=epsilon, why=why))
    return claims


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """An epsilon that the mechanism exceeds."""

    method: str  # how it was found
    epsilon: float | None  # the bound; None where the method was left out
    assumes: str  # what it takes for granted
    detail: str  # trials and counts, or why it was left out


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What is claimed against an adversary, what attacks as that adversary brought, and what follows from it."""

    adversary: str
    adjacency: str
    delta: float  # of claims and bounds
    confidence: float  # with which all lower bounds on all adversaries of one command hold together
    failure: float  # probability with which a bound on this adversary may be wrong, its part of what that leaves
    claims: list[Claim]  # of every accountant
    trials: Trials
    noise_checks: list[NoiseCheck]  # what the noise of a real run, or that which workers add, is like
    centred: bool = False  # whether another slot estimates a private mean, which is not audited
    notes: list[str] = field(default_factory=list)  # what a reader should know, in words

    @cached_property
    def bounds(self) -> list[LowerBound]:
        """The bounds of all methods; the failure probability is split over them (Bonferroni)."""
        scores, delta = (self.trials.scores_in, self.trials.scores_out), self.delta
        if any(np.isnan(found).any() for found in scores):
            raise ScenarioError("the scores of an attack are not all numbers, so nothing can be said; lower the power")
        counted = f"{len(scores[0]):,} trials with the canary, {len(scores[1]):,} without"
        each = 1.0 - self.failure / (2 if self.trials.normal else 1)
        epsilon: float | None = clopper_pearson_epsilon(*scores, delta, each)
        found = [
            LowerBound(method="clopper-pearson", epsilon=epsilon, assumes=self.trials.independence, detail=counted)
        ]
        if self.trials.normal:
            p_value = normal_scores_p_value(*scores)
            tested = f"p-value of normality {p_value:.2g}, must be at least {_LEAST_P_VALUE:g}"
            epsilon, detail = None, f"left out: the scores are not normal ({tested})"
            if p_value >= _LEAST_P_VALUE:
                epsilon, detail = parametric_epsilon(*scores, delta, each), f"{counted}; {tested}"
            about = {"method": "normal scores", "assumes": "normal scores of one variance", "detail": detail}
            found.append(LowerBound(epsilon=epsilon, **about))
        return found

    @property
    def sharpest(self) -> Claim | None:
        """The claim with the least epsilon; None where no accountant claims anything."""
        stated = [claim for claim in self.claims if claim.epsilon is not None]
        return min(stated, key=lambda claim: claim.epsilon or 0.0, default=None)

    @property
    def scope(self) -> str:
        """Which part of a run claims and bounds are about, in words; empty where it is all of it."""
        if not self.centred:
            return ""
        return f"{against(self.adversary)}, without the slot that estimates the mean, which spends more"

    @property
    def best(self) -> LowerBound:
        """The largest lower bound."""
        return max(self.bounds, key=lambda bound: -1.0 if bound.epsilon is None else bound.epsilon)

    @property
    def caught(self) -> bool:
        """Whether a claim is false: a bound exceeds it, or the noise is not as stated."""
        return any(check.passed is False for check in self.noise_checks) or any(map(self.refutes, self.bounds))

    def refutes(self, bound: LowerBound) -> bool:
        claim = self.sharpest
        return claim is not None and bound.epsilon is not None and bound.epsilon > (claim.epsilon or 0.0)

    @property
    def in_words(self) -> str:
        """The best bound beside what is claimed."""
        stated, attack = self.sharpest, AUDITED[self.adversary].attack
        claimed = "nothing is claimed"
        if stated is not None:
            claimed = f"{epsilon_text(stated.epsilon)} is claimed ({stated.accountant})"
        found = f"found epsilon >= {epsilon_text(self.best.epsilon)} with {100 * self.confidence:g} % confidence"
        return f"{self.scope}: " * bool(self.scope) + f"the best attack {attack} {found}, {claimed}"

    def to_dict(self) -> dict[str, Any]:
        sharpest = self.sharpest
        return {
            "adversary": self.adversary,
            "adjacency": self.adjacency,
            "delta": self.delta,
            "confidence": self.confidence,
            "epsilon_lower": self.best.epsilon,
            "method": self.best.method,
            "epsilon_claimed": None if sharpest is None else sharpest.epsilon,
            "accountant": None if sharpest is None else sharpest.accountant,
            **({"scope": self.scope} if self.centred else {}),
            "caught": self.caught,
            "claims": [asdict(claim) for claim in self.claims],
            "bounds": [asdict(bound) for bound in self.bounds],
            "trials": self.trials.to_dict(),
            "notes": self.notes,
        }


def binomial_upper(count: Integers | int, trials: int, failure: float) -> Doubles:
    """Return Clopper and Pearson's upper limit of a rate, exceeded with probability ``failure`` at most; like count."""
    counts = np.asarray(count, dtype=np.float64)
    limit = beta.ppf(1.0 - failure, counts + 1.0, np.maximum(trials - counts, 1e-300))
    return np.where(counts >= trials, 1.0, limit)


def clopper_pearson_epsilon(scores_in: Doubles, scores_out: Doubles, delta: float, confidence: float) -> float:
    """Return an epsilon that the mechanism exceeds with that confidence; nothing is assumed but independent trials.

    (epsilon, delta) allows TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta for every test. A quarter of
    the trials chooses threshold and direction, the rest bounds the two rates, each with half of the failure
    probability (Jagielski, Ullman and Oprea 2020, with the choice made on other trials than the count).
    """

    def epsilons(some_in: Doubles, some_out: Doubles, thresholds: Doubles) -> Doubles:
        """Return what limits of the error rates allow in both directions; 2 x thresholds."""
        misses = np.searchsorted(np.sort(some_in), thresholds, side="right")
        alarms = len(some_out) - np.searchsorted(np.sort(some_out), thresholds, side="right")
        failure = (1.0 - confidence) / 2.0
        miss, alarm = binomial_upper(misses, len(some_in), failure), binomial_upper(alarms, len(some_out), failure)
        above, below = np.stack([1.0 - miss - delta, 1.0 - alarm - delta]), np.stack([alarm, miss])
        logarithms = np.log(np.maximum(above, 1e-300)) - np.log(np.maximum(below, 1e-300))
        return np.where(above > 0.0, logarithms, -np.inf)

    cut_in, cut_out = (int(len(scores) * _CHOOSING_SHARE) for scores in (scores_in, scores_out))
    thresholds = _thresholds(scores_in[:cut_in], scores_out[:cut_out])
    # Limits of the few trials that choose, so that a lucky threshold far out in the tail is not taken.
    guesses = epsilons(scores_in[:cut_in], scores_out[:cut_out], thresholds)
    row, place = np.unravel_index(int(np.argmax(guesses)), guesses.shape)
    counted = epsilons(scores_in[cut_in:], scores_out[cut_out:], thresholds[place : place + 1])
    return max(0.0, float(counted[row, 0]))


def parametric_epsilon(scores_in: Doubles, scores_out: Doubles, delta: float, confidence: float) -> float:
    """Return an epsilon that is exceeded with that confidence *if the scores are normal with one variance*.

    Log-likelihood ratios of a Gaussian mechanism are. The deviation is bounded above through chi-square and the
    distance of the means below through the normal law, each with half of the failure probability; their ratio bounds
    mu. Unlike counting this reaches any epsilon.
    """
    failure = (1.0 - confidence) / 2.0
    trials_in, trials_out = len(scores_in), len(scores_out)
    freedom = trials_in + trials_out - 2
    squares = float(np.var(scores_in) * trials_in + np.var(scores_out) * trials_out)
    deviation_up = math.sqrt(squares / float(chi2.ppf(failure, freedom)))
    error = float(-ndtri(failure)) * deviation_up * math.sqrt(1.0 / trials_in + 1.0 / trials_out)
    apart = float(np.mean(scores_in) - np.mean(scores_out)) - error
    return gaussian_epsilon(apart / deviation_up, delta) if apart > 0.0 else 0.0


def normal_scores_p_value(scores_in: Doubles, scores_out: Doubles) -> float:
    """Return how well the scores agree with normal laws of one variance: the least of three p-values, times three.

    Skewness and kurtosis of either world (D'Agostino and Pearson), and the ratio of the two variances. Doubles that are
    all the same have no law.
    """
    if min(np.std(scores_in), np.std(scores_out)) <= _SAME * max(np.abs(scores_in).max(), np.abs(scores_out).max()):
        return 0.0
    ratio = float(np.var(scores_in, ddof=1) / max(float(np.var(scores_out, ddof=1)), 1e-300))
    law = f(len(scores_in) - 1, len(scores_out) - 1)
    equal = 2.0 * min(float(law.cdf(ratio)), float(law.sf(ratio)))
    return min(1.0, 3.0 * min(float(normaltest(scores_in).pvalue), float(normaltest(scores_out).pvalue), equal))


def _thresholds(scores_in: Doubles, scores_out: Doubles) -> Doubles:
    """Return places between scores to cut at, and the middle between the two medians."""
    every = np.unique(np.concatenate([scores_in, scores_out]))
    if len(every) < 2:
        return np.asarray([0.0])
    middles = (every[1:] + every[:-1]) / 2.0
    step = max(1, len(middles) // _MOST_THRESHOLDS)
    centre = (float(np.median(scores_in)) + float(np.median(scores_out))) / 2.0
    return np.append(middles[::step], centre)


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditResult:
    """Everything that one command found, one audit for each adversary; ``to_dict`` is its ``metrics.json``."""

    scenario: Scenario
    fault: Fault
    audits: list[Audit]
    resumed_blocks: int  # of trials, that an interrupted audit had finished
    seconds: float
    run_dir: Path

    @property
    def caught(self) -> bool:
        """Whether a claim is false, or the noise is not as stated."""
        return any(each.caught for each in self.audits)

    @property
    def noise_checks(self) -> list[NoiseCheck]:
        """All that was measured of noise, once."""
        return list({check.of: check for each in self.audits for check in each.noise_checks}.values())

    @property
    def own(self) -> Audit:
        """The audit of the scenario's own adversary, or else the first."""
        adversary = self.scenario.privacy.adversary
        return next((each for each in self.audits if each.adversary == adversary), self.audits[0])

    @cached_property
    def verdict(self) -> str:
        """One line that a manager understands."""
        audits, fault, checks = self.audits, self.fault, self.noise_checks
        broken = f" (injected fault: {fault.about})" if fault.name else ""
        faulty = [check.why_not for check in checks if check.passed is False]
        refuted = [each.in_words for each in audits if any(map(each.refutes, each.bounds))]
        if refuted or faulty:
            first = "CAUGHT" if fault.name else "BROKEN"
            false = "the claim is false" if refuted else "no claim that rests on it holds"
            return f"{first}: {'; '.join(faulty + refuted)}, so {false}{broken}."
        first, found = "NOT CAUGHT" if fault.name else "NOT REFUTED", [each.in_words for each in audits]
        if all(each.sharpest is None for each in audits):
            first, found = "NO CLAIM", ["nothing could be refuted", *found]
        if any(check.passed is None for check in checks):
            found.append("the noise of a run was not checked")
        return f"{first}: {'; '.join(found)}{broken}."

    def _repr_html_(self) -> str:
        rows = [(each.adversary, each.in_words) for each in self.audits]
        return html_lines([self.verdict]) + html_table(f"Audit of {self.scenario.title}", ("adversary", "found"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; bounds and claims at the top are those of the scenario's own adversary."""
        found = self.own.to_dict()
        repeated = ("epsilon_lower", "epsilon_claimed", "confidence", "delta", "adversary", "adjacency")
        return {
            "name": self.scenario.name,
            "air": keys_in_force(self.scenario.air),
            "seed": self.scenario.seed,
            "mode": "simulation",
            "verdict": self.verdict,
            **{key: found[key] for key in repeated},
            "caught": self.caught,
            "noise_check": self.own.noise_checks[0].to_dict(),
            "noise_checks": [{**check.to_dict(), "told": check.in_words} for check in self.noise_checks],
            "fault": self.fault.name or None,
            "audits": [each.to_dict() for each in self.audits],
            "resumed_blocks": self.resumed_blocks,
            "seconds": self.seconds,
            "run_dir": str(self.run_dir),
        }
