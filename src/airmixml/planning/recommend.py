"""What workers should send to a closed-form learner: searched at one privacy target, within a time on the air."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from airmixml.planning.learning_noise import DesignScorer, SendingPlan
from airmixml.progress import Progress, silent
from airmixml.registries import SCHEDULES
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from airmixml.planning.design_search import DesignSearch

DEFAULT_AIR_SECONDS: Final = 3600.0
_STEP: Final = 3.0  # of |N_t| and T
_MOST_EXACT: Final = 8  # of those that were tried are checked with the accountant's own word
_WEIGHTS: Final = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_ALPHAS: Final = (1.0, 1e2, 1e4)
# A thousand times the air time must bring 1.4 % less noise: else the shorter design is taken.
_AIR_EXPONENT: Final = 0.002
# Designs this near to the best are as good as it.
_AS_GOOD: Final = 1.025


@dataclass(frozen=True, kw_only=True)
class LearningOption:
    """One way to send at the target privacy, and what it gives and costs."""

    sending: SendingPlan  # what is sent, by how many and how often
    learning_noise_db: float  # noise in the equation that the learner solves, over what one sample adds to it
    air_seconds: float  # how long all slots take
    energy_joules: float = math.nan  # of all workers together, once it is planned
    rounds: int = 0  # of gradients after the slots, counted in time and energy; the learning noise is without them

    def to_dict(self) -> dict[str, Any]:
        flat = {**vars(self.sending), **{name: value for name, value in vars(self).items() if name != "sending"}}
        return {name: value for name, value in flat.items() if not (isinstance(value, float) and math.isinf(value))}


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What to send."""

    own: LearningOption  # what the scenario does
    best: LearningOption  # what would leave the learner with the least noise
    gain_db: float  # by how much less noise; infinite where the scenario's own design carries no signal at all
    overrides: tuple[str, ...]  # for ``airmix run --set``; empty where the scenario is as good as the best
    max_air_seconds: float  # the most time on the air that was considered
    note: str  # what was not considered, and why
    tried: dict[SendingPlan, float]  # what was tried, with its learning noise (no decibels)
    rehearsal: DesignSearch | None = None  # how accurate learners and encoders are with that design

    def to_dict(self) -> dict[str, Any]:
        """Return the best option with how to get it, as plain values for JSON."""
        return {
            **self.best.to_dict(),
            **({"gain_db": self.gain_db} if math.isfinite(self.gain_db) else {}),
            "overrides": list(self.overrides),
            "max_air_seconds": self.max_air_seconds,
            **({"note": self.note} if self.note else {}),
            "own": self.own.to_dict(),
            **({"rehearsal": self.rehearsal.to_dict()} if self.rehearsal else {}),
        }


def recommend(
    scorer: DesignScorer, *, max_air_seconds: float | None = None, progress: Progress = silent
) -> Recommendation | None:
    """Return what workers should send to leave a closed-form learner with the least noise.

    A grid of |N_t| and T is scored, each with the best label weight and shares. None where nothing fits into the time
    on the air: ``max_air_seconds``, by default an hour, or what the scenario takes if that is more.
    """
    own, own_seconds = scorer.own, scorer.air_seconds(scorer.own)
    limit = max(own_seconds, DEFAULT_AIR_SECONDS) if max_air_seconds is None else max_air_seconds
    search = _Search(scorer, limit)
    found = search.run(progress)
    if not found:
        return None
    # The accountant's own word on what was scaled or guessed so far, the most promising first.
    ranked = sorted(found, key=lambda sending: search.cost(sending, found[sending]))
    exact = {
        sending: noise.total for sending in ranked[:_MOST_EXACT] if (noise := scorer.exact_noise(sending)) is not None
    }
    own_noise = scorer.exact_noise(own)
    own_total = math.inf if own_noise is None else own_noise.total
    if own_seconds <= limit and math.isfinite(own_total):
        exact[own] = own_total
    if not exact:
        return None
    least = min(exact.values())
    good = [sending for sending in exact if exact[sending] <= _AS_GOOD * least]
    # Of designs that are as good the one with the fewest slots; and what is there already needs no change.
    best = min(good, key=lambda sending: (sending.slots, sending != own, search.cost(sending, exact[sending])))
    return Recommendation(
        own=search.option(own, own_total),
        best=search.option(best, exact[best]),
        gain_db=10.0 * math.log10(own_total / exact[best]),
        overrides=changed_keys(scorer.given, best.applied_to(scorer.given)),
        max_air_seconds=limit,
        note=f"moments were not considered: {scorer.moments_refused}" if scorer.moments_refused else "",
        tried=found,
    )


