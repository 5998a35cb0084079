"""Many runs as one piece of work: in parallel, resumable, one failing run never costs the others."""

from airmixml.sweeps.batches import Batch, Failed, Sent, SweepOutcome, Trained, cut_into_batches
from airmixml.sweeps.sweep import Engine, SweepResult, run_sweep

__all__ = [
    "Batch",
    "Engine",
    "Failed",
    "Sent",
    "SweepOutcome",
    "SweepResult",
    "Trained",
    "cut_into_batches",
    "run_sweep",
]
