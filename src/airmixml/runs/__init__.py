"""One experiment: simulate, learn, write its folder; one seed or several, resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.runs.classifier import RunClassifier, load_model
    from airmixml.runs.experiment import run
    from airmixml.runs.model_files import load_network
    from airmixml.runs.results import ProtectedResult, RunResult, SeedsResult, load_metrics

__all__ = ["ProtectedResult", "RunClassifier", "RunResult", "SeedsResult", "load_metrics", "load_model"]
__all__ += ["load_network", "run"]

__getattr__ = import_late(
    __name__,
    {
        "airmixml.runs.classifier": ("RunClassifier", "load_model"),
        "airmixml.runs.experiment": ("run",),
        "airmixml.runs.model_files": ("load_network",),
        "airmixml.runs.results": ("ProtectedResult", "RunResult", "SeedsResult", "load_metrics"),
    },
)
