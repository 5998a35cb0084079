"""Many runs as one piece of work: in parallel, resumable, one failing run never costs the others."""

from airmixml.study.sweep.batches import Batch, cut_into_batches
from airmixml.study.sweep.sweep import Engine, SweepResult, run_sweep

__all__ = ["Batch", "Engine", "SweepResult", "cut_into_batches", "run_sweep"]
