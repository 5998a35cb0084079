"""The inverse question: how many workers, rounds or what epsilon a wanted accuracy takes.

It is asked of the design that the plan recommends, by the plan's own trial. One quantity varies, all others stay.
Accuracy grows with each, but for chance (another number of workers even makes other tables), so that the answer is
looked up on a ladder from the planned value: down to where the mean over all tables (or measured seeds) still reaches
the target, or up to where it first does, between two steps on a logarithmic scale. So all quantities agree on whether
the plan itself reaches it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles
from airmixml.errors import AirMixError, ScenarioError
from airmixml.planning.design_search import DesignSearch, TableDesign
from airmixml.planning.known_inputs import InputMoments
from airmixml.planning.planned import Needed, Plan
from airmixml.planning.trials import ROUNDS, trial_of
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario

_STEP: Final = math.sqrt(10.0)  # of the ladders: two in each decade
_WORKERS, _EPSILON = (20.0, 1e6), (0.01, 50.0)  # the least and the most that are tried


def with_needed(plan: Plan, accuracy: float, scenario: Scenario, **how: Any) -> Plan:
    """Return the plan of the scenario with what the accuracy takes; ``how`` is for ``needed_for``."""
    if not plan.feasible:
        return plan
    found = plan.recommended
    recommended = scenario if found is None else scenario.with_overrides(*found.overrides)
    search = None if found is None else found.rehearsal
    return replace(plan, wanted_accuracy=accuracy, needed=needed_for(accuracy, recommended, search, **how))


def needed_for(
    accuracy: float,
    scenario: Scenario,
    search: DesignSearch | None,
    *,
    held_dim: int | None,
    dimensions: tuple[int, int],
    moments: InputMoments,
    progress: Progress = silent,
) -> tuple[Needed, ...]:
    """Return how many workers, what epsilon and how many rounds the accuracy takes with the plan's best design.

    Args:
        accuracy: what is wanted, above 0 and below 1.
        scenario: with all that the plan recommends.
        search: what the plan expects of designs; None where it expects nothing.
        held_dim, dimensions, moments, progress: as in ``make_plan``; dimensions are d_X and d_Y.
    """
    if search is None:
        raise ScenarioError(
            f"--accuracy = {accuracy:g}: nothing tells the accuracy of this scenario in advance; plan classes of a "
            "table, or of images with a measured encoder, with all workers sending moments at once, as presets "
            "private-table and private-mnist have it"
        )
    if accuracy <= 1.0 / dimensions[1]:
        raise ScenarioError(
            f"--accuracy = {accuracy:g}: guessing one of {dimensions[1]:,} classes reaches that; ask for more"
        )
    count, epsilon, rounds = scenario.workers.count, scenario.privacy.epsilon, scenario.learner.rounds
    ladders: dict[str, tuple[float, Sequence[float]]] = {
        "workers": (count, _ladder(count, *_WORKERS, 2, 7)),
        "epsilon": (epsilon, _ladder(epsilon, *_EPSILON, 4, 4)),
    }
    if scenario.learner.model == "ridge":
        ladders["rounds"] = rounds, sorted({0, *ROUNDS, rounds})
    answers: list[Needed] = []
    done, steps = 0, sum(len(values) for _, values in ladders.values())
    for quantity, (planned, values) in ladders.items():
        reached: dict[float, tuple[float, ...]] = {}
        for value in values:
            progress("accuracies", done, steps)
            done += 1
            try:
                changed = _with(scenario, quantity, value)
                trial = trial_of(changed, dimensions, held_dim, moments, named=bool(search.measured_on))
                if trial is not None and changed.workers.count >= trial.fewest_workers:
                    for each in trial.of([TableDesign.of(changed)]):
                        reached[value] = each.accuracies
            except AirMixError:  # the scenario does not allow that value
                continue
        answers += _needed(quantity, planned, accuracy, reached)
    progress("accuracies", steps, steps)
    return tuple(answers)


def _ladder(planned: float, low: float, high: float, below: int, above: int) -> list[float]:
    """Return the planned value with steps below and above it, within limits."""
    steps = (float(f"{planned * _STEP**step:.3g}") for step in range(-below, above + 1) if step)
    return sorted({planned, *(each for each in steps if low <= each <= high)})


def _with(scenario: Scenario, quantity: str, value: float) -> Scenario:
    """Return the scenario with another value; workers have a row of their own each, and all send at once."""
    if quantity == "epsilon":
        return replace(scenario, privacy=replace(scenario.privacy, epsilon=value))
    if quantity == "rounds":
        return replace(scenario, learner=replace(scenario.learner, rounds=round(value)))
    workers = replace(scenario.workers, count=round(value), train_samples=0)
    return replace(scenario, workers=workers, radio=replace(scenario.radio, scheduled=round(value)))


def _needed(quantity: str, planned: float, accuracy: float, found: dict[float, tuple[float, ...]]) -> Iterator[Needed]:
    if not found:
        return
    values, reached = np.array(list(found)), np.array(list(found.values()))  # values x tables
    how: dict[str, Any] = {"planned": planned, "whole": quantity != "epsilon", "between": quantity != "rounds"}
    last = reached[-1]
    yield Needed(
        quantity=quantity,
        planned=planned,
        value=_nearest(values, reached.mean(axis=1), accuracy, **how),
        least=float(values[0]),
        most=float(values[-1]),
        accuracy_at_most=float(last.mean()),
        error_at_most=float(last.std(ddof=1) / math.sqrt(len(last))) if len(last) > 1 else 0.0,
    )


def _nearest(
    values: Doubles, reached: Doubles, accuracy: float, *, planned: float, whole: bool, between: bool
) -> float | None:
    """Return the least value down to which the accuracy is reached from the planned one, or else the first above it.

    It lies between two steps where that has a meaning; None: no value does. Values are rounded up to two digits, which
    is as exact as the answer is.
    """
    enough, start = reached >= accuracy, min(int(np.searchsorted(values, planned)), len(values) - 1)
    above = start + np.flatnonzero(enough[start:])
    if not len(above):
        return None
    at = int(above[0])
    while at == start and start and enough[start - 1]:
        at = start = start - 1
    if at == 0 or not between:
        return float(values[at])
    part = (accuracy - reached[at - 1]) / (reached[at] - reached[at - 1])
    exact = math.exp((1.0 - part) * math.log(values[at - 1]) + part * math.log(values[at]))
    step = 10.0 ** (math.floor(math.log10(exact)) - 1)
    rounded = min(math.ceil(exact / step - 1e-9) * step, float(values[at]))
    return float(round(rounded)) if whole else float(f"{rounded:.3g}")
