"""``airmix reproduce``: from the names of tables and figures to files, tables beside print, pictures and a page.

All of these are made of what the JSON file holds.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.files import writing_to
from airmixml.messages import NOT_BY_QUICK, plural, quick_reproduction
from airmixml.output.figures import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    YELLOW,
    error_line,
    finish_axis,
    new_figure,
    save_png_and_svg,
)
from airmixml.output.page import Folded, Page, Part
from airmixml.output.tables import Table, write_all
from airmixml.progress import Progress, silent
from airmixml.reproduction.paper_cells import AS_PRINTED, Request, table_notes
from airmixml.reproduction.paper_claims import check_claims, check_some_claims
from airmixml.reproduction.verdicts import (
    VERDICTS_IN_WORDS,
    MixingRatios,
    draw_mixing_ratios,
    draw_ratios_figure,
    judge,
    ratio_cells,
    ratios_table,
    summarise,
)
from airmixml.sweeps import run_sweep
from airmixml.sweeps.sweep_page import SIMULATED_SEEDS
from airmixml.version import __version__

Plain = dict[str, Any]
TITLES: Final = {"table1": "Table I", "table2": "Table II", "fig3": "Fig. 3", "fig4": "Fig. 4"}
_VERDICTS: Final = ("agrees", "trend agrees", "undecided", "does not follow")
_DECISIONS: Final = ("holds", "undecided", "does not hold")
_ABOUT_CURVES: Final = {
    "fig3": "Fig. 3: path loss and mixing, no fading",
    "fig4": "Fig. 4: fading and assignment, DirMix(5), n = 4",
}


def reproduction_page(plain: Plain, _scenario: None = None) -> Page:
    """Return what a reproduction tells."""
    quick, claims, ratios = plain["quick"], plain["claims"], ratio_cells(plain)
    parts: list[Part] = []
    if rows := _verdict_counts(plain):
        parts.append(Table(title="Compared with the printed values", columns=("", *_VERDICTS), rows=rows))
    if ratios:
        furthest = max(abs(cell["measured"]["mean"] / cell["expected"] - 1.0) for cell in ratios)
        parts.append(
            f"Fig. 2 prints no values; drawn for {plural(len(ratios), 'alpha')}: the mean sum of squared ratios is "
            f"within {100 * furthest:.2g} % of what the Dirichlet distribution says."
        )
    parts += _claim_counts(claims, quick=quick)
    every: list[Part] = [claims_table(claims)] if claims else []
    every += [ratios_table(ratios)] if ratios else []
    for (target, half), cells in by_table(plain).items():
        reasons = dict.fromkeys(f"Read otherwise: {cell['why']}." for cell in cells if cell["why"])
        printed = any(cell["printed"] is not None for cell in cells)
        notes = (*table_notes(target, half), *reasons) if printed else ()
        every += [results_table(target, cells), *notes]
    failed = ["Failed:", *failures(plain)] if failures(plain) else []
    options = [f"--dataset={plain['dataset']}"] if plain.get("dataset") else []
    options += ["--quick"] * quick + ["--as-printed"] * plain.get("as_printed", False)
    return Page.of_result(
        kind="reproduction",
        title="The paper, run again",
        verdict=_counts(claims) + (quick_reproduction(plain["targets"]) if quick else ""),
        notices=(SIMULATED_SEEDS,),
        asked=(("reproduced", ", ".join(plain["targets"])), ("seeds", f"0 to {plain['seeds'] - 1}")),
        tables=(*parts, Folded(summary="Every value", parts=(VERDICTS_IN_WORDS, *failed, *every))),
        command=("reproduce", *plain["targets"], "--seeds", str(plain["seeds"]), *options),
    )


def by_table(plain: Plain) -> dict[tuple[str, str], list[Plain]]:
    """Return the cells by table or other figure, and half of it."""
    found: dict[tuple[str, str], list[Plain]] = {}
    for cell in plain["cells"]:
        if cell["target"] != "fig2":
            found.setdefault((cell["target"], cell["half"]), []).append(cell)
    return found


def failures(plain: Plain) -> list[str]:
    """Return what went wrong, cell by cell."""
    places = ("target", "half", "row", "column")
    cells = (cell for cells in by_table(plain).values() for cell in cells)
    return [f"{', '.join(cell[name] for name in places)}: {error}" for cell in cells for error in cell["errors"]]


def _counts(claims: Sequence[Plain]) -> str:
    """Return in how many cases the paper's text holds, as the table of claims adds up; empty where none was run."""
    found = Counter[str](claim["decision"] for claim in claims)
    if not any(found[name] for name in _DECISIONS):
        return ""
    held, not_held = found["holds"], found["does not hold"]
    holds = f"{plural(held, 'claim')} {'holds' if held == 1 else 'hold'}"
    return f"{holds}, {not_held} {'does' if not_held == 1 else 'do'} not, {found['undecided']} undecided. "


