"""Writes the pictures of docs/performance.md, and the tables of all rows and of docs/scaling.md, from the results.

Each table stands between ``<!-- measured: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import bench_reasons
import bench_scaling
from bench_tables import (
    CPUS,
    GPU,
    RESULTS,
    ROOT,
    Results,
    comparison,
    exponents,
    growth,
    load_results,
    machine_lines,
)  # fmt: skip

DOCUMENTS = (RESULTS / "performance.md", ROOT / "docs" / "scaling.md")

SECTIONS: dict[str, Callable[[Results], str]] = {
    "cpu": lambda results: comparison(results, CPUS),
    "accounting": lambda results: comparison(results, CPUS, ("privacy",)),
    "start-up": lambda results: comparison(results, CPUS, ("startup",)),
    "gpu": lambda results: comparison(results, (GPU,)),
    "missed": bench_reasons.reasons,
    "growth": lambda results: growth(results, CPUS),
    "growth, in short": lambda results: exponents(results, CPUS),
    "machines": machine_lines,
    "unit costs": bench_scaling.unit_costs,
    "plans": bench_scaling.plans,
}


def with_tables(text: str, results: Results) -> str:
    """Return a document with the tables between its markers made anew."""
    for name, section in SECTIONS.items():
        marked = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = marked.sub(lambda found, section=section: f"{found[1]}{section(results)}\n{found[2]}", text)
    return text


def update() -> list[Path]:
    """Write tables and pictures anew, and return the files."""
    import bench_pictures  # noqa: PLC0415 - tables need no pictures

    results = load_results()
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text(encoding="utf-8"), results), encoding="utf-8")
    return [*DOCUMENTS, *bench_pictures.draw_all(results, ROOT / "docs" / "images")]
