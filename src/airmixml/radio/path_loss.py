"""How much of a signal arrives without fading. Apart from the channel, whose draws need torch."""

import math

import numpy as np

from airmixml.arrays import Doubles
from airmixml.units import db_to_ratio


def path_gain(distance_metres: Doubles, path_loss_exponent: float, unit_path_loss_db: float) -> Doubles:
    """Return sqrt(beta_U) d^(-n/2), the amplitude gain without fading; same shape as the distances."""
    return np.asarray(math.sqrt(db_to_ratio(unit_path_loss_db)) * distance_metres ** (-path_loss_exponent / 2.0))