def _verdict_counts(plain: Plain) -> tuple[tuple[str, ...], ...]:
    """Return how often each verdict was given: by table, reading and epoch."""
    counts: dict[str, Counter[str]] = {}
    for cell in (cell for cells in by_table(plain).values() for cell in cells if cell["printed"] is not None):
        name = f"{cell['target']} {cell['half']}, "
        name += AS_PRINTED if cell["reading"] == AS_PRINTED else "read otherwise"
        epochs = {"verdict": ", final epoch", "best_epoch_verdict": ", best epoch"}
        for kind, epoch in epochs.items() if cell["quantity"] == "accuracy" else (("verdict", ""),):
            counts.setdefault(f"{name}{epoch}", Counter())[cell[kind].partition(" from")[0]] += 1
    return tuple((name, *(str(found[verdict]) for verdict in _VERDICTS)) for name, found in counts.items())


def _claim_counts(claims: Sequence[Plain], *, quick: bool) -> list[Part]:
    """Return how often each sentence of the paper holds, and which no case of was run, with what decides them."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for claim in claims:
        says = claim["says"] + (f" ({claim['light']})" if claim["light"] else "")
        counts.setdefault((claim["place"], says), Counter())[claim["decision"]] += 1
    begun = {sentence: found for sentence, found in counts.items() if set(found) & set(_DECISIONS)}
    shown = (*_DECISIONS, NOT_BY_QUICK) if quick else _DECISIONS
    rows = tuple((*sentence, *(str(found[name] or "") for name in shown)) for sentence, found in begun.items())
    columns = ("place", "the paper says", *_DECISIONS, *["not run"] * quick)
    parts: list[Part] = []
    if rows:
        title = "What the text claims, and in how many cases it holds"
        parts.append(Table(title=title, columns=columns, rows=rows, words=2))
    left = [claim for claim in claims if (claim["place"], claim["says"]) not in begun]
    if left and quick:
        rows = tuple(dict.fromkeys((claim["place"], claim["says"], claim["evidence"]) for claim in left))
        columns = ("place", "the paper says", "decided by")
        parts.append(Table(title=NOT_BY_QUICK.capitalize(), columns=columns, rows=rows, words=3))
    return parts


def results_table(target: str, cells: Sequence[Plain]) -> Table:
    """Return one line per cell: print, runs, difference, verdict; for accuracies of the final and of the best epoch."""
    accuracy = cells[0]["quantity"] == "accuracy"
    printed = any(cell["printed"] is not None for cell in cells)
    reread = any(cell["reading"] != AS_PRINTED for cell in cells)
    columns = ["row", "column", *["read as"] * reread, *["printed"] * printed]
    kinds = {"": "final epoch", "best_epoch_": "best epoch"} if accuracy else {"": "energy"}
    for kind, epoch in kinds.items():
        best = "best " if kind else ""  # no two columns have one name
        columns += [epoch, *[f"{best}difference", f"{best}verdict"] * printed]
    rows = []
    for cell in cells:
        row = [cell["row"], cell["column"], *[cell["reading"].removeprefix("as ")] * reread]
        row += [_value(cell["printed"], cell, "g") + " (bold)" * cell["bold"]] * printed
        for kind in kinds:
            row.append(_summary(cell[kind.rstrip("_") or "measured"], cell))
            row += [_gap(cell[f"{kind}difference"], accuracy), cell[f"{kind}verdict"]] * printed
        rows.append(tuple(row))
    seeds = most_seeds(cells)
    spread = "mean ± standard deviation over" if seeds > 1 else "of"
    note = f"{'Test accuracy in percent' if accuracy else 'Energy'}, {spread} {plural(seeds, 'seed')}."
    title = f"{TITLES[target]}, {cells[0]['dataset']}"
    return Table(title=title, note=note, columns=tuple(columns), rows=tuple(rows))


def claims_table(claims: Sequence[Plain]) -> Table:
    """Return one line per claim."""
    return Table(
        title="What the text claims",
        note="Differences are means over paired seeds with 95 % confidence intervals.",
        columns=("place", "the paper says", "case", "verdict", "evidence"),
        rows=tuple(
            (
                *(claim["place"], claim["says"], f"{claim['case']}; {claim['light']}".removesuffix("; ")),
                *(claim["decision"], claim["evidence"]),
            )
            for claim in claims
        ),
    )


def most_seeds(cells: Sequence[Plain]) -> int:
    """Return how many seeds a cell rests on at most."""
    return max((len(cell["measured"]["seeds"]) for cell in cells if cell["measured"]), default=0)


def _gap(difference: float | None, accuracy: bool) -> str:
    if difference is None:
        return ""
    return f"{difference:+.1f}" if accuracy else f"{100.0 * difference:+.1f} %"


def _summary(summary: Plain | None, cell: Plain) -> str:
    if summary is None:
        return "failed"
    mean, spread = summary["mean"], summary["deviation"]
    if spread is None:
        return _value(mean, cell)
    percent = cell["quantity"] == "accuracy"
    return _value(mean, cell) + (f" ± {spread:.1f}" if percent else f" ± {100.0 * spread / mean:.1f} %")


def _value(value: float | None, cell: Plain, digits: str = "") -> str:
    """Return a percentage, or joules or microjoules, as the paper prints them; "g": two decimals where there are."""
    if value is None:
        return ""
    if cell["quantity"] == "energy":
        return f"{value:.4g} J" if value >= 0.01 else f"{value * 1e6:.4g} µJ"
    return f"{value:.2f}" if digits and round(value, 1) != value else f"{value:.1f}"


def draw_curves(cells: Sequence[Plain], stem: Path, title: str) -> list[Path]:
    """Fig. 3 or 4: accuracy against epochs, a panel for each row and a line for each column."""
    rows = list(dict.fromkeys(cell["row"] for cell in cells))
    about = _ABOUT_CURVES[cells[0]["target"]]
    figure = new_figure(10, 7.6, f"{about}, maximum power ({title}; bands: standard deviation)")
    for axis, row in zip(figure.subplots(2, len(rows) // 2, sharey=True).flat, rows, strict=True):
        for colour, cell in zip(COLOURS, [cell for cell in cells if cell["row"] == row], strict=False):
            if not cell["curve"]:
                continue
            mean, deviation = np.array(cell["curve"]).T
            epochs = np.arange(1, len(mean) + 1)
            axis.plot(epochs, mean, color=colour, label=cell["column"], linewidth=1.6)
            low, high = np.maximum(mean - deviation, 0.0), np.minimum(mean + deviation, 100.0)
            axis.fill_between(epochs, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set(xlabel="epoch", ylabel="test accuracy [%]")
        finish_axis(axis, f"{row} at once", size=10, legend=8)
    return save_png_and_svg(figure, stem)


def draw_beside_print(cells: Sequence[Plain], stem: Path, title: str) -> list[Path]:
    """Table I or II as a picture: a point for each entry; an accuracy lies above its print, an energy is over it."""
    accuracy = cells[0]["quantity"] == "accuracy"
    figure = new_figure(7.2, 5.2)
    axis = figure.subplots()
    for kind, reread, colour, label in (
        ("measured", False, BLUE, "final epoch" if accuracy else "as printed"),
        ("best_epoch", False, YELLOW, "best epoch on the test set"),
        ("measured", True, GREEN, "final epoch, read otherwise" if accuracy else "read otherwise"),
    ):
        found = [cell for cell in cells if (cell["reading"] != AS_PRINTED) == reread and cell[kind]]
        sizes = [1.0 if accuracy else cell["printed"] for cell in found]
        means = [cell[kind]["mean"] / size for cell, size in zip(found, sizes, strict=True)]
        spreads = [(cell[kind]["deviation"] or 0.0) / size for cell, size in zip(found, sizes, strict=True)]
        error_line(axis, [cell["printed"] for cell in found], means, spreads, fmt="o", color=colour, label=label)
    ends = [pick(cell["printed"] for cell in cells) for pick in (min, max)]
    axis.plot(ends, ends if accuracy else (1.0, 1.0), color=BLACK, linewidth=0.8, label="printed")
    if accuracy:
        axis.set(xlabel="printed test accuracy [%]", ylabel="test accuracy [%]")
    else:
        axis.set(xscale="log", yscale="log", xlabel="printed energy [J]", ylabel="recomputed / printed energy")
        axis.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
        axis.set_yticks([], minor=True)
    finish_axis(axis, f"Table {'I' if accuracy else 'II'} ({title}; bars: standard deviation)", legend=9)
    return save_png_and_svg(figure, stem)


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What came of a request."""

    plain: Plain  # all of it, as ``report.json`` has it
    files: list[Path]
    seconds: float
    kept_batches: int
    batches: int

    @property
    def failures(self) -> list[str]:
        """What went wrong, cell by cell."""
        return failures(self.plain)


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
    started, groups = time.perf_counter(), request.cell_groups()
    batches = [batch for cells in groups for batch in request.batches(cells)]
    with writing_to(out):
        sweep = run_sweep(batches, out / "batches", jobs=jobs, engine=engine, data_dir=data_dir, progress=progress)
        results = judge([summarise(cell, sweep, range(request.seeds)) for cells in groups for cell in cells])
        ratios = draw_mixing_ratios() if "fig2" in request.wanted else []
        claims = check_some_claims(results, request.left_out()) if request.quick else check_claims(results)
        plain = {
            "targets": list(request.wanted),
            "seeds": request.seeds,
            "quick": request.quick,
            "dataset": request.dataset,
            "as_printed": request.as_printed,
            "device": request.device,
            "airmixml": __version__,
            "cells": [drawn.to_dict() for drawn in ratios] + [result.to_dict() for result in results],
            "claims": [asdict(claim) for claim in claims],
        }
        how: dict[str, Any] = {
            "seconds": time.perf_counter() - started,
            "kept_batches": sweep.kept_batches,
            "batches": len(batches),
        }
        return Reproduction(plain=plain, files=_write(plain, ratios, out, draw=draw), **how)


