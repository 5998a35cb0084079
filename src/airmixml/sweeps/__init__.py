"""Many runs as one piece of work: in parallel, resumable, one failing run never costs the others."""

from airmixml.sweeps.batches import Part, cut_into_batches
from airmixml.sweeps.cells import Energies, Trainings
from airmixml.sweeps.grid_sweep import SweepResult, run_sweep

__all__ = ["Energies", "Part", "SweepResult", "Trainings", "cut_into_batches", "run_sweep"]
