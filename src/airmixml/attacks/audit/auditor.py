"""One audit: attack what an adversary sees, bound epsilon from below, and hold that against every claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from airmixml.attacks.audit.bounds import (
    clopper_pearson_epsilon,
    gaussian_epsilon_lower,
    largest_counted_epsilon,
    normal_scores_p_value,
    one_run_epsilon,
    parametric_epsilon,
)
from airmixml.attacks.audit.claims import Claim, claims_of
from airmixml.attacks.audit.faults import SOUND, Fault
from airmixml.attacks.audit.hidden_schedule import hidden_schedule_trials
from airmixml.attacks.audit.known_schedule import known_schedule_trials, slots_of_worker
from airmixml.attacks.audit.one_run import OneRun, canaries_that_fit, run_with_canaries
from airmixml.attacks.audit.trials import Keeper, MemoryKeeper, Trials
from airmixml.progress import Progress, silent
from airmixml.radio.design import slots_target
from airmixml.radio.draws import AirSetting
from airmixml.radio.rehearsal import placed_distances, rehearse
from airmixml.radio.tally import Tally
from airmixml.scenario import Scenario, Speed
from airmixml.workers import DataSet, encoded_dim

__all__ = ["Audit", "Auditor", "LowerBound"]

# Below this the scores are not taken for normal.
_LEAST_P_VALUE: Final = 1e-4
_FAR_BELOW: Final = 0.7
_COUNTING, _GAUSSIAN, _NORMAL, _ONE_RUN = "clopper-pearson", "gaussian", "normal scores", "one run"
_ASSUMES: Final = {
    _COUNTING: "nothing but independent trials",
    _GAUSSIAN: "the trade-off curve of a Gaussian mechanism",
    _NORMAL: "normal scores of one variance",
    _ONE_RUN: "nothing; one real run, real data",
}


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
        confidence: with which all lower bounds together hold.
        claims: of every accountant, for these neighbours.
        other_claims: the same for the other neighbours, where a bound is about those.
        bounds: by every method.
        trials: the scores.
        one_run: scores of the run with many canaries, if there was one.
        notes: what a reader should know, in words.
    """

    adversary: str
    adjacency: str
    delta: float
    confidence: float
    claims: list[Claim]
    other_claims: list[Claim]
    bounds: list[LowerBound]
    trials: Trials
    one_run: OneRun | None
    notes: list[str]

    @property
    def sharpest(self) -> Claim | None:
        """The claim with the least epsilon; None where no accountant claims anything."""
        return _sharpest(self.claims)

    @property
    def best(self) -> LowerBound:
        """The largest lower bound that is about these neighbours."""
        found = [bound for bound in self.bounds if bound.epsilon is not None and bound.adjacency == self.adjacency]
        return max(found, key=lambda bound: bound.epsilon or 0.0)

    @property
    def caught(self) -> bool:
        """Whether a lower bound exceeds a claim about the same neighbours: then that claim is false."""
        return any(self.refutes(bound) for bound in self.bounds)

    def refutes(self, bound: LowerBound) -> bool:
        """Whether the bound exceeds a claim about the same neighbours."""
        sharpest = _sharpest(self.claims if bound.adjacency == self.adjacency else self.other_claims)
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
            "one_run": None if self.one_run is None else self.one_run.how,
            "notes": self.notes,
        }


