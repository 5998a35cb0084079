"""One experiment: simulate, learn, write its folder; one seed or several, resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.runs.classifier import RunClassifier, RunModel, RunRegressor, load_model
    from airmixml.runs.experiment import run
    from airmixml.runs.model_files import load_network
    from airmixml.runs.onnx_export import ExportedModel, export_onnx
    from airmixml.runs.pictures import draw_statements, run_figure
    from airmixml.runs.results import ProtectedResult, RunResult, SeedsResult, load_metrics

__all__ = ["ExportedModel", "ProtectedResult", "RunClassifier", "RunModel", "RunRegressor", "RunResult"]
__all__ += ["SeedsResult", "draw_statements", "export_onnx", "load_metrics", "load_model"]
__all__ += ["load_network", "run", "run_figure"]

__getattr__ = import_late(__name__)
