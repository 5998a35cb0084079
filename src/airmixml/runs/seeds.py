"""Several seeds of one scenario, as one result."""

from __future__ import annotations

import statistics
from typing import Any

from airmixml.scenario import Scenario


def summarise_seeds(scenario: Scenario, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the seeds, the spread of the accuracy, and the worst of what has limits."""

    def mean(*path: str) -> Any:
        return statistics.fmean(_at(each, path) for each in runs)

    def largest(*path: str) -> Any:
        return max(_at(each, path) for each in runs)

    def deviation(*path: str) -> Any:
        return statistics.stdev(_at(each, path) for each in runs)

    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "accuracy": {
            "final": mean("accuracy", "final"),
            "final_deviation": deviation("accuracy", "final"),
            "best": mean("accuracy", "best"),
            "best_deviation": deviation("accuracy", "best"),
        },
        "slots": scenario.radio.slots,
        "symbols_per_slot": runs[0]["symbols_per_slot"],
        "air_seconds": runs[0]["air_seconds"],
        "worker_cost": runs[0]["worker_cost"],
        "energy_joules": mean("energy_joules"),
        "worker_energy_joules": {
            "mean": mean("worker_energy_joules", "mean"),
            "median": mean("worker_energy_joules", "median"),
            "largest": largest("worker_energy_joules", "largest"),
        },
        "power_dbm": {
            "median": mean("power_dbm", "median"),
            "largest": largest("power_dbm", "largest"),
            "limit": scenario.radio.max_power_dbm,
        },
        "power_limited_slots": largest("power_limited_slots"),
        "snr_db": mean("snr_db"),
        "snr_inputs_db": mean("snr_inputs_db"),
        "snr_labels_db": mean("snr_labels_db"),
        "privacy": _worst_statements(runs),
        "ledger": max((each["ledger"] for each in runs), key=lambda ledger: float(ledger["worst_epsilon"])),
        "clipped_values": largest("clipped_values"),
        "clipped_samples": largest("clipped_samples"),
        "dataset": runs[0]["dataset"],
        "seconds": sum(each["seconds"] for each in runs),
        "device": runs[0]["device"],
        "versions": runs[0]["versions"],
        "runs": runs,
    }


def _worst_statements(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the statement of the seed with the largest epsilon, of each adversary, accountant and adjacency."""
    worst: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in runs:
        for statement in each["privacy"]:
            name = (statement["adversary"], statement["accountant"], statement["adjacency"])
            if name not in worst or statement["epsilon"] > worst[name]["epsilon"]:
                worst[name] = statement
    return list(worst.values())


def _at(metrics: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = metrics
    for name in path:
        value = value[name]
    return value
