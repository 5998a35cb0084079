"""What the subjects of the suite share: timing side by side, and the rows that they return."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Row = dict[str, Any]
"""One line of the table: ``work``, ``against``, ``ours_seconds``, ``theirs_seconds``, ``ratio`` (theirs / ours), and
what else is worth keeping. ``target`` is {"faster": times}, {"within": times}, {"seconds": most} or, of what is not a
time and stands in ``measured``, {"most": value}."""


def seconds_of(work: Callable[[], object], device: str = "cpu") -> float:
    """Return how long the work takes, until the device has finished it."""
    if device != "cpu":
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def alternately(works: Mapping[str, Callable[[], object]], *, repeats: int, device: str = "cpu") -> dict[str, float]:
    """Time all works by turns, so that whatever slows the machine down slows down all of them; the best of each."""
    gc.collect()
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            best[name] = min(best[name], seconds_of(work, device))
    return best


def with_bytecode(folder: str) -> dict[str, str]:
    """Return an environment in which Python keeps what it compiled there: a command then starts as if installed."""
    return os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}


def row(
    work: str,
    against: str,
    ours_seconds: float | None = None,
    theirs_seconds: float | None = None,
    *,
    target: Mapping[str, float] | None = None,
    note: str = "",
    **more: Any,
) -> Row:
    """Return a row; without seconds of both there is no ratio."""
    both = ours_seconds is not None and theirs_seconds is not None
    made: Row = {
        "work": work,
        "against": against,
        "ours_seconds": ours_seconds,
        "theirs_seconds": theirs_seconds,
        "ratio": theirs_seconds / ours_seconds if both else None,
    }
    return made | ({"target": dict(target)} if target else {}) | ({"note": note} if note else {}) | more


def missing(work: str, against: str, why: str) -> Row:
    """Return the row of something that cannot be measured here."""
    return row(work, against, missing=why)
