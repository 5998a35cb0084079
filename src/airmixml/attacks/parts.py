"""Finished attacks are kept, so that an interrupted command resumes with what is missing."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from airmixml.storage.results import ResultStore


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
    """Finished parts as files: figures and arrays of each in one."""

    def __init__(self, folder: Path) -> None:
        self._store = ResultStore(folder)

    def load(self, case: int, name: str) -> Part | None:
        """Return a finished part; None where there is none, or a damaged one."""
        return self._store.load(
            _file(case, name), lambda figures, arrays: Part(figures=_finite(figures), arrays=arrays)
        )

    def save(self, case: int, name: str, part: Part) -> None:
        """Keep a finished part."""
        self._store.save(_file(case, name), _finite(part.figures), part.arrays)


def _file(case: int, name: str) -> str:
    return f"{case + 1:02d}-{name}.npz"


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures; refuse what is no result."""
    if not isinstance(figures, dict):
        raise ValueError("figures must have names")
    json.dumps(figures, allow_nan=False)  # raises for NaN and infinite ones
    return figures
