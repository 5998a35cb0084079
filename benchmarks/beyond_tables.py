"""Write the tables of docs/beyond.md from benchmarks/results/beyond.json and images.json, between their marks.

python benchmarks/beyond_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = [ROOT / "benchmarks" / "results" / name for name in ("beyond.json", "images.json")]
DOCUMENT = ROOT / "docs" / "beyond.md"

Row = dict[str, Any]

ASKED = {
    "private-mnist, epsilon 10": "98 %",
    "private-mnist, epsilon 1": "96.5 %",
    "private-mnist-release, epsilon 10": "97 %",
    "private-mnist-release, epsilon 1": "95.5 %",
    "paper's accounting, epsilon 10, delta 0.01": "95 %, paper 11.3",
    "private-iris": "93 %, paper 92.0",
}
PRESETS = {
    "private-mnist, epsilon 10": "`private-mnist`",
    "private-mnist-release, epsilon 10": "`private-mnist-release`",
    "private-iris": "`private-iris`",
}


def percent(row: Row) -> str:
    deviation = "" if row["deviation"] is None else f" ± {100 * row['deviation']:.2f}"
    return f"{100 * row['mean']:.2f}{deviation} %"


def table(head: list[str], lines: list[list[str]]) -> str:
    every = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in every)


def targets(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        own, server, other = row["privacy"][:3]
        bound = f"{own['adversary']}, {own['accountant']}"
        stated = f"({own['epsilon']:.4g}, {own['delta']:g})"
        seeds = f"{len(row['accuracies'])} seeds"
        accuracy = f"**{percent(row)}**"
        lines.append(
            [
                row["name"],
                bound,
                stated,
                f"{other['epsilon']:.4g}",
                f"{server['epsilon']:.4g}",
                accuracy,
                seeds,
                ASKED.get(row["name"], ""),
            ]
        )
    head = ["run", "adversary, bound", "(epsilon, delta)", "epsilon, replace-one", "epsilon from the server"]
    head += ["test accuracy", "over", "asked"]
    return table(head, lines)


def costs(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if row["name"] in PRESETS:
            cost = row["worker_cost"]
            numbers = [cost[name] for name in ("multiply_accumulates", "constant_bytes", "working_bytes", "symbols")]
            shown = [f"{numbers[0]:,}", f"{numbers[1]:,} bytes", f"{numbers[2]:,} bytes", f"{numbers[3]:,}"]
            lines.append([PRESETS[row["name"]], *shown, f"{row['air_seconds']:.3g} s"])
    head = ["preset", "multiply-accumulates a sample", "constants", "working memory", "symbols a slot", "on the air"]
    return table(head, lines)


def by_epsilon(head: str, rows: list[Row]) -> str:
    """One line per name, one column per epsilon."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        epsilon = re.search(r"privacy\.epsilon=(\S+)", row["command"])
        assert epsilon is not None
        found.setdefault(row["name"], {})[epsilon[1]] = row
    columns = sorted({epsilon for each in found.values() for epsilon in each}, key=float, reverse=True)
    lines = [[name, *(percent(each[epsilon]) for epsilon in columns)] for name, each in found.items()]
    return table([head, *(f"epsilon {epsilon}" for epsilon in columns)], lines)


def bits(rows: list[Row], of_samples: list[Row]) -> str:
    def ordered(some: list[Row]) -> dict[str, Row]:
        return {row["name"]: row for row in sorted(some, key=lambda row: (row["name"] == "0", int(row["name"])))}

    moments, samples = ordered(rows), ordered(of_samples)
    names = [name if name != "0" else "analog" for name in moments]
    lines = [
        ["moments, epsilon 10 against the server", *(f"{100 * row['mean']:.2f} %" for row in moments.values())],
        ["samples, epsilon 10 for a release", *(f"{100 * row['mean']:.2f} %" for row in samples.values())],
    ]
    return table(["bits", *names], lines)


def networks(rows: list[Row]) -> str:
    return table(["mixtures, loss, target", "accuracy"], [[row["name"], percent(row)] for row in rows])


def image_targets(rows: list[Row]) -> str:
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
    return table(["epsilon", "epsilon, replace-one", "`cells`", "`gradients`"], lines)


def tables(rows: list[Row]) -> dict[str, str]:
    """Return each table by the name of its mark."""

    def part(name: str) -> list[Row]:
        return [row for row in rows if row["part"] == name]

    return {
        "targets": targets(part("targets")),
        "costs": costs(part("targets")),
        "encoders": by_epsilon("encoder", part("encoders")),
        "centres": by_epsilon("centre", part("centres")),
        "label weights": by_epsilon("label weight w", part("label weights")),
        "learners": by_epsilon("learner", part("learners")),
        "slots": by_epsilon("slots", part("slots")),
        "networks": networks(part("networks")),
        "image targets": image_targets(part("image targets")),
        "images": by_epsilon("encoder, features", part("images")),
        "strokes": by_epsilon("encoder, features", part("strokes")),
        "bits": bits(part("bits"), part("bits of samples")),
    }


def with_tables(text: str, rows: list[Row]) -> str:
    """Return the document with every table as the results give it."""
    for name, content in tables(rows).items():
        pattern = re.compile(rf"(<!-- table: {name} -->\n)(?:\|[^\n]*\n)*")
        assert pattern.search(text), name
        text = pattern.sub(lambda found, content=content: found[1] + content + "\n", text)
    return text


def main() -> None:
    rows = [row for file in RESULTS for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
