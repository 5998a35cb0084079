"""Runs as a whole: folders, figures, several seeds."""

from airmixml.study.run import load_model, run
from airmixml.study.run_folder import load_metrics

__all__ = ["load_metrics", "load_model", "run"]
