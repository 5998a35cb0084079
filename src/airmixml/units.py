"""Decibels and watts."""

import math

import numpy as np
from numpy.typing import ArrayLike

from airmixml.arrays import Doubles


def db_to_ratio(decibels: float) -> float:
    """Power ratio of a value in dB; beyond what a double holds, infinity or zero."""
    try:
        return float(10.0 ** (decibels / 10.0))
    except OverflowError:
        return math.inf


def ratio_to_db(ratio: ArrayLike) -> Doubles:
    """dB of a power ratio; zero gives -inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(np.asarray(ratio, dtype=np.float64)))


def dbm_to_watts(dbm: float) -> float:
    """Watts of a power in dBm."""
    return db_to_ratio(dbm - 30.0)


def watts_to_dbm(watts: ArrayLike) -> Doubles:
    """dBm of a power in watts; zero gives -inf."""
    return np.asarray(ratio_to_db(watts) + 30.0)
