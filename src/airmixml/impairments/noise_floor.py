"""The noise of the server's receiver where it is known only within so many dB.

Statements, calibration and ledgers assume the lowest (``assumed_noise_watts``); learners measure it. What it really is
no server knows: a run draws it once, uniform in dB.
"""

from functools import lru_cache
from typing import Final

from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts

_CHAPTER: Final = 1


def true_noise_watts(scenario: Scenario) -> float:
    """Return the noise power per complex symbol of this run, within ``air.noise_uncertainty_db`` of the nominal."""
    return _drawn(scenario.radio.noise_dbm, scenario.air.noise_uncertainty_db, scenario.seed)


@lru_cache(maxsize=256)
def _drawn(nominal_dbm: float, within_db: float, seed: int) -> float:
    if not within_db:
        return dbm_to_watts(nominal_dbm)
    return dbm_to_watts(nominal_dbm + float(Streams(seed).generator("air", _CHAPTER).uniform(-within_db, within_db)))
