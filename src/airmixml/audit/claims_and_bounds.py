"""What an audit found beside what is claimed: lower bounds by every method that is valid for an attack."""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.attacks.claimed_epsilons import Claim, sharpest_of
from airmixml.audit import bounds as lower
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.settings import AUDITED
from airmixml.audit.trials import Trials
from airmixml.errors import ScenarioError
from airmixml.notebook import html_lines, html_table
from airmixml.scenario import Scenario, keys_in_force
from airmixml.wording import against, epsilon_text

# Below this the scores are not taken for normal.
_LEAST_P_VALUE: Final = 1e-4


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
        return _bounds_of(self)

    @property
    def sharpest(self) -> Claim | None:
        """The claim with the least epsilon; None where no accountant claims anything."""
        return sharpest_of(self.claims)

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


def _bounds_of(audit: Audit) -> list[LowerBound]:
    """Return the bounds of all methods; the failure probability is split over them (Bonferroni)."""
    trials, delta = audit.trials, audit.delta
    scores = trials.scores_in, trials.scores_out
    if any(np.isnan(found).any() for found in scores):
        raise ScenarioError("the scores of an attack are not all numbers, so nothing can be said; lower the power")
    counted = f"{len(scores[0]):,} trials with the canary, {len(scores[1]):,} without"
    each = 1.0 - audit.failure / (2 if trials.normal else 1)
    epsilon: float | None = lower.clopper_pearson_epsilon(*scores, delta, each)
    found = [LowerBound(method="clopper-pearson", epsilon=epsilon, assumes="independent trials", detail=counted)]
    if trials.normal:
        p_value = lower.normal_scores_p_value(*scores)
        tested = f"p-value of normality {p_value:.2g}, must be at least {_LEAST_P_VALUE:g}"
        epsilon, detail = None, f"left out: the scores are not normal ({tested})"
        if p_value >= _LEAST_P_VALUE:
            epsilon, detail = lower.parametric_epsilon(*scores, delta, each), f"{counted}; {tested}"
        about = {"method": "normal scores", "assumes": "normal scores of one variance", "detail": detail}
        found.append(LowerBound(epsilon=epsilon, **about))
    return found


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
