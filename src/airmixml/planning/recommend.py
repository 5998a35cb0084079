"""The best way to spend the power on a learner in closed form: searched at one privacy target, within a time on air."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from airmixml.doors import ACCOUNTANTS
from airmixml.planning.designs import Spending, SpendingBench, changed_keys
from airmixml.progress import Progress, silent

DEFAULT_AIR_SECONDS: Final = 3600.0
_COARSE: Final = 4.0
_WEIGHTS: Final = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_ALPHAS: Final = (1.0, 1e2, 1e4)
# A thousand times the air time must bring 1.4 % less noise: else the shorter design is taken.
_AIR_EXPONENT: Final = 0.002
# Designs this near to the best are as good as it.
_AS_GOOD: Final = 1.025
_FINEST_STEP: Final = 1.2
# Accountants without a closed form are asked at most so often in all.
_MOST_QUESTIONS: Final = 16


@dataclass(frozen=True, kw_only=True)
class LearningOption:
    """One way to spend the power at the target privacy, and what it gives and costs.

    Attributes:
        spending: what is sent, by how many and how often.
        learning_noise_db: noise in the equation that the learner solves, over what one sample adds to it.
        air_seconds: how long all slots take.
        energy_joules: of all workers together.
    """

    spending: Spending
    learning_noise_db: float
    air_seconds: float
    energy_joules: float

    def to_dict(self) -> dict[str, Any]:
        """Return the option as one flat table of plain values."""
        flat = {**vars(self.spending), **{name: value for name, value in vars(self).items() if name != "spending"}}
        return {name: value for name, value in flat.items() if not (isinstance(value, float) and math.isinf(value))}


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """How to spend the power.

    Attributes:
        own: what the scenario does.
        best: what would leave the learner with the least noise.
        gain_db: by how much less noise; infinite where the scenario's own design carries no signal at all.
        overrides: what to set, as ``airmix run --set`` takes it; empty where the scenario is as good as the best.
        max_air_seconds: the most time on the air that was considered.
        note: what was not considered, and why.
        by_scheduled: the best for each |N_t|.
        by_weight: the best design with each label weight.
    """

    own: LearningOption
    best: LearningOption
    gain_db: float
    overrides: tuple[str, ...]
    max_air_seconds: float
    note: str
    by_scheduled: tuple[LearningOption, ...]
    by_weight: tuple[LearningOption, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the best option with how to get it, as plain values for JSON."""
        return {
            **self.best.to_dict(),
            **({"gain_db": self.gain_db} if math.isfinite(self.gain_db) else {}),
            "overrides": list(self.overrides),
            "max_air_seconds": self.max_air_seconds,
            **({"note": self.note} if self.note else {}),
            "own": self.own.to_dict(),
            "by_scheduled": [option.to_dict() for option in self.by_scheduled],
            "by_weight": [option.to_dict() for option in self.by_weight],
        }


def recommend(
    bench: SpendingBench, *, max_air_seconds: float | None = None, progress: Progress = silent
) -> Recommendation | None:
    """Return the way to spend the power that leaves a learner in closed form with the least noise.

    A coarse grid of |N_t| and T first, then steps to better neighbours. None where nothing fits into the time.

    Args:
        bench: scores at the scenario's privacy target.
        max_air_seconds: the most time on the air; None takes an hour, or what the scenario takes if that is more.
        progress: told how many designs were tried.
    """
    own_seconds = bench.air_seconds(bench.own)
    limit = max(own_seconds, DEFAULT_AIR_SECONDS) if max_air_seconds is None else max_air_seconds
    found = _Search(bench, limit).run(progress)
    if not found:
        return None
    # The accountant's own word on what was scaled or guessed so far, the most promising first.
    ranked = sorted(found, key=lambda spending: _cost(bench, spending, found[spending]))
    scored = {spending: bench.exact_noise(spending) for spending in ranked[:4]}
    exact = {spending: noise.total for spending, noise in scored.items() if noise is not None}
    own_noise = bench.exact_noise(bench.own)
    if own_noise is not None and own_seconds <= limit and math.isfinite(own_noise.total):
        exact[bench.own] = own_noise.total
    if not exact:
        return None
    best = min(exact, key=lambda spending: _cost(bench, spending, exact[spending]))
    if exact.get(bench.own, math.inf) <= _AS_GOOD * exact[best]:
        best = bench.own  # what is there already needs no change
    own_total = math.inf if own_noise is None else own_noise.total
    return Recommendation(
        own=_option(bench, bench.own, own_total),
        best=_option(bench, best, exact[best]),
        gain_db=10.0 * math.log10(own_total / exact[best]),
        overrides=changed_keys(bench.given, best),
        max_air_seconds=limit,
        note=f"moments were not considered: {bench.moments_refused}" if bench.moments_refused else "",
        by_scheduled=_best_of_each(bench, found, "scheduled"),
        by_weight=_options(bench, [replace(best, label_weight=weight) for weight in _WEIGHTS]),
    )


