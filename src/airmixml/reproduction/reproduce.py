"""``airmix reproduce``: from the names of tables and figures to files beside the paper's printed values."""

import time
from dataclasses import replace
from pathlib import Path

from airmixml.progress import Progress, silent
from airmixml.reproduction.mixing_ratios import draw_mixing_ratios
from airmixml.reproduction.paper_claims import check_claims
from airmixml.reproduction.report import Reproduction, write_reproduction
from airmixml.reproduction.request import Request
from airmixml.reproduction.results import judge, summarise
from airmixml.storage.files import writing_to
from airmixml.sweeps import Engine, run_sweep


def reproduce(
    request: Request,
    out: Path,
    *,
    jobs: int = 1,
    engine: Engine = "local",
    data_dir: Path | None = None,
    draw: bool = True,
    progress: Progress = silent,
) -> Reproduction:
    """Run what the request names, write tables and figures into ``out``, and return all of it.

    Finished batches are kept in ``out/batches``: the same request resumes what was interrupted, and another request
    uses what is there.

    Args:
        request: what to reproduce.
        out: folder for tables, figures and finished batches.
        jobs: batches at a time.
        engine: this machine, or a Ray cluster.
        data_dir: folder to look for MNIST in.
        draw: whether to draw figures, which takes most of the time of a small request.
        progress: told how far it is.
    """
    started = time.perf_counter()
    groups = request.cell_groups()
    batches = [batch for cells in groups for batch in request.batches(cells)]
    with writing_to(out):
        sweep = run_sweep(batches, out / "batches", jobs=jobs, engine=engine, data_dir=data_dir, progress=progress)
        seeds = range(request.seeds)
        results = judge([summarise(cell, sweep, seeds) for cells in groups for cell in cells])
        claims = check_claims(results)
        ratios = draw_mixing_ratios() if "fig2" in request.wanted else []
        reproduction = Reproduction(
            request=request,
            results=results,
            ratios=ratios,
            claims=claims,
            files=[],
            seconds=time.perf_counter() - started,
            kept_batches=sweep.kept_batches,
            batches=len(batches),
            out=out,
        )
        return replace(reproduction, files=write_reproduction(reproduction, draw=draw))
