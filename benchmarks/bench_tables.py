"""The results in words: what a row says, and tables of rows."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MACHINES = {
    "two ARM cores": "bench_cpu_aarch64.json",
    "two x86 cores": "bench_cpu_x86_64.json",
    "H200": "bench_h200.json",
}
GPU = "H200"
MAIN = ("slots", "memory", "training", "private")
CPUS = tuple(machine for machine in MACHINES if machine != GPU)
Row = dict[str, Any]
Results = dict[str, dict[str, Any]]


def load_results() -> Results:
    """Return what was measured, by machine; a machine without a file is left out."""
    found = {machine: RESULTS / name for machine, name in MACHINES.items()}
    return {machine: json.loads(file.read_text()) for machine, file in found.items() if file.exists()}


def target_in_words(target: Mapping[str, float] | None) -> str:
    if not target:
        return ""
    ((kind, value),) = target.items()
    if kind == "seconds":
        return f"at most {duration(value)}"
    if kind == "most":
        return f"at most {value:g}"
    if kind == "faster":
        return f"{value:g} times faster" if value > 1 else "never slower"
    return f"at most {value:g} times"


def is_met(row: Row) -> bool | None:
    """Return whether the row meets its target; None where it has none or was not measured."""
    if not row.get("target") or "missing" in row or "failed" in row:
        return None
    ((kind, value),) = row["target"].items()
    if kind == "most":
        return bool(row["measured"] <= value)
    if kind == "seconds":
        return bool(row["ours_seconds"] <= value)
    return bool(row["ratio"] >= value if kind == "faster" else row["ratio"] * value >= 1.0)


def duration(seconds: float) -> str:
    if seconds >= 100.0:
        return f"{seconds:,.0f} s"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.995 or unit == "µs":
            return f"{rounded(seconds * factor)} {unit}"
    raise AssertionError


def rounded(value: float) -> str:
    """Return two digits of a number, without an exponent."""
    return f"{float(f'{value:.2g}'):,.10g}"


def measured_in_words(row: Row | None) -> str:
    """Return what was measured: the ratio as the target asks for it, then our time; a missed target is marked."""
    if row is None:
        return "not measured"
    if "missing" in row or "failed" in row:
        return row.get("missing", "failed")
    if "points" in row:
        return f"time grows with exponent {row['seconds_exponent']:.2f}, memory with {row['memory_exponent']:.2f}"
    ours, theirs, ratio = (row.get(name) for name in ("ours_seconds", "theirs_seconds", "ratio"))
    if "measured" in row:
        said = rounded(row["measured"])
    elif ratio is None or "seconds" in row.get("target", {}):
        said = duration(ours) if ratio is None else f"{duration(ours)} (beside {duration(theirs)})"
    elif "within" in row.get("target", {}):
        said = f"{1 / ratio:.2f} times ({duration(ours)}; {duration(theirs)})"
    else:
        times = f"{rounded(ratio)} times faster" if ratio >= 1.0 else f"{rounded(1 / ratio)} times slower"
        said = f"{times} ({duration(ours)}; {duration(theirs)})"
    return f"{said} **missed**" if is_met(row) is False else said


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |" for cells in (head, *lines)]
    return "\n".join([rows[0], "|" + "---|" * len(head), *rows[1:]])


def rows_by_name(result: Mapping[str, Any], subjects: Container[str] = MAIN) -> dict[tuple[str, str], Row]:
    """Return the rows of some subjects by their names; not those of growth, which have a table of their own."""
    return {(row["work"], row["against"]): row for row in result["rows"] if row["subject"] in subjects}


def comparison(results: Results, machines: Sequence[str], subjects: Container[str] = MAIN) -> str:
    """Return one line per piece of work and what it is compared with; a column per machine."""
    named = {machine: rows_by_name(results[machine], subjects) for machine in machines if machine in results}
    names = list(dict.fromkeys(name for found in named.values() for name in found))
    lines = []
    for name in names:
        found = [each.get(name) for each in named.values()]
        target = next((row["target"] for row in found if row is not None and "target" in row), None)
        lines.append([*name, target_in_words(target), *map(measured_in_words, found)])
    return markdown(["work", "against", "target", *named], lines)


def machine_lines(results: Results) -> str:
    """Return one line per machine: what it is, which versions, and the command."""
    lines = []
    for machine, result in results.items():
        about, versions = result["machine"], ", ".join(f"{name} {each}" for name, each in result["versions"].items())
        lines.append([machine, about["processor"], about["memory"], versions, f"`{result['command']}`"])
    return markdown(["machine", "processor", "memory", "versions", "command"], lines)


def growth(results: Results, machines: Sequence[str]) -> str:
    """Return how time and memory grow with each size, on each machine."""
    lines = []
    for machine in machines:
        for row in results.get(machine, {}).get("rows", ()):
            if "points" not in row:
                continue
            points = row["points"]
            lines.append(
                [
                    machine,
                    row["work"],
                    " to ".join(f"{points['sizes'][place]:,}" for place in (0, -1)),
                    " to ".join(duration(points["seconds"][place]) for place in (0, -1)),
                    f"{row['seconds_exponent']:.2f}",
                    " to ".join(f"{points['megabytes'][place]:,.0f}" for place in (0, -1)),
                    f"{row['memory_exponent']:.2f}",
                ]
            )
    head = ["machine", "grows with", "from, to", "time", "exponent of time", "memory, MB", "exponent of memory"]
    return markdown(head, lines)


def exponents(results: Results, machines: Sequence[str]) -> str:
    """Return the exponents of time and memory of each size, the machines side by side."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for machine in machines:
        for row in results.get(machine, {}).get("rows", ()):
            if "points" in row:
                sizes = row["points"]["sizes"]
                found.setdefault((row["work"], f"{sizes[0]:,} to {sizes[-1]:,}"), {})[machine] = row
    lines = [
        [
            *name,
            *(
                ", ".join(f"{by_machine[machine][kind]:.2f}" for machine in machines if machine in by_machine)
                for kind in ("seconds_exponent", "memory_exponent")
            ),
        ]
        for name, by_machine in found.items()
    ]
    return markdown(["grows with", "from, to", "exponent of time", "exponent of memory"], lines)
