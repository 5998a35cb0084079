"""What an attack found, beside what is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airmixml.audit.accountant_claims import Claim
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.one_run import OneRun
from airmixml.audit.trials import Trials


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


def sharpest_of(claims: list[Claim]) -> Claim | None:
    """Return the claim with the least epsilon; None where no accountant claims anything."""
    stated = [claim for claim in claims if claim.epsilon is not None]
    return min(stated, key=lambda claim: claim.epsilon or 0.0, default=None)
