"""What a run is done with: it decides how fast the run is, never its result (beyond float rounding)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airmixml.engines import Engine
from airmixml.progress import Progress, silent
from airmixml.scenario.rules import Text, Whole, check_fields, key

if TYPE_CHECKING:
    from airmixml.streams import Secret  # which needs NumPy


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Device, block size and threads."""

    device: str = key("cpu", Text(), 'where to compute: "cpu", "cuda", "cuda:1", ...')
    block_slots: int = key(0, Whole(low=0, high=10**9), "slots simulated at a time (0: what suits the device)")
    threads: int = key(0, Whole(low=0, high=4096), "CPU threads (0: as many as there are cores)")

    def __post_init__(self) -> None:
        check_fields(self, "")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Where and how a command works."""

    speed: Speed = field(default_factory=Speed)  #: device, block size and threads
    data_dir: Path | None = None  #: folder with the four MNIST files; None: the cache, which is filled where needed
    progress: Progress = silent  #: told how far each stage is
    #: What hides the data is drawn from it, once; None: from the scenario's seed, which everybody knows.
    secret: Secret | None = None
    engine: Engine = field(default_factory=Engine)  #: where parts that need nothing of each other run
