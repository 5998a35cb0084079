"""One experiment: simulate, learn, write its folder; one seed or several, resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.runs.experiment import run
    from airmixml.runs.model_files import load_model
    from airmixml.runs.pictures import draw_ledger, draw_statements, run_figure
    from airmixml.runs.results import ProtectedResult, RunResult, SeedsResult, load_metrics

__all__ = ["ProtectedResult", "RunResult", "SeedsResult", "draw_ledger", "draw_statements", "load_metrics"]
__all__ += ["load_model", "run", "run_figure"]

__getattr__ = import_late(
    __name__,
    {
        "airmixml.runs.experiment": ("run",),
        "airmixml.runs.model_files": ("load_model",),
        "airmixml.runs.pictures": ("draw_ledger", "draw_statements", "run_figure"),
        "airmixml.runs.results": ("ProtectedResult", "RunResult", "SeedsResult", "load_metrics"),
    },
)
