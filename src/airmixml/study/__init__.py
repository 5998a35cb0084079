"""Whole runs, their folders and their figures; accounts and plans."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airmixml.study.experiment import run
    from airmixml.study.model_file import load_model
    from airmixml.study.run_folder import load_metrics

__all__ = ["load_metrics", "load_model", "run"]

# Imported at first use: an account or a plan needs no torch.
_LATE = {
    "load_metrics": "airmixml.study.run_folder",
    "load_model": "airmixml.study.model_file",
    "run": "airmixml.study.experiment",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'airmixml.study' has no attribute {name!r}")
