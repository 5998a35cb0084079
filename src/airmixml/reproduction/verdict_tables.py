"""The reproduction as tables."""

from collections.abc import Sequence
from typing import Any

from airmixml.output.numbers import plural
from airmixml.output.tables import Table, rows_csv
from airmixml.reproduction.paper_claims import Claim
from airmixml.reproduction.verdicts import CellResult, MixingRatios, Summary


def results_table(title: str, results: Sequence[CellResult]) -> Table:
    """Return one line per cell: print, runs, difference, verdict; for accuracies of the final and of the best epoch."""
    accuracy = results[0].cell.quantity == "accuracy"
    printed = any(result.cell.printed is not None for result in results)
    reread = any(result.cell.reading for result in results)
    columns = ["row", "column", *(["read as"] if reread else []), *(["printed"] if printed else [])]
    for kind in ("final epoch", "best epoch") if accuracy else ("energy",):
        columns += [kind, *(["difference", "verdict"] if printed else [])]
    rows = []
    for result in results:
        row = [result.cell.row, result.cell.column, *([result.cell.reading or "printed"] if reread else [])]
        if printed:
            row.append(_printed(result) + (" (bold)" if result.cell.stands_out else ""))
        judged = ((result.measured, result.verdict), (result.best_epoch, result.best_epoch_verdict))
        for summary, verdict in judged if accuracy else judged[:1]:
            row += [_summary(summary, accuracy), *([_gap(result, summary), verdict] if printed else [])]
        rows.append(tuple(row))
    seeds = max((len(result.measured.seeds) for result in results if result.measured), default=0)
    spread = "mean ± standard deviation over" if seeds > 1 else "of"
    unit = "Test accuracy in percent" if accuracy else "Energy"
    return Table(
        title=title, note=f"{unit}, {spread} {plural(seeds, 'seed')}.", columns=tuple(columns), rows=tuple(rows)
    )


def side_by_side(title: str, results: Sequence[CellResult]) -> Table:
    """Return the table in the shape of the paper: in each entry print, then final and best epoch, or print and runs."""
    columns = list(dict.fromkeys(result.cell.column for result in results))
    lines: dict[tuple[str, bool], dict[str, CellResult]] = {}
    for result in results:
        lines.setdefault((result.cell.row, result.cell.reading != ""), {})[result.cell.column] = result
    rows = []
    for (row, reread), entries in sorted(lines.items(), key=lambda line: list(lines).index((line[0][0], False))):
        label = f"{row}, read otherwise" if reread else row
        rows.append((label, *(_entry(entries[column]) if column in entries else "" for column in columns)))
    printed = "printed → " if any(result.cell.printed is not None for result in results) else ""
    accuracy = results[0].cell.quantity == "accuracy"
    shown = f"{printed}final epoch (best epoch), in percent" if accuracy else f"{printed}recomputed"
    return Table(title=title, note=f"{shown}.", columns=("", *columns), rows=tuple(rows))


def ratios_table(drawn: Sequence[MixingRatios]) -> Table:
    """Return Fig. 2 in numbers."""
    return Table(
        title="Fig. 2, mixing ratios",
        note="Means over 20,000 slots of eight workers; expected: what the Dirichlet distribution says.",
        columns=("alpha", "largest ratio", "sum of squared ratios", "expected"),
        rows=tuple(
            (f"{each.alpha:g}", f"{each.largest_share:.3f}", f"{each.squares:.4f}", f"{each.expected_squares:.4f}")
            for each in drawn
        ),
    )


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return one line per claim."""
    return Table(
        title="What the text claims",
        note="Differences are means over paired seeds with 95 % confidence intervals.",
        columns=("place", "the paper says", "case", "verdict", "evidence"),
        rows=tuple(
            (claim.place, claim.says, f"{claim.case}; {claim.light}".removesuffix("; "), claim.decision, claim.evidence)
            for claim in claims
        ),
    )


def results_csv(results: Sequence[CellResult]) -> str:
    """Return all numbers of the cells, for other programs."""
    return rows_csv([_flat(result) for result in results])


def _flat(result: CellResult) -> dict[str, Any]:
    plain = result.to_dict()
    flat = {name: plain[name] for name in plain if name not in ("measured", "best_epoch", "curve", "errors", "why")}
    for name in ("measured", "best_epoch"):
        summary = plain[name] or {"mean": None, "deviation": None, "values": []}
        flat |= {f"{name}_{part}": summary[part] for part in ("mean", "deviation")}
        flat[f"{name}_by_seed"] = " ".join(f"{value:.6g}" for value in summary["values"])
    return flat


def _gap(result: CellResult, summary: Summary | None) -> str:
    difference = result.difference(summary)
    if difference is None:
        return ""
    return f"{difference:+.1f}" if result.cell.quantity == "accuracy" else f"{100.0 * difference:+.1f} %"


def _entry(result: CellResult) -> str:
    accuracy = result.cell.quantity == "accuracy"
    measured = "failed" if result.measured is None else _mean(result.measured, accuracy)
    best = f" ({result.best_epoch.mean:.1f})" if result.best_epoch is not None else ""
    printed = "" if result.cell.printed is None else f"{_printed(result)} → "
    return f"{printed}{measured}{best}"


def _summary(summary: Summary | None, accuracy: bool) -> str:
    if summary is None:
        return "failed"
    spread = summary.deviation
    if spread is None:
        return _mean(summary, accuracy)
    return _mean(summary, accuracy) + (f" ± {spread:.1f}" if accuracy else f" ± {100.0 * spread / summary.mean:.1f} %")


def _mean(summary: Summary, accuracy: bool) -> str:
    return f"{summary.mean:.1f}" if accuracy else _energy(summary.mean)


def _printed(result: CellResult) -> str:
    value = result.cell.printed
    if value is None:
        return ""
    if result.cell.quantity == "energy":
        return _energy(value)
    return f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}"


def _energy(value: float) -> str:
    """Return joules or microjoules, as the paper prints them."""
    return f"{value:.4g} J" if value >= 0.01 else f"{value * 1e6:.4g} µJ"
