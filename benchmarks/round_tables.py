"""Write the tables of docs/rounds.md and benchmarks/results/rounds/*.csv from rounds.json there.

python benchmarks/round_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from beyond_tables import Row, by_epsilon, percent
from doc_tables import Table, write_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "rounds.json"
DOCUMENT, FOLDER = ROOT / "docs" / "rounds.md", RESULTS.with_suffix("")
EPSILONS = ("10", "1", "0.3", "0.1")


def targets(rows: list[Row]) -> Table:
    """One line per data set and number of features, with what all slots take on the uplink."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        asked = re.search(r"privacy\.epsilon=(\S+)", row["command"])
        found.setdefault(row["name"], {})[asked[1] if asked else "10"] = row
    lines = [
        [
            name,
            f"{next(iter(each.values()))['uplink_symbols']:,}",
            *(f"**{percent(each[epsilon])}**" if epsilon in each else "" for epsilon in EPSILONS),
        ]
        for name, each in found.items()
    ]
    return ["data", "uplink symbols", *(f"epsilon {epsilon}" for epsilon in EPSILONS)], lines


def made(rows: list[Row]) -> tuple[dict[str, Table], dict[str, Table]]:
    """Return the tables of the page and those of the files."""

    def part(name: str) -> list[Row]:
        return [row for row in rows if row["part"] == name]

    shown = {
        "round targets": targets(part("round targets")),
        "round trust": by_epsilon("air", part("round trust targets")),
    }
    return shown, {"choices": by_epsilon("choice", part("round choices"))}


if __name__ == "__main__":
    shown, files = made(json.loads(RESULTS.read_text(encoding="utf-8"))["rows"])
    write_tables(DOCUMENT, shown, FOLDER, files)
