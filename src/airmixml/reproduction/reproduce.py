"""``airmix reproduce``: from the names of tables and figures to files beside the paper's printed values."""

import json
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from airmixml.files import writing_to
from airmixml.output.tables import Table, write_all
from airmixml.progress import Progress, silent
from airmixml.reproduction.paper_cells import Request
from airmixml.reproduction.paper_claims import Claim, check_claims, check_some_claims
from airmixml.reproduction.reproduction_page import (
    DRAWINGS,
    by_table,
    claims_table,
    draw_ratios_figure,
    failures,
    most_seeds,
    ratio_cells,
    ratios_table,
    reproduction_page,
    results_table,
)
from airmixml.reproduction.verdicts import CellResult, MixingRatios, draw_mixing_ratios, judge, summarise
from airmixml.sweeps import run_sweep
from airmixml.version import __version__
from airmixml.wording import plural


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
    def failures(self) -> list[str]:
        """What went wrong, cell by cell."""
        return failures(self.to_dict())

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
        return replace(reproduction, files=_write(reproduction, draw=draw))


def _write(reproduction: Reproduction, *, draw: bool) -> list[Path]:
    """Write the report, each table as CSV, and, if ``draw``, each figure as PNG and SVG; return all files."""
    out, plain, tables, pictures = reproduction.out, reproduction.to_dict(), dict[str, Table](), list[Path]()
    (out / "claims.csv").unlink(missing_ok=True)  # claims and report are those of the last request
    if reproduction.claims:
        tables["claims"] = claims_table(plain["claims"])
    if reproduction.ratios:
        tables["fig2"] = ratios_table(ratio_cells(plain))
        pictures += draw_ratios_figure(reproduction.ratios, out / "fig2") if draw else []
    for (target, half), cells in by_table(plain).items():
        name = f"{target}-{half}" if target.startswith("table") else target
        tables[name] = results_table(target, cells)
        if draw:
            about = f"{cells[0]['dataset']}, {plural(most_seeds(cells), 'seed')}"
            pictures += DRAWINGS[target](cells, out / name, about)
    files = [path for name, table in tables.items() for path in write_all(out / name, {".csv": table.to_csv()})]
    shown = "".join(f"\n![{name}]({name}.png)\n" for name in tables if name != "claims")
    content = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    report = {".md": reproduction_page(plain).to_markdown() + shown, ".json": content}
    return files + pictures + write_all(out / "report", report)
