"""``airmix reproduce``: from the names of tables and figures to files beside the paper's printed values."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airmixml.errors import RunFolderError
from airmixml.progress import Progress, silent
from airmixml.study.reproduction.claims import Claim, check_claims
from airmixml.study.reproduction.mixing_ratios import MixingRatios, draw_mixing_ratios
from airmixml.study.reproduction.request import Request
from airmixml.study.reproduction.results import CellResult, judge, summarise
from airmixml.study.reproduction.writing import write_reproduction
from airmixml.study.sweep import Engine, run_sweep
from airmixml.version import __version__

__all__ = ["Reproduction", "reproduce"]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Everything that came of a request."""

    request: Request
    results: list[CellResult]
    ratios: list[MixingRatios]
    claims: list[Claim]
    files: list[Path]
    seconds: float
    kept_batches: int
    batches: int
    out: Path = field(default_factory=Path)

    def parts(self) -> dict[tuple[str, str], list[CellResult]]:
        """Return the results by table or figure and half of it."""
        parts: dict[tuple[str, str], list[CellResult]] = {}
        for result in self.results:
            parts.setdefault((result.cell.target, result.cell.dataset), []).append(result)
        return parts

    @property
    def failures(self) -> list[str]:
        """What went wrong, cell by cell."""
        return [
            f"{result.cell.target}, {result.cell.dataset}, {result.cell.row}, {result.cell.column}: {error}"
            for result in self.results
            for error in result.errors
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "targets": list(self.request.wanted),
            "seeds": self.request.seeds,
            "quick": self.request.quick,
            "device": self.request.device,
            "airmixml": __version__,
            "cells": [drawn.to_dict() for drawn in self.ratios] + [result.to_dict() for result in self.results],
            "claims": [claim.to_dict() for claim in self.claims],
        }


def reproduce(
    request: Request,
    out: Path,
    *,
    jobs: int = 1,
    engine: Engine = "local",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Reproduction:
    """Run what the request names, write tables and figures into ``out``, and return all of it.

    Finished batches are kept in ``out/batches``: the same request goes on where it was interrupted, and another one
    uses what is there.

    Args:
        request: what to reproduce.
        out: folder for tables, figures and finished batches.
        jobs: batches at a time.
        engine: this machine, or a Ray cluster.
        data_dir: folder to look for MNIST in.
        progress: told how far it is.
    """
    started = time.perf_counter()
    groups = request.cell_groups()
    batches = [batch for cells in groups for batch in request.batches(cells)]
    try:
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
        return replace(reproduction, files=write_reproduction(reproduction))
    except (FileExistsError, NotADirectoryError):
        raise RunFolderError(f"{out}: is a file or lies in one, and must be a folder; choose another --out") from None
    except OSError as problem:
        raise RunFolderError(
            f"{problem.filename or out}: cannot be written ({problem.strerror or problem}); free space or choose "
            "another --out"
        ) from problem
