"""``airmix reproduce``: from the names of tables and figures to files beside the paper's printed values."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from airmixml.output.tables import Table, rows_csv, write_all
from airmixml.progress import Progress, silent
from airmixml.reproduction import paper_figures
from airmixml.reproduction.paper_cells import Request, table_notes
from airmixml.reproduction.paper_claims import Claim, check_claims, check_some_claims
from airmixml.reproduction.verdicts import (
    VERDICTS_IN_WORDS,
    CellResult,
    MixingRatios,
    Summary,
    draw_mixing_ratios,
    judge,
    summarise,
)
from airmixml.storage.files import writing_to
from airmixml.storage.study import written_files
from airmixml.sweeps import run_sweep
from airmixml.version import __version__
from airmixml.wording import plural, quick_reproduction

_TITLES: Final = {"table1": "Table I", "table2": "Table II", "fig3": "Fig. 3", "fig4": "Fig. 4"}
_DRAWINGS: Final[dict[str, Callable[..., list[Path]]]] = {
    "table1": paper_figures.draw_accuracies,
    "table2": paper_figures.draw_energies,
    "fig3": paper_figures.draw_path_loss,
    "fig4": paper_figures.draw_fading,
}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Everything that came of a request."""

    request: Request
    results: list[CellResult]
    ratios: list[MixingRatios]
    claims: list[Claim]
    seconds: float
    kept_batches: int
    batches: int
    out: Path
    files: list[Path] = field(default_factory=list)

    def parts(self) -> dict[tuple[str, str], list[CellResult]]:
        """Return the results by table or figure and half of it."""
        parts: dict[tuple[str, str], list[CellResult]] = {}
        for result in self.results:
            parts.setdefault((result.cell.target, result.cell.dataset), []).append(result)
        return parts

    @property
    def names(self) -> list[str]:
        """What tables and figures are called in the folder."""
        tables = [_name(*part) for part in self.parts()]
        return ["claims"] * bool(self.claims) + ["fig2"] * bool(self.ratios) + tables

    @property
    def failures(self) -> list[str]:
        """What went wrong, cell by cell."""
        return [f"{', '.join(result.cell.place)}: {error}" for result in self.results for error in result.errors]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "targets": list(self.request.wanted),
            "seeds": self.request.seeds,
            "quick": self.request.quick,
            "device": self.request.device,
            "airmixml": __version__,
            "cells": [drawn.to_dict() for drawn in self.ratios] + [result.to_dict() for result in self.results],
            "claims": [asdict(claim) for claim in self.claims],
        }


def reproduce(
    request: Request,
    out: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    data_dir: Path | None = None,
    draw: bool = True,
    progress: Progress = silent,
) -> Reproduction:
    """Run what the request names, write tables and figures into ``out``, and return all of it.

    Finished batches are kept in ``out/batches``: the same request resumes what was interrupted, and another request
    uses what is there. ``jobs``, ``engine``, ``data_dir`` and ``progress`` are those of ``run_sweep``; ``draw`` says
    whether figures are drawn.
    """
    started = time.perf_counter()
    groups = request.cell_groups()
    batches = [batch for cells in groups for batch in request.batches(cells)]
    with writing_to(out):
        sweep = run_sweep(batches, out / "batches", jobs=jobs, engine=engine, data_dir=data_dir, progress=progress)
        results = judge([summarise(cell, sweep, range(request.seeds)) for cells in groups for cell in cells])
        reproduction = Reproduction(
            request=request,
            results=results,
            ratios=draw_mixing_ratios() if "fig2" in request.wanted else [],
            claims=check_some_claims(results, request.left_out()) if request.quick else check_claims(results),
            seconds=time.perf_counter() - started,
            kept_batches=sweep.kept_batches,
            batches=len(batches),
            out=out,
        )
        files = written_files(out / "report", reproduction.to_dict(), reproduction.names)
        return replace(reproduction, files=files or _write(reproduction, draw=draw))


def _name(target: str, dataset: str) -> str:
    return f"{target}-{dataset}" if target.startswith("table") else target


def _write(reproduction: Reproduction, *, draw: bool) -> list[Path]:
    """Write all files and return them: each table as Markdown, CSV and LaTeX; ``draw``: each figure as PNG and SVG."""
    out, files = reproduction.out, []
    for suffix in (".md", ".csv", ".tex"):  # claims and report are those of the last request
        (out / f"claims{suffix}").unlink(missing_ok=True)
    sections = _opening(reproduction)
    if reproduction.claims:
        claims = claims_table(reproduction.claims)
        files += _write_table(out / "claims", claims)
        sections.append(claims.to_markdown())
    if reproduction.ratios:
        ratios = ratios_table(reproduction.ratios)
        files += _write_table(out / "fig2", ratios)
        files += paper_figures.draw_ratios_figure(reproduction.ratios, out / "fig2") if draw else []
        sections += ["![Fig. 2](fig2.png)\n", ratios.to_markdown()]
    for (target, dataset), results in reproduction.parts().items():
        name, run_on = _name(target, dataset), results[0].cell.scenario.workers.dataset
        seeds = max((len(result.measured.seeds) for result in results if result.measured), default=0)
        title = f"{_TITLES[target]}, {run_on}"
        matrix, table = side_by_side(title, results), results_table(f"{title}, entry by entry", results)
        latex, numbers = matrix.to_latex() + "\n" + table.to_latex(), rows_csv(list(map(_flat, results)))
        files += write_all(out / name, {".md": table.to_markdown(), ".csv": numbers, ".tex": latex})
        files += _DRAWINGS[target](results, out / name, f"{run_on}, {plural(seeds, 'seed')}") if draw else []
        picture = f"![{title}]({name}.png)\n"
        sections += [matrix.to_markdown(), _notes(target, dataset, results), picture, table.to_markdown()]
    plain = json.dumps(reproduction.to_dict(), indent=1, allow_nan=False) + "\n"
    return files + write_all(out / "report", {".md": "\n".join(filter(None, sections)), ".json": plain})


def _opening(reproduction: Reproduction) -> list[str]:
    """Return what a stranger must know first: what was run, what the verdicts mean, what failed."""
    request = reproduction.request
    what = ", ".join(request.wanted) + (f" ({request.dataset})" if request.dataset else "")
    lines = [
        "# The paper, run again\n",
        f"{what}; seeds 0 to {request.seeds - 1}; device {request.device}; airmixml {__version__}.\n",
        f"**{quick_reproduction(request.wanted)}**\n" if request.quick else "",
        VERDICTS_IN_WORDS,
    ]
    if reproduction.failures:
        lines.append("## Failed\n\n" + "".join(f"- {failure}\n" for failure in reproduction.failures))
    return lines


def _notes(target: str, dataset: str, results: Sequence[CellResult]) -> str:
    """Return what is known about the differences from print, and what speaks for the other readings."""
    if all(result.cell.printed is None for result in results):
        return ""
    reasons = dict.fromkeys(f"Read otherwise: {result.cell.why}." for result in results if result.cell.why)
    return "".join(f"- {note}\n" for note in (*table_notes(target, dataset), *reasons))


def _write_table(stem: Path, table: Table) -> list[Path]:
    return write_all(stem, {".md": table.to_markdown(), ".csv": table.to_csv(), ".tex": table.to_latex()})


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


def _flat(result: CellResult) -> dict[str, Any]:
    """Return all numbers of a cell, for other programs."""
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
