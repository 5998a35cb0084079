"""Carrier leakage: a transmitter sends some of its bare carrier along, whatever the data are.

Its power is ``air.carrier_leakage_db`` over the largest that the worker radiates on average (3GPP TS 38.101-1, 6.4.2),
so it is the same for any data. It arrives through the worker's own channel with a phase of its own, as a constant on
every symbol of a single carrier. Phases of many workers are independent: what is left in a sum of N is sqrt(N) times
that of one. OFDM has it on the subcarrier of the carrier itself, which no data are sent on.

A replaced sample leaves it as it is. A removed worker takes it along: where ||v|| <= R, the carrier has at most the
norm sqrt(L) R, and both together at most (1 + sqrt(L)) R.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from airmixml.arrays import db_to_ratio
from airmixml.scenario import Air

if TYPE_CHECKING:
    import torch

    from airmixml.impairments.gains import SeatDraws

_NAME: Final = "carrier-leakage"


def removal_factor(air: Air) -> float:
    """Return by how much the squared norm of what a worker sends may grow through its carrier; 1 without."""
    return (1.0 + math.sqrt(db_to_ratio(air.carrier_leakage_db))) ** 2


def leaked(air: Air, draws: SeatDraws, arrives: torch.Tensor, mean_square: torch.Tensor | float) -> torch.Tensor | None:
    """Return the carriers of workers in the sum of every symbol; slots x pieces, complex. None: there are none.

    ``arrives`` is q g of each seat and piece, slots x seats x pieces; ``mean_square`` the largest that a worker's
    symbols may have on average, slots x seats.
    """
    import torch  # here: facts about privacy need none

    if math.isinf(air.carrier_leakage_db) or air.waveform != "single-carrier":
        return None
    turns = 2.0 * math.pi * draws.uniforms(_NAME)
    square = torch.as_tensor(mean_square, dtype=turns.dtype, device=turns.device) * db_to_ratio(air.carrier_leakage_db)
    amplitude = square.expand(turns.shape[:2]).sqrt()[:, :, None]
    return (arrives * torch.polar(amplitude, turns)).sum(dim=1)
