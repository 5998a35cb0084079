"""Writes the tables and pictures of docs/performance.md and docs/scaling.md from the committed results.

Each table stands between ``<!-- measured: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import bench_reasons
import bench_scaling
from bench_tables import CPUS, GPU, ROOT, Results, comparison, growth, load_results, machine_lines

DOCUMENTS = tuple(ROOT / "docs" / name for name in ("performance.md", "scaling.md"))


def _pictured(table: str, results: Results, machines: Sequence[str], name: str, about: str) -> str:
    """Return the table, and below it its picture, which there is as soon as one of the machines was measured."""
    there = any(machine in results for machine in machines)
    return f"{table}\n\n![{about}](images/performance-{name}.png)" if there else table


def _cpu(results: Results) -> str:
    return _pictured(comparison(results, CPUS), results, CPUS, "cpu", "Times faster than each baseline on two cores")


def _gpu(results: Results) -> str:
    return _pictured(comparison(results, (GPU,)), results, (GPU,), "h200", "Times faster than each baseline on a GPU")


def _growth(results: Results) -> str:
    return _pictured(growth(results, CPUS), results, CPUS, "growth", "Time and memory against T, |N_t|, N and d")


SECTIONS: dict[str, Callable[[Results], str]] = {
    "cpu": _cpu,
    "accounting": lambda results: comparison(results, CPUS, ("privacy",)),
    "start-up": lambda results: comparison(results, CPUS, ("startup",)),
    "gpu": _gpu,
    "missed": bench_reasons.reasons,
    "growth": _growth,
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