class _Search:
    """Finds spendings with little learning noise; asks accountants without a closed form seldom."""

    def __init__(self, bench: SpendingBench, limit_seconds: float) -> None:
        self._bench, self._limit_seconds = bench, limit_seconds
        self._workers = bench.scenario.workers.count
        privacy = bench.scenario.privacy
        self._guess_first = not ACCOUNTANTS.load(privacy.accountant).closed_form
        self._sends = ("samples",) if bench.moments_refused else ("moments", "samples")
        # A hidden coin helps against those who do not know the schedule.
        may_toss = privacy.adversary == "release" or bench.own.schedule == "poisson"
        self._schedules = ("fixed", "poisson") if may_toss else ("fixed",)

    def run(self, progress: Progress) -> dict[Spending, float]:
        """Return what was tried, with its learning noise."""
        found: dict[Spending, float] = {}
        grids = [(sends, schedule) for sends in self._sends for schedule in self._schedules]
        starts: list[tuple[Spending, float]] = []
        for done, (sends, schedule) in enumerate(grids):
            progress("designs", done, len(grids) + 1)
            scored = self._scored(self._grid(sends, schedule), guess=self._guess_first)
            if not self._guess_first:
                found.update(scored)
            if scored:
                starts.append(min(scored.items(), key=lambda item: _cost(self._bench, *item)))
        progress("designs", len(grids), len(grids) + 1)
        starts.sort(key=lambda item: item[1])
        questions = _MOST_QUESTIONS if self._guess_first else math.inf
        for start, _ in starts[:2]:
            questions -= self._climb(start, found, questions)
        progress("designs", len(grids) + 1, len(grids) + 1)
        return found

    def _climb(self, start: Spending, found: dict[Spending, float], questions: float) -> int:
        """Go to better neighbours until there is none; return how many |N_t| and T were asked for."""
        best = self._scored([start], guess=False)
        asked, step = 1, 2.0
        found.update(best)
        while best and step > _FINEST_STEP and asked < questions:
            ((here, least),) = best.items()
            least_cost = _cost(self._bench, here, least)
            around = [each for each in self._neighbours(here, step) if each not in found]
            better: dict[Spending, float] = {}
            for each in around[: max(0, int(min(questions - asked, 99)))]:
                asked += 1
                scored = self._scored([each], guess=False)
                found.update(scored)
                better.update(
                    {key: noise for key, noise in scored.items() if _cost(self._bench, key, noise) < least_cost}
                )
            if better:
                chosen = min(better, key=lambda key: _cost(self._bench, key, better[key]))
                best = {chosen: better[chosen]}
            else:
                step = math.sqrt(step)
        return asked

    def _grid(self, sends: str, schedule: str) -> Iterator[Spending]:
        """Yield designs with equal shares whose |N_t| and T are some powers apart, as far as time allows."""
        base = self._equal(sends, schedule)
        sizes = _powers(_COARSE, 1 if sends == "moments" else 2, self._workers)
        lengths = _powers(_COARSE, 1, self._most_slots(base))
        for size in sizes:
            for slots in lengths:
                yield replace(base, scheduled=size, slots=slots)

    def _equal(self, sends: str, schedule: str) -> Spending:
        return replace(self._bench.own, sends=sends, schedule=schedule, policy="equalmix", alpha=None)

    def _most_slots(self, spending: Spending) -> int:
        """Return how many slots fit into the time; 0 where not even one does."""
        one_slot = self._bench.air_seconds(replace(spending, slots=1))
        return min(int(self._limit_seconds / one_slot * (1.0 + 1e-12)), 10**12)

    def _neighbours(self, here: Spending, step: float) -> Iterator[Spending]:
        most = self._most_slots(here)
        places = [
            (here.scheduled * step, here.slots),
            (here.scheduled / step, here.slots),
            (here.scheduled, here.slots * step),
            (here.scheduled, here.slots / step),
            (here.scheduled * step, here.slots / step**2),
            (here.scheduled / step, here.slots * step**2),
        ]
        for size, slots in places:
            near = replace(
                here,
                scheduled=_rounded(min(max(size, 1), self._workers)),
                slots=_rounded(min(max(slots, 1), most)),
            )
            if near != here:
                yield near

    def _scored(self, designs: Iterable[Spending], *, guess: bool) -> dict[Spending, float]:
        """Return the best weight and shares of each design, with the noise."""
        best: dict[Spending, float] = {}
        for design in designs:
            kept: tuple[float, Spending] | None = None
            for variant in self._variants(design):
                noise = self._bench.noise(variant, guess=guess)
                if noise is None:
                    break
                # A little better is no reason for another weight or other shares than the scenario's.
                if math.isfinite(noise.total) and (kept is None or noise.total < kept[0] / 1.002):
                    kept = noise.total, variant
            if kept is not None:
                best[kept[1]] = kept[0]
        return best

    def _variants(self, design: Spending) -> Iterator[Spending]:
        """Yield the design with other label weights, then with other shares."""
        own = self._bench.own
        mixes: list[tuple[str, float | None]] = [("equalmix", None)]
        if design.schedule == "fixed" and design.scheduled > 1 and design.sends == "samples":
            # Equal shares hide each worker best, but where everybody sends they make all slots the same.
            mixes += [("dirmix", alpha) for alpha in _ALPHAS if design.scheduled == self._workers]
            if own.policy != "equalmix" and not self._bench.scenario.mixing.prior:
                mixes.insert(0, (own.policy, own.alpha))
        for policy, alpha in mixes:
            for weight in dict.fromkeys((own.label_weight, *_WEIGHTS)):
                yield replace(design, policy=policy, alpha=alpha, label_weight=weight)


