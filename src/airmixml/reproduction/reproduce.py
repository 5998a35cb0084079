"""``airmix reproduce``: from the names of tables and figures to files beside the paper's printed values."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from airmixml.output.tables import Table, rows_csv, write_all
from airmixml.progress import Progress, silent
from airmixml.reproduction import paper_figures, reproduction_page
from airmixml.reproduction.paper_cells import Request
from airmixml.reproduction.paper_claims import Claim, check_claims, check_some_claims
from airmixml.reproduction.verdicts import CellResult, MixingRatios, draw_mixing_ratios, judge, summarise
from airmixml.storage.files import writing_to
from airmixml.storage.study import written_files
from airmixml.sweeps import run_sweep
from airmixml.version import __version__
from airmixml.wording import plural

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

    @property
    def names(self) -> list[str]:
        """What tables and figures are called in the folder."""
        tables = [_name(*part) for part in reproduction_page.by_table(self.to_dict())]
        return ["claims"] * bool(self.claims) + ["fig2"] * bool(self.ratios) + tables

    @property
    def failures(self) -> list[str]:
        """What went wrong, cell by cell."""
        return reproduction_page.failures(self.to_dict())

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
    out, plain, files = reproduction.out, reproduction.to_dict(), list[Path]()
    for suffix in (".md", ".csv", ".tex"):  # claims and report are those of the last request
        (out / f"claims{suffix}").unlink(missing_ok=True)
    if reproduction.claims:
        files += _write_table(out / "claims", reproduction_page.claims_table(plain["claims"]))
    if reproduction.ratios:
        files += _write_table(out / "fig2", reproduction_page.ratios_table(reproduction_page.ratio_cells(plain)))
        files += paper_figures.draw_ratios_figure(reproduction.ratios, out / "fig2") if draw else []
    for (target, half), cells in reproduction_page.by_table(plain).items():
        title, about = f"{reproduction_page.TITLES[target]}, {cells[0]['dataset']}", cells[0]["dataset"]
        matrix = reproduction_page.side_by_side(title, cells)
        table = reproduction_page.results_table(f"{title}, entry by entry", cells)
        texts = {".md": table.to_markdown(), ".csv": rows_csv(list(map(_flat, cells)))}
        files += write_all(out / _name(target, half), {**texts, ".tex": f"{matrix.to_latex()}\n{table.to_latex()}"})
        if draw:
            results = [each for each in reproduction.results if each.cell.place[:2] == (target, half)]
            about = f"{about}, {plural(reproduction_page.most_seeds(cells), 'seed')}"
            files += _DRAWINGS[target](results, out / _name(target, half), about)
    pictures = "".join(f"\n![{name}]({name}.png)\n" for name in reproduction.names if name != "claims")
    markdown = reproduction_page.reproduction_page(plain).to_markdown() + pictures
    content = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    return files + write_all(out / "report", {".md": markdown, ".json": content})


def _write_table(stem: Path, table: Table) -> list[Path]:
    return write_all(stem, {".md": table.to_markdown(), ".csv": table.to_csv(), ".tex": table.to_latex()})


def _flat(cell: dict[str, Any]) -> dict[str, Any]:
    """Return all numbers of a cell, for other programs."""
    flat = {name: cell[name] for name in cell if name not in ("measured", "best_epoch", "curve", "errors", "why")}
    for name in ("measured", "best_epoch"):
        summary = cell[name] or {"mean": None, "deviation": None, "values": []}
        flat |= {f"{name}_{part}": summary[part] for part in ("mean", "deviation")}
        flat[f"{name}_by_seed"] = " ".join(f"{value:.6g}" for value in summary["values"])
    return flat
