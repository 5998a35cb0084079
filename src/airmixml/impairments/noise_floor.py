"""The noise of the server's receiver where it is known only within so many dB, and other transmitters' interference.

Statements, calibration and ledgers assume the lowest (``assumed_noise_watts``); learners measure it. What it really is
no server knows: a run draws it once, uniform in dB. Interference comes on top. It disturbs learners like noise, and
protects nobody: a server may know what others send, and take it off.
"""

from functools import lru_cache
from typing import Final

from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts

_CHAPTER: Final = 1


def true_noise_watts(scenario: Scenario) -> float:
    """Return the noise power per complex symbol of this run, with that of interference."""
    return _drawn(scenario.radio.noise_dbm, scenario.air.noise_uncertainty_db, scenario.seed) + dbm_to_watts(
        scenario.air.interference_dbm
    )


@lru_cache(maxsize=256)
def _drawn(nominal_dbm: float, within_db: float, seed: int) -> float:
    if not within_db:
        return dbm_to_watts(nominal_dbm)
    return dbm_to_watts(nominal_dbm + float(Streams(seed).generator("air", _CHAPTER).uniform(-within_db, within_db)))