def _cost(bench: SpendingBench, spending: Spending, noise: float) -> float:
    """Return what is minimised: the noise, and a little the time on the air."""
    return noise * math.pow(bench.air_seconds(spending), _AIR_EXPONENT)


def _powers(step: float, low: int, high: int) -> list[int]:
    """Return low, low step, ... and high itself; empty if high is below low."""
    if high < low:
        return []
    count = int(math.log(high / low) / math.log(step) + 1e-9)
    return sorted({*(round(low * step**power) for power in range(count + 1)), high})


def _rounded(value: float) -> int:
    """Return a whole number; large ones to two digits, which is as exact as the score is."""
    digits = max(0, int(math.log10(value)) - 1)
    return max(1, int(round(value, -digits))) if value < 10**15 else int(value)


def _option(bench: SpendingBench, spending: Spending, noise: float) -> LearningOption:
    return LearningOption(
        spending=spending,
        learning_noise_db=10.0 * math.log10(noise),
        air_seconds=bench.air_seconds(spending),
        energy_joules=bench.energy_joules(spending),
    )


def _options(bench: SpendingBench, spendings: Iterable[Spending]) -> tuple[LearningOption, ...]:
    scored = [(spending, bench.noise(spending)) for spending in spendings]
    return tuple(_option(bench, each, noise.total) for each, noise in scored if noise is not None)


def _best_of_each(bench: SpendingBench, found: dict[Spending, float], name: str) -> tuple[LearningOption, ...]:
    """Return the best of those with the same value of an attribute and the same kind of signal."""
    best: dict[tuple[object, str], Spending] = {}
    for spending, noise in found.items():
        key = (getattr(spending, name), spending.sends)
        if key not in best or noise < found[best[key]]:
            best[key] = spending
    ordered = sorted(best.values(), key=lambda each: (each.sends, getattr(each, name)))
    return tuple(_option(bench, each, found[each]) for each in ordered)
