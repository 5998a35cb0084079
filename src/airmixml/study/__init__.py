"""Runs as a whole: folders, figures, several seeds."""

from airmixml.study.model_file import load_model
from airmixml.study.run import run
from airmixml.study.run_folder import load_metrics

__all__ = ["load_metrics", "load_model", "run"]
