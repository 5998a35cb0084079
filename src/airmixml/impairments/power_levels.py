"""Powers that a transmitter can send with: none below its lowest, and those between in steps.

A worker that cannot send with the power it should takes the next lower one, or stays silent: it is never louder than
planned, so its privacy only gains. Powers follow from distances, so how soft a seat is depends on who sits in it; a
hidden schedule still hides, since a worker then sends a vector that is shorter, but within the same bounds.
"""

import math

import torch

from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts


def has_levels(scenario: Scenario) -> bool:
    """Return whether some powers cannot be sent with."""
    return scenario.air.power_step_db > 0.0 or math.isfinite(scenario.air.min_power_dbm)


def possible_power(scenario: Scenario, power_watts: torch.Tensor, radiated_share: float) -> torch.Tensor:
    """Return the power that each worker sends with instead of P: the next on the grid at or below it, or 0.

    The grid is P_max less whole steps of ``air.power_step_db``. What a transmitter radiates on average over a slot must
    be at least ``air.min_power_dbm``; that is P times ``radiated_share``, since P is the power of a symbol of amplitude
    1 and symbols may be known to be smaller. All follow from declared norms: nobody's data decide who is silent.
    Powers are of any shape.
    """
    air, limit_watts = scenario.air, dbm_to_watts(scenario.radio.max_power_dbm)
    possible = power_watts
    if air.power_step_db:
        step = 10.0 ** (air.power_step_db / 10.0)
        # A hair less than a whole number of steps is rounding.
        steps = torch.ceil(torch.log(limit_watts / power_watts) / math.log(step) - 1e-9)
        possible = torch.minimum(limit_watts * step**-steps, power_watts)
    return possible * (possible * radiated_share >= dbm_to_watts(air.min_power_dbm))