def _write(plain: Plain, ratios: list[MixingRatios], out: Path, *, draw: bool) -> list[Path]:
    """Write the report, each table as CSV, and, if ``draw``, each figure as PNG and SVG; return all files."""
    tables, pictures = dict[str, Table](), list[Path]()
    (out / "claims.csv").unlink(missing_ok=True)  # claims and report are those of the last request
    if plain["claims"]:
        tables["claims"] = claims_table(plain["claims"])
    if ratios:
        tables["fig2"] = ratios_table(ratio_cells(plain))
        pictures += draw_ratios_figure(ratios, out / "fig2") if draw else []
    for (target, half), cells in by_table(plain).items():
        name = f"{target}-{half}" if target.startswith("table") else target
        tables[name] = results_table(target, cells)
        if draw:
            about = f"{cells[0]['dataset']}, {plural(most_seeds(cells), 'seed')}"
            drawing = draw_beside_print if target.startswith("table") else draw_curves
            pictures += drawing(cells, out / name, about)
    files = [path for name, table in tables.items() for path in write_all(out / name, {".csv": table.to_csv()})]
    shown = "".join(f"\n![{name}]({name}.png)\n" for name in tables if name != "claims")
    content = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    report = {".md": reproduction_page(plain).to_markdown() + shown, ".json": content}
    return files + pictures + write_all(out / "report", report)
