"""Finished attacks are kept, so that an interrupted command resumes with what is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml.storage.files import write_arrays


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What one attack on one setting gave.

    Attributes:
        figures: plain values.
        arrays: examples for the picture, and values of each worker.
    """

    figures: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class PartStore:
    """Finished parts as files: figures and arrays of each in one, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, case: int, name: str) -> Part | None:
        """Return a finished part; None where there is none, or a damaged one."""
        try:
            with np.load(self._file(case, name), allow_pickle=False) as content:
                arrays = {key: content[key] for key in content.files}
            return Part(figures=json.loads(str(arrays.pop("figures"))), arrays=arrays)
        except Exception:  # whatever a damaged archive makes NumPy say
            return None

    def save(self, case: int, name: str, part: Part) -> None:
        """Keep a finished part."""
        self._folder.mkdir(exist_ok=True)
        figures = np.array(json.dumps(part.figures, allow_nan=False))
        write_arrays(self._file(case, name), {"figures": figures, **part.arrays})

    def _file(self, case: int, name: str) -> Path:
        return self._folder / f"{case + 1:02d}-{name}.npz"
