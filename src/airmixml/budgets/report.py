"""What a ledger shows: the fullest workers, how many have spent how much, and everything for other programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from airmixml.arrays import Doubles
from airmixml.budgets.ledger import LedgerFile, Standing


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
