"""What all protected fits of this process together reveal of the same rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.data.labels import number_holders
from airmixml.privacy import PrivacyStatement, gaussian_epsilon
from airmixml.privacy.gaussian import RowLedger
from airmixml.privacy.rounded_noise import COMPOSED_SHARE

if TYPE_CHECKING:
    from airmixml.radio import AirReport

# By adversary: what hides a row from the server may hide it from nobody who hears each worker alone.
_ROWS: Final = {"server": RowLedger(), "everyone": RowLedger()}


def state_jointly(inputs: NDArray[Any], report: AirReport, worker: ArrayLike | None = None) -> PrivacyStatement:
    """Return what this and all earlier protected fits reveal together of a row that was in most of them.

    Where ``worker`` says who holds each row, it is a worker with all its rows, known by its name. Rows count as the
    same where all their numbers are, as float32; other columns of the same people are not recognised. The statement is
    against the server, or against everyone where the fit's target is.
    """
    names = [row.tobytes() for row in inputs.astype(np.float32) + np.float32(0.0)]  # -0.0 becomes 0.0
    if worker is not None:
        names += [f"worker {name}".encode() for name in number_holders(np.asarray(worker), "worker")[1]]
    privacy = report.scenario.privacy
    hidden = privacy.noise != "receiver"
    spent = {"server": report.squared_mu(), "everyone": report.squared_mu("everyone") if hidden else math.inf}
    totals = {adversary: rows.add(names, spent[adversary]) for adversary, rows in _ROWS.items()}
    fits, squared_mu = totals["everyone" if privacy.adversary == "everyone" else "server"]
    alone, delta = report.privacy_against_server, privacy.delta
    if privacy.adversary == "everyone":
        alone = report.privacy
    held = "rows" if worker is None else "workers"
    together = f"{fits} protected fit{'s' if fits > 1 else ''} of the same {held} in this process: mu^2 add up"
    if math.isinf(squared_mu):
        together += "; one of them rests on the receiver's noise, which hides nobody from everyone"
    if privacy.arithmetic == "integers":  # each fit sets next to nothing of delta aside: this is for a thousand
        delta *= 1.0 - 1e3 * COMPOSED_SHARE
    epsilon = gaussian_epsilon(math.sqrt(squared_mu), delta) if math.isfinite(squared_mu) else math.inf
    return replace(alone, epsilon=epsilon, delta=privacy.delta, unit=held[:-1], why=together)
