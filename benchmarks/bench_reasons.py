"""Why a target is missed, by the names of its row; every missed one must have a reason here."""

from __future__ import annotations

from bench_tables import Results, is_met, markdown

REASONS: dict[tuple[str, str], str] = {}


def missed(results: Results) -> dict[tuple[str, str], list[str]]:
    """Return the machines that miss a target, by the names of the row."""
    found: dict[tuple[str, str], list[str]] = {}
    for machine, result in results.items():
        for row in result["rows"]:
            if is_met(row) is False:
                found.setdefault((row["work"], row["against"]), []).append(machine)
    return found


def reasons(results: Results) -> str:
    """Return a table of the missed targets, or that there are none."""
    lines = [[*name, ", ".join(machines), REASONS.get(name, "")] for name, machines in missed(results).items()]
    return markdown(["work", "against", "machine", "reason"], lines) if lines else "No target is missed."