class Auditor:
    """Audits one scenario, for one adversary after the other.

    The schedule is rehearsed once: it decides the worst worker and what is claimed.
    """

    def __init__(
        self,
        scenario: Scenario,
        dataset: DataSet,
        *,
        adjacency: str = "",
        trials: int = 10_000,
        canaries: int = 1000,
        confidence: float = 0.95,
        fault: Fault = SOUND,
        speed: Speed | None = None,
        keeper: Keeper | None = None,
        progress: Progress = silent,
    ) -> None:
        """Prepare an audit.

        Args:
            scenario: what to audit.
            dataset: its data, encoded.
            adjacency: which neighbours; empty for the scenario's own.
            trials: of which half have the canary.
            canaries: workers that are canaries in one real run; 0 for no such run.
            confidence: with which the lower bounds on one adversary hold together.
            fault: what is broken on purpose; claims are those of the sound mechanism.
            speed: threads and block size.
            keeper: keeps finished blocks of trials.
            progress: told how far each stage is.
        """
        self.scenario, self.dataset = scenario, dataset
        self.adjacency = adjacency or scenario.privacy.adjacency
        self.delta = slots_target(scenario)[1]
        self._trials, self._canaries, self._confidence = trials // 2, canaries, confidence
        self._fault, self._speed = fault, speed or Speed()
        self._keeper, self._progress = keeper or MemoryKeeper(), progress
        # A mean that is estimated on air is subtracted later, and the constant appended after that.
        self._features = encoded_dim(scenario.workers, dataset.held_dim or dataset.input_dim)
        self._setting = AirSetting.of(scenario, self._features, dataset.label_dim, placed_distances(scenario))
        self._tally: Tally | None = None

    @property
    def tally(self) -> Tally:
        """What the schedule of the scenario's seed decides."""
        if self._tally is None:
            classes = self.dataset.label_dim
            self._tally = rehearse(self.scenario, self._features, classes, progress=self._progress)
        return self._tally

    def audit(self, adversary: str) -> Audit:
        """Attack as that adversary: "release" or "server"."""
        told = adversary == "server" or self._nothing_is_hidden()
        trials = self._known(adversary) if told else self._hidden()
        one_run, left_out = self._one_run(adversary, told=told)
        design = self.tally.design
        claims = claims_of(self.scenario, design, adversary, self.adjacency, self.delta)
        others = one_run is not None and one_run.adjacency != self.adjacency
        other_claims = (
            claims_of(self.scenario, design, adversary, one_run.adjacency, self.delta) if others and one_run else []
        )
        audit = Audit(
            adversary=adversary,
            adjacency=self.adjacency,
            delta=self.delta,
            confidence=self._confidence,
            claims=claims,
            other_claims=other_claims,
            bounds=self._bounds(trials, one_run, left_out),
            trials=trials,
            one_run=one_run,
            notes=[],
        )
        return replace(audit, notes=self._notes(audit, told=told))

    def _nothing_is_hidden(self) -> bool:
        """Whether no credit is claimed for a hidden schedule, or everybody sends the same share in every slot."""
        scenario = self.scenario
        everybody = scenario.radio.scheduled == scenario.workers.count and scenario.radio.schedule == "fixed"
        return self.tally.design.power_tells_schedule or (everybody and scenario.mixing.policy == "equalmix")

    def _known(self, adversary: str) -> Trials:
        worst = int(self.tally.ledger.received_watts.argmax())
        return known_schedule_trials(
            self._setting,
            self.dataset.label_dim,
            slots_of_worker(self._setting, worst, threads=self._speed.threads),
            adversary=adversary,
            adjacency=self.adjacency,
            trials=self._trials,
            fault=self._fault,
            keeper=self._keeper,
            progress=self._progress,
        )

    def _hidden(self) -> Trials:
        return hidden_schedule_trials(
            self._setting,
            self.dataset.label_dim,
            adjacency=self.adjacency,
            trials=self._trials,
            fault=self._fault,
            keeper=self._keeper,
            progress=self._progress,
            threads=self._speed.threads,
        )

    def _one_run(self, adversary: str, *, told: bool) -> tuple[OneRun | None, str]:
        """Return the run with many canaries, or why there is none."""
        scenario = self.scenario
        canaries, why = canaries_that_fit(self._canaries, scenario.workers.count, self._setting.signal.symbols)
        if not canaries:
            return None, why
        hidden_fixed = not told and scenario.radio.schedule == "fixed"
        # Where a removed worker's seat goes to somebody else, a coin cannot remove it from this run.
        adjacency = "replace-one" if hidden_fixed else self.adjacency
        kept = self._keeper.load(f"{adversary}, one run")
        if kept:
            scores, coins = kept[0]
            run = OneRun(scores=scores, coins=coins > 0.5, adjacency=adjacency, how="")
            ...
        run = run_with_canaries(
            scenario,
            self.dataset,
            canaries,
            adjacency=adjacency,
            told=told or self._fault.schedule_revealed,
            fault=self._fault,
            speed=self._speed,
            progress=self._progress,
        )
        return run, why
