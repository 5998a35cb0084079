"""What a ledger shows: the fullest workers, how many have spent how much, and everything for other programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airmixml.arrays import Doubles
from airmixml.budgets.ledger import LedgerFile, Standing
from airmixml.output.figures import BLUE, ORANGE, finish_axis, new_figure, save_figure
from airmixml.wording import against

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BARS = 40
_SHOWN_TIMES = 1.3  # budgets up to which the axis goes: few pass theirs


def finite(epsilon: float) -> float | None:
    """Return an epsilon for JSON, which has no infinity: None where delta is used up."""
    return float(epsilon) if np.isfinite(epsilon) else None


def summary(standing: Standing, epsilons: Doubles, top: int) -> dict[str, Any]:
    """Return budget, spread and the fullest workers of one adversary as plain values; ``epsilons`` are all workers'."""
    budget, workers = standing.budget, len(epsilons)
    order = np.argsort(-epsilons, kind="stable")[:top].tolist()
    return {
        "adversary": standing.adversary,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "workers": workers,
        "over_budget": int((epsilons > budget.epsilon * (1.0 + 1e-9)).sum()),
        "median_spent": finite(np.median(epsilons)) if workers else 0.0,
        "fullest": [
            {
                "worker": standing.name_of(place),
                "spent": finite(epsilons[place]),
                "left": budget.epsilon_left(standing.spent.of_workers([place]), delta=budget.delta),
                **{name: float(part[place]) for name, part in standing.spent.parts.items()},
            }
            for place in order
        ],
    }


def draw_standings(standings: list[tuple[Standing, Doubles]], title: str, path: Path) -> Figure:
    """Draw how many workers have spent how much of their budget, against each adversary."""
    figure = new_figure(1.0 + 4.6 * len(standings), 3.6, title, size=10)
    axes = figure.subplots(1, len(standings), squeeze=False)[0]
    for axis, (standing, epsilons) in zip(axes, standings, strict=True):
        limit = standing.budget.epsilon
        shown = np.minimum(epsilons, _SHOWN_TIMES * limit)
        axis.hist(shown, bins=_BARS, range=(0.0, _SHOWN_TIMES * limit), color=BLUE, alpha=0.75)
        axis.axvline(limit, color=ORANGE, label=f"budget {limit:g}, δ = {standing.budget.delta:g}")
        axis.set(xlabel=f"ε spent {against(standing.adversary)}", ylabel="workers")
        finish_axis(axis, legend=8)
    save_figure(figure, path)
    return figure


def worker_rows(ledger: LedgerFile) -> list[dict[str, Any]]:
    """Return a row for each worker and adversary, for CSV and JSON."""
    rows = []
    for standing in ledger.standings():
        columns = {"epsilon_spent": standing.budget.epsilons(standing.spent), **standing.spent.parts}
        columns["epsilon_of_rest"], columns["delta_of_rest"] = columns.pop("epsilon"), columns.pop("delta")
        budget = {"budget_epsilon": standing.budget.epsilon, "budget_delta": standing.budget.delta}
        lists = [values.tolist() for values in columns.values()]
        for place, values in enumerate(zip(*lists, strict=True)):
            spent = dict(zip(columns, values, strict=True))
            spent["epsilon_spent"] = finite(spent["epsilon_spent"])
            rows.append({"worker": standing.name_of(place), "adversary": standing.adversary, **budget, **spent})
    return rows


def plain_facts(ledger: LedgerFile) -> dict[str, Any]:
    """Return what the ledger is about as plain values."""
    facts = ledger.facts()
    people = None if facts["people"] is None else str(facts["people"])
    return {**facts, "people": people, "budgets": {name: asdict(each) for name, each in facts["budgets"].items()}}
