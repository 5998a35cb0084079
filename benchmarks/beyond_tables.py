"""Write the tables of docs/beyond.md and benchmarks/results/beyond/*.csv from beyond.json and images.json there.

python benchmarks/beyond_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from doc_tables import Table, write_tables

ROOT = Path(__file__).parents[1]
RESULTS = [ROOT / "benchmarks" / "results" / name for name in ("beyond.json", "images.json")]
DOCUMENT, FOLDER = ROOT / "docs" / "beyond.md", RESULTS[0].with_suffix("")

Row = dict[str, Any]

PRESETS = {
    "private-mnist, epsilon 10": "`private-mnist`",
    "private-mnist-release, epsilon 10": "`private-mnist-release`",
    "private-iris": "`private-iris`",
}
ENCODERS = ("pixels, clipped", "256 random projections", "32 random filters", "edges, 128", "edges, mixed to 1024")


def percent(row: Row) -> str:
    deviation = "" if row["deviation"] is None else f" ± {100 * row['deviation']:.2f}"
    return f"{100 * row['mean']:.2f}{deviation} %"


def targets(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        own, server, other = row["privacy"][:3]
        lines.append(
            [
                row["name"],
                f"{own['adversary']}, {own['accountant']}",
                f"({own['epsilon']:.4g}, {own['delta']:g})",
                f"{other['epsilon']:.4g}",
                f"{server['epsilon']:.4g}",
                f"**{percent(row)}**",
            ]
        )
    head = ["run", "adversary, bound", "(epsilon, delta)", "epsilon, replace-one", "epsilon from the server"]
    return [*head, "test accuracy"], lines


def costs(rows: list[Row]) -> Table:
    lines: list[list[str]] = []
    for row in rows:
        if row["name"] in PRESETS:
            cost = row["worker_cost"]
            numbers = [cost[name] for name in ("multiply_accumulates", "constant_bytes", "working_bytes", "symbols")]
            shown = [f"{numbers[0]:,}", f"{numbers[1]:,} bytes", f"{numbers[2]:,} bytes", f"{numbers[3]:,}"]
            lines.append([PRESETS[row["name"]], *shown, f"{row['air_seconds']:.3g} s"])
    head = ["preset", "multiply-accumulates a sample", "constants", "working memory", "symbols a slot", "on the air"]
    return head, lines


def by_epsilon(head: str, rows: list[Row]) -> Table:
    """One line per name, one column per epsilon."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        epsilon = re.search(r"privacy\.epsilon=(\S+)", row["command"])
        assert epsilon is not None
        found.setdefault(row["name"], {})[epsilon[1]] = row
    columns = sorted({epsilon for each in found.values() for epsilon in each}, key=float, reverse=True)
    lines = [[name, *(percent(each[epsilon]) for epsilon in columns)] for name, each in found.items()]
    return [head, *(f"epsilon {epsilon}" for epsilon in columns)], lines


def bits(rows: list[Row], of_samples: list[Row]) -> Table:
    def ordered(some: list[Row]) -> dict[str, Row]:
        return {row["name"]: row for row in sorted(some, key=lambda row: (row["name"] == "0", int(row["name"])))}

    moments, samples = ordered(rows), ordered(of_samples)
    names = [name if name != "0" else "analog" for name in moments]
    lines = [
        ["moments, epsilon 10 against the server, %", *(f"{100 * row['mean']:.2f}" for row in moments.values())],
        ["samples, epsilon 10 for a release, %", *(f"{100 * row['mean']:.2f}" for row in samples.values())],
    ]
    return ["bits", *names], lines


def networks(rows: list[Row]) -> Table:
    return ["mixtures, loss, target", "accuracy"], [[row["name"], percent(row)] for row in rows]


def image_targets(rows: list[Row]) -> Table:
    """One line per epsilon, the encoders side by side."""
    found = {row["name"]: row for row in rows}
    epsilons = [name.removeprefix("cells, ") for name in found if name.startswith("cells, ")]
    lines = [
        [
            epsilon.removeprefix("epsilon "),
            f"{found[f'cells, {epsilon}']['privacy'][2]['epsilon']:.4g}",
            f"**{percent(found[f'cells, {epsilon}'])}**",
            percent(found[f"gradients, {epsilon}"]),
        ]
        for epsilon in epsilons
    ]
    return ["epsilon", "epsilon, replace-one", "`cells`", "`gradients`"], lines


def made(rows: list[Row]) -> tuple[dict[str, Table], dict[str, Table]]:
    """Return the tables of the page and those of the files."""

    def part(name: str) -> list[Row]:
        return [row for row in rows if row["part"] == name]

    shown = {
        "targets": targets(part("targets")),
        "costs": costs(part("targets")),
        "encoders": by_epsilon("encoder", [row for row in part("encoders") if row["name"] in ENCODERS]),
        "image targets": image_targets(part("image targets")),
    }
    files = {
        "bits": bits(part("bits"), part("bits of samples")),
        "encoders": by_epsilon("encoder", part("encoders")),
        "centres": by_epsilon("centre", part("centres")),
        "label-weights": by_epsilon("label weight w", part("label weights")),
        "learners": by_epsilon("learner", part("learners")),
        "slots": by_epsilon("slots", part("slots")),
        "networks": networks(part("networks")),
        "fashion-mnist": by_epsilon("encoder, features", part("images")),
        "mnist": by_epsilon("encoder, features", part("strokes")),
    }
    return shown, files


if __name__ == "__main__":
    known = [row for file in RESULTS for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    shown, files = made(known)
    write_tables(DOCUMENT, shown, FOLDER, files)