def changed_keys(scenario: Scenario, changed: Scenario) -> tuple[str, ...]:
    """Return what must be set to make one scenario the other, as ``airmix run --set`` takes it.

    Rounds and what solves the first model are told together, and so are the two keys of the norm: where one says
    "auto", it follows from the other or changes it.
    """
    before, after = scenario.to_dict(), changed.to_dict()
    differ = {
        (table, name): value
        for table in ("workers", "radio", "mixing", "privacy", "learner")
        for name, value in after[table].items()
        if value != before[table][name]
    }
    if differ and (scenario.learner.rounds or changed.learner.rounds):
        differ |= {("learner", name): after["learner"][name] for name in ("model", "rounds")}
    if {("workers", "norm"), ("workers", "clip_norm")} & differ.keys():
        differ |= {("workers", name): after["workers"][name] for name in ("norm", "clip_norm")}
    return tuple(f"{table}.{name}={'' if value == [] else value}" for (table, name), value in differ.items())


class _Search:
    """Scores sending plans by their learning noise."""

    def __init__(self, scorer: DesignScorer, limit_seconds: float) -> None:
        self._scorer, self._limit_seconds = scorer, limit_seconds
        self._workers = scorer.scenario.workers.count
        privacy = scorer.scenario.privacy
        sends = ("samples",) if scorer.moments_refused else ("moments", "samples")
        if scorer.scenario.workers.several_rows or scorer.given.learner.rounds:
            sends = ("moments",)
        # A hidden coin helps against adversaries who do not know the schedule.
        may_toss = privacy.adversary == "release" and not scorer.given.learner.rounds
        ours = ("fixed", "poisson") if may_toss else ("fixed",)
        self._kinds = list(product(sends, dict.fromkeys((*ours, scorer.own.schedule))))

    def cost(self, sending: SendingPlan, noise: float) -> float:
        """Return what is minimised: the noise, and a little the time on the air."""
        return noise * math.pow(self._scorer.air_seconds(sending), _AIR_EXPONENT)

    def option(self, sending: SendingPlan, noise: float) -> LearningOption:
        """Return it with what it gives and costs."""
        return LearningOption(
            sending=sending,
            learning_noise_db=10.0 * math.log10(noise),
            air_seconds=self._scorer.air_seconds(sending),
        )

    def run(self, progress: Progress) -> dict[SendingPlan, float]:
        """Return what was tried, with its learning noise."""
        found: dict[SendingPlan, float] = {}
        for done, (sends, schedule) in enumerate(self._kinds):
            progress("designs", done, len(self._kinds))
            found.update(self._scored(self._grid(sends, schedule)))
        progress("designs", len(self._kinds), len(self._kinds))
        return found

    def _grid(self, sends: str, schedule: str) -> Iterator[SendingPlan]:
        """Yield designs with equal shares whose |N_t| and T are some powers apart, as far as time allows."""
        base = replace(self._scorer.own, sends=sends, schedule=schedule, policy="equalmix", alpha=None)
        sizes = _powers(_STEP, 1 if sends == "moments" else 2, self._workers)
        for size, slots in product(sizes, _powers(_STEP, 1, self._most_slots(base))):
            yield replace(base, scheduled=size, slots=slots)

    def _most_slots(self, sending: SendingPlan) -> int:
        """Return how many slots fit into the time; 0 where not even one does."""
        one_slot = self._scorer.air_seconds(replace(sending, slots=1))
        return min(int(self._limit_seconds / one_slot * (1.0 + 1e-12)), 10**12)

    def _scored(self, designs: Iterable[SendingPlan]) -> dict[SendingPlan, float]:
        """Return the best weight and shares of each design, with the noise."""
        best: dict[SendingPlan, float] = {}
        for design in designs:
            kept: tuple[float, SendingPlan] | None = None
            for variant in self._variants(design):
                noise = self._scorer.noise(variant)
                if noise is None:
                    break
                # A little better is no reason for another weight or other shares than the scenario's.
                if math.isfinite(noise.total) and (kept is None or noise.total < kept[0] / 1.002):
                    kept = noise.total, variant
            if kept is not None:
                best[kept[1]] = kept[0]
        return best

    def _variants(self, design: SendingPlan) -> Iterator[SendingPlan]:
        """Yield the design with other label weights, then with other shares."""
        own = self._scorer.own
        mixes: list[tuple[str, float | None]] = [("equalmix", None)]
        if not SCHEDULES.load(design.schedule).by_coin and design.scheduled > 1 and design.sends == "samples":
            # Equal shares hide each worker best, but where everybody sends they make all slots the same.
            mixes += [("dirmix", alpha) for alpha in _ALPHAS if design.scheduled == self._workers]
            if own.policy != "equalmix" and not self._scorer.scenario.mixing.prior:
                mixes.insert(0, (own.policy, own.alpha))
        for policy, alpha in mixes:
            for weight in dict.fromkeys((own.label_weight, *_WEIGHTS)):
                yield replace(design, policy=policy, alpha=alpha, label_weight=weight)


def _powers(step: float, low: int, high: int) -> list[int]:
    """Return low, low step, ... and high itself; empty if high is below low."""
    if high < low:
        return []
    count = int(math.log(high / low) / math.log(step) + 1e-9)
    return sorted({*(round(low * step**power) for power in range(count + 1)), high})
