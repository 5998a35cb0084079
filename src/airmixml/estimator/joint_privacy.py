"""What all protected fits of this process together reveal of the same rows."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.privacy import PrivacyStatement, gaussian_epsilon
from airmixml.privacy.gaussian import RowLedger

if TYPE_CHECKING:
    from airmixml.radio import AirReport

_ROWS: Final = RowLedger()


def state_jointly(inputs: NDArray[Any], report: AirReport, worker: ArrayLike | None = None) -> PrivacyStatement:
    """Return what this and all earlier protected fits reveal together of a row that was in most of them.

    Where ``worker`` says who holds each row, it is a worker with all its rows, known by its name. Rows count as the
    same where all their numbers are, as float32; other columns of the same people are not recognised.
    """
    names = [row.tobytes() for row in inputs.astype(np.float32) + np.float32(0.0)]  # -0.0 becomes 0.0
    if worker is not None:
        names += [
            f"worker {name:g}".encode() if isinstance(name, Real) else f"worker {name}".encode()
            for name in np.unique(np.asarray(worker)).tolist()
        ]
    fits, squared_mu = _ROWS.add(names, report.squared_mu())
    alone, delta = report.privacy_against_server, report.scenario.privacy.delta
    held = "rows" if worker is None else "workers"
    together = f"{fits} protected fit{'s' if fits > 1 else ''} of the same {held} in this process: mu^2 add up"
    epsilon = gaussian_epsilon(math.sqrt(squared_mu), delta)
    return replace(alone, epsilon=epsilon, delta=delta, unit=held[:-1], why=together)
