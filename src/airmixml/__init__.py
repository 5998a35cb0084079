"""AirMixML: over-the-air mixup machine learning.

>>> from airmixml import Scenario, simulate, train
>>> mixtures = simulate(Scenario.preset("paper-iris"))
>>> train(mixtures).history.final_accuracy  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late
from airmixml.version import __version__

if TYPE_CHECKING:
    from airmixml.edge import simulate, train
    from airmixml.estimator import AirMixClassifier, AirMixRegressor
    from airmixml.messages import AirMixError, DataError, PrivacyError, RunFolderError, ScenarioError
    from airmixml.radio import simulate_blocks
    from airmixml.runs import export_onnx, load_metrics, load_model, load_network, run
    from airmixml.scenario import Scenario, Speed
    from airmixml.sweeps.grid_sweep import sweep
    from airmixml.workers import settle

__all__ = ["AirMixClassifier", "AirMixError", "AirMixRegressor", "DataError", "PrivacyError", "RunFolderError"]
__all__ += ["Scenario", "ScenarioError", "Speed", "__version__", "export_onnx", "load_metrics", "load_model"]
__all__ += ["load_network", "run", "settle", "simulate", "simulate_blocks", "sweep", "train"]

__getattr__ = import_late(__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
