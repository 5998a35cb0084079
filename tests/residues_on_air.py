"""How residues reach the server: one by one, or added up on the air as bit planes; never as one analog number each.

A channel adds up, it does not reduce modulo 2^b. Three ways to send N residues of b bits:

*Analog*: amplitude = residue. The sum has N 2^b levels, and the server must tell neighbours apart. At t deviations of
error from half a step, receiver noise must stay at 1 / (2 t) of a step, so that each worker needs an SNR of
(2 t)^2 2^(2 b) / 12; and gains must be right to 1 / (2 t 2^b sqrt(N / 12)). Out of reach for more than a few bits.

*One by one*: any conventional link, N b bits per number.

*Bit planes*: a symbol for each bit k of the residue, sent as +-1/2, all workers of a group at once. The server rounds
what it receives to the number of ones S_k, and sum_k 2^k S_k modulo 2^b is what it wants. Gains that are off by a
relative deviation g and an SNR of G = (1/4) / (noise variance of the real part) per worker leave an error of variance
n g^2 / 4 + 1 / (4 G) in a group of n. The planes tell more than their sum modulo 2^b, but nothing that separate
residues do not tell, and those are public in this threat model. No error correction is assumed.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from airmixml.arrays import db_to_ratio, ratio_to_db
from airmixml.integers.encoding import Residues, reduce
from airmixml.messages import ScenarioError


def analog_snr_db(bits: int, deviations: float) -> float:
    """Return the SNR per worker at which receiver noise alone errs ``deviations`` from half a step, in dB."""
    return float(ratio_to_db((2.0 * deviations) ** 2 / 12.0) + 2.0 * bits * ratio_to_db(2.0))


def analog_gain_error(bits: int, workers: int, deviations: float) -> float:
    """Return the largest relative deviation of gains, at which they alone err so many deviations from half a step."""
    return 1.0 / (2.0 * deviations * 2.0**bits * math.sqrt(workers / 12.0))


def plane_error_rate(group: int, gain_error: float, snr_db: float) -> float:
    """Return the chance that the number of ones in a bit plane of ``group`` workers is rounded wrongly."""
    variance = group * gain_error**2 / 4.0 + 0.25 / db_to_ratio(snr_db)
    return 2.0 * float(ndtr(-0.5 / math.sqrt(variance)))


def largest_group(gain_error: float, snr_db: float, error_rate: float) -> int:
    """Return the most workers that may send a bit plane at once, or refuse."""
    deviation = -0.5 / float(ndtri(error_rate / 2.0))
    left = deviation**2 - 0.25 / db_to_ratio(snr_db)
    group = math.floor(4.0 * left / gain_error**2 * (1.0 - 1e-9)) if left > 0.0 else 0
    if group < 1:
        needed = float(ratio_to_db(1.0 / max(4.0 * deviation**2 - gain_error**2, 1e-300)))
        raise ScenarioError(
            f"snr_db = {snr_db:g}: must be above {needed:.1f} for bit planes at an error rate of {error_rate:g}; send "
            "with more power or allow more errors"
        )
    return group


def symbols_one_by_one(workers: int, bits: int, bits_per_symbol: float) -> float:
    """Return the symbols per number where every residue is sent by itself; an analog sum takes 1."""
    return workers * bits / bits_per_symbol


def symbols_in_planes(workers: int, bits: int, group: int) -> int:
    """Return the symbols per number where groups send bit planes, on the real part alone as all our symbols."""
    return -(-workers // group) * bits


def add_up_on_air(
    residues: Residues, bits: int, *, group: int, gain_error: float, snr_db: float, generator: np.random.Generator
) -> Residues:
    """Return the server's sum modulo 2^b of residues sent as bit planes; numbers, from workers x numbers.

    Gains are drawn anew for each group and plane; they are 1 + g N(0, 1) on the real part.
    """
    workers, numbers = residues.shape
    deviation = 0.5 / math.sqrt(db_to_ratio(snr_db))
    total = np.zeros(numbers, dtype=np.uint64)
    for first in range(0, workers, group):
        members = residues[first : first + group]
        for plane in range(bits):
            ones = (members >> np.uint64(plane)) & np.uint64(1)
            gains = 1.0 + gain_error * generator.standard_normal(len(members))
            heard = gains @ (ones - 0.5) + deviation * generator.standard_normal(numbers)
            count = np.clip(np.rint(heard + len(members) / 2.0), 0, len(members)).astype(np.uint64)
            total += count << np.uint64(plane)
    return reduce(total, bits)
