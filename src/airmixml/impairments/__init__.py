"""What keeps a signal from arriving as planned: phases, clocks, amplitudes, absent workers.

All of them together give every worker a complex gain, 1 on the ideal air, for each piece of a slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.impairments.frame import Frame
    from airmixml.impairments.gain_laws import GaussianError, UniformError
    from airmixml.impairments.gains import Impairment, SeatDraws, SeatGains

__all__ = ["Frame", "GaussianError", "Impairment", "SeatDraws", "SeatGains", "UniformError"]

__getattr__ = import_late(__name__)
