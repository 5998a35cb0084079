"""What an audit found, beside what is claimed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airmixml.attacks.claimed_epsilons import Claim, sharpest_of
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.one_run import OneRun
from airmixml.audit.settings import Fault
from airmixml.audit.trials import Trials
from airmixml.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """An epsilon that the mechanism exceeds.

    Attributes:
        method: how it was found.
        epsilon: the bound; None where the method was left out.
        adjacency: which neighbours it is about.
        assumes: what it takes for granted.
        detail: trials and counts, or why it was left out.
    """

    method: str
    epsilon: float | None
    adjacency: str
    assumes: str
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What an attack found beside what is claimed.

    Attributes:
        adversary: whose attack.
        adjacency: which neighbours.
        delta: of claims and bounds.
        confidence: with which all lower bounds on all adversaries of one command hold together.
        failure: probability with which a bound on this adversary may be wrong, its part of what the confidence leaves.
        claims: of every accountant, for these neighbours.
        other_claims: the same for the other neighbours, where a bound is about those.
        bounds: by every method.
        trials: the scores.
        one_run: scores of the run with many canaries, if there was one.
        noise_check: what the noise of a real run is like.
        notes: what a reader should know, in words.
    """

    adversary: str
    adjacency: str
    delta: float
    confidence: float
    failure: float
    claims: list[Claim]
    other_claims: list[Claim]
    bounds: list[LowerBound]
    trials: Trials
    one_run: OneRun | None
    noise_check: NoiseCheck
    notes: list[str]

    @property
    def sharpest(self) -> Claim | None:
        """The claim with the least epsilon; None where no accountant claims anything."""
        return sharpest_of(self.claims)

    @property
    def best(self) -> LowerBound:
        """The largest lower bound that is about these neighbours."""
        found = [bound for bound in self.bounds if bound.epsilon is not None and bound.adjacency == self.adjacency]
        return max(found, key=lambda bound: bound.epsilon or 0.0)

    @property
    def caught(self) -> bool:
        """Whether a claim is false: a bound about the same neighbours exceeds it, or the noise is not as stated."""
        return self.noise_check.passed is False or any(self.refutes(bound) for bound in self.bounds)

    def refutes(self, bound: LowerBound) -> bool:
        """Whether the bound exceeds a claim about the same neighbours."""
        sharpest = sharpest_of(self.claims if bound.adjacency == self.adjacency else self.other_claims)
        return (
            bound.epsilon is not None
            and sharpest is not None
            and sharpest.epsilon is not None
            and bound.epsilon > sharpest.epsilon
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        sharpest = self.sharpest
        return {
            "adversary": self.adversary,
            "adjacency": self.adjacency,
            "delta": self.delta,
            "confidence": self.confidence,
            "failure_probability": self.failure,
            "epsilon_lower": self.best.epsilon,
            "method": self.best.method,
            "epsilon_claimed": None if sharpest is None else sharpest.epsilon,
            "accountant": None if sharpest is None else sharpest.accountant,
            "caught": self.caught,
            "claims": [claim.to_dict() for claim in self.claims],
            "other_claims": [claim.to_dict() for claim in self.other_claims],
            "bounds": [bound.to_dict() for bound in self.bounds],
            "trials": {
                "with_canary": len(self.trials.scores_in),
                "without": len(self.trials.scores_out),
                "how": self.trials.how,
            },
            "notes": self.notes,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditResult:
    """Everything that one command found; ``to_dict`` is its ``metrics.json``.

    Attributes:
        scenario: what was audited.
        fault: injected into the mechanism.
        audits: one for each adversary.
        verdict: one line that a manager understands.
        resumed_blocks: of trials that an interrupted audit had finished.
        seconds: how long it took.
        run_dir: folder of the results.
    """

    scenario: Scenario
    fault: Fault
    audits: list[Audit]
    verdict: str
    resumed_blocks: int
    seconds: float
    run_dir: Path

    @property
    def caught(self) -> bool:
        """Whether a claim is false, or the noise is not as stated."""
        return any(each.caught for each in self.audits)

    @property
    def own(self) -> Audit:
        """The audit of the scenario's own adversary, or else the first."""
        adversary = self.scenario.privacy.adversary
        return next((each for each in self.audits if each.adversary == adversary), self.audits[0])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; bounds and claims at the top are those of the scenario's own adversary."""
        found = self.own.to_dict()
        repeated = ("epsilon_lower", "epsilon_claimed", "confidence", "delta", "adversary", "adjacency")
        return {
            "name": self.scenario.name,
            "seed": self.scenario.seed,
            "verdict": self.verdict,
            **{key: found[key] for key in repeated},
            "confidence_of": "all lower bounds on all audited adversaries together",
            "caught": self.caught,
            "noise_check": self.own.noise_check.to_dict(),
            "fault": self.fault.name or None,
            "audits": [each.to_dict() for each in self.audits],
            "resumed_blocks": self.resumed_blocks,
            "seconds": self.seconds,
            "run_dir": str(self.run_dir),
        }
