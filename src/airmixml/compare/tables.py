"""The comparison as Markdown, CSV and LaTeX, and the words of its cells."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from airmixml.compare.comparison import Comparison
from airmixml.output.tables import TextTable
from airmixml.wording import joules

_COLUMNS: Final = (
    "accuracy",
    "epsilon",
    "other neighbours",
    "uplink symbols",
    "air time",
    "energy",
    "worker MACs",
    "wall time",
)
NONE: Final = "–"


def comparison_table(comparison: Comparison) -> TextTable:
    """Return one line per row of the comparison."""
    return TextTable(
        title=_title(comparison),
        note=_note(comparison),
        columns=(comparison.varied or "method", *_COLUMNS),
        rows=tuple((row.get("method") or row["shown"], *_cells(row)) for row in comparison.rows),
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts of a row, in the order of ``_COLUMNS``."""
    privacy, uplink = row["privacy"], row["uplink_symbols"]
    return (
        accuracy_text(row),
        f"{epsilon_text(privacy[0])} ({privacy[0]['adversary']}, {privacy[0]['adjacency']})",
        f"{epsilon_text(privacy[1])} ({privacy[1]['adjacency']})" if len(privacy) > 1 else NONE,
        NONE if uplink is None else f"{uplink:,}",
        NONE if row["air_seconds"] is None else f"{row['air_seconds']:,.3g} s",
        NONE if row["energy_joules"] is None else joules(row["energy_joules"]),
        f"{row['worker_multiply_accumulates']:,}",
        f"{row['seconds']:.1f} s",
    )


def accuracy_text(row: dict[str, Any]) -> str:
    """Return the mean accuracy in percent, with its deviation over the seeds where there are several."""
    accuracy = row["accuracy"]
    spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.2f}"
    return f"{100 * accuracy['mean']:.2f}{spread} %"


def epsilon_text(statement: dict[str, Any]) -> str:
    """Return an epsilon of few digits; powers of ten where it protects nobody anyway."""
    epsilon = float(statement["epsilon"])
    return f"{epsilon:.1e}" if epsilon >= 1e4 else f"{epsilon:.4g}"


def short_count(value: float) -> str:
    """Return a number of things with a unit that keeps it short."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _title(comparison: Comparison) -> str:
    if comparison.varied:
        return f"{comparison.scenario.name} at several values of {comparison.varied}"
    return f"{comparison.scenario.name} and its alternatives"


def _note(comparison: Comparison) -> str:
    scenario, seeds = comparison.scenario, len(comparison.seeds)
    privacy, workers = scenario.privacy, scenario.workers
    varied = f"{comparison.varied} varied; " if comparison.varied else ""
    lines = [
        f"{workers.dataset}, {workers.count:,} workers; {varied}target epsilon {privacy.epsilon:g}, delta "
        f"{privacy.delta:g} against the {privacy.adversary}, {privacy.adjacency}; "
        f"{'mean ± standard deviation over ' if seeds > 1 else ''}{seeds} seed{'s' if seeds > 1 else ''}.",
        "Epsilon is the worst seed's, by the sharpest accountant. Uplink symbols are the channel uses of the whole "
        "run, all workers together; energy is what all workers radiate; multiply-accumulates (MACs) are those of one "
        "average worker.",
    ]
    lines += [f"- **{row['method']}**: {row['about']}" for row in comparison.rows if "method" in row]
    lines += [f"- left out: {name} ({why})" for name, why in comparison.left_out.items()]
    return "\n".join([lines[0], "", lines[1], *([""] if len(lines) > 2 else []), *lines[2:]])


def comparison_csv(comparison: Comparison) -> str:
    """Return all numbers of the rows, for other programs."""
    text = io.StringIO()
    rows = [_flat(row) for row in comparison.rows]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    own, other = row["privacy"][0], (row["privacy"][1:] or [{}])[0]
    return {
        **{name: row[name] for name in ("method", "value") if name in row},
        "accuracy": row["accuracy"]["mean"],
        "accuracy_deviation": row["accuracy"]["deviation"],
        "accuracy_by_seed": " ".join(f"{value:.6g}" for value in row["accuracy"]["by_seed"]),
        **{name: own[name] for name in ("epsilon", "delta", "adversary", "adjacency", "accountant")},
        "other_epsilon": other.get("epsilon"),
        "other_adjacency": other.get("adjacency"),
        **{
            name: row[name]
            for name in ("uplink_symbols", "air_seconds", "energy_joules", "worker_multiply_accumulates", "seconds")
        },
    }
