"""AirMixML: over-the-air mixup machine learning.

>>> from airmixml import Scenario, simulate, train
>>> mixtures = simulate(Scenario.preset("paper-iris"))
>>> train(mixtures).history.final_accuracy  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airmixml.errors import AirMixError, DataError, PrivacyError, RunFolderError, ScenarioError
from airmixml.scenario import Scenario, Speed
from airmixml.version import __version__

if TYPE_CHECKING:
    from airmixml.edge import train
    from airmixml.estimator import AirMixClassifier
    from airmixml.radio import simulate, simulate_blocks
    from airmixml.study import load_metrics, load_model, run

__all__ = [
    "AirMixClassifier",
    "AirMixError",
    "DataError",
    "PrivacyError",
    "RunFolderError",
    "Scenario",
    "ScenarioError",
    "Speed",
    "__version__",
    "load_metrics",
    "load_model",
    "run",
    "simulate",
    "simulate_blocks",
    "train",
]

# Imported at first use: torch takes seconds, and a scenario or an error needs none of it.
_LATE = {
    "AirMixClassifier": "airmixml.estimator",
    "load_metrics": "airmixml.study",
    "load_model": "airmixml.study",
    "run": "airmixml.study",
    "simulate": "airmixml.radio",
    "simulate_blocks": "airmixml.radio",
    "train": "airmixml.edge",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'airmixml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
