"""One experiment: simulate, learn, write its folder; one seed or several, resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late
from airmixml.storage.run_folder import load_metrics

if TYPE_CHECKING:
    from airmixml.runs.experiment import run
    from airmixml.runs.model_file import load_model

__all__ = ["load_metrics", "load_model", "run"]

__getattr__ = import_late(__name__, {"airmixml.runs.experiment": ("run",), "airmixml.runs.model_file": ("load_model",)})
