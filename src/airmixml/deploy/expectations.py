"""What a mean of a round can be while all keep to the contract, from public numbers alone.

No vector is longer than the norm of its kind, so neither is their mean; the variance of the noise is known. Behind
masks nobody checks a norm: a worker that does not keep to it moves the sum as far as the modulus goes, and what lies
outside is all that a server can notice.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from airmixml.deploy.contract import Contract
from airmixml.deploy.rounds import Sum
from airmixml.messages import number_text

_FALSE_ALARM: Final = 1e-6  # probability for one round in which everybody is honest and as loud as allowed


def noise_beside_mean(contract: Contract) -> dict[str, float]:
    """Return how long the noise is beside the longest mean of all workers; by what they send."""
    count = len(contract.members)
    return {each.sends: math.sqrt(each.noise_variance(count) * each.numbers) / each.norm for each in contract.kinds}


def told_beforehand(contract: Contract) -> str:
    """Return in a line what sums of so many workers can hold, before anything is sent."""
    beside = noise_beside_mean(contract).items()
    shares = [f"{number_text(share, 2)} times as long as the longest mean of {what}" for what, share in beside]
    return (
        f"{len(contract.members)} workers: noise is {' and '.join(shares)}; more workers or a larger privacy.epsilon "
        "make it shorter"
    )


def outside(contract: Contract, found: Sum) -> str:
    """Return in a line why a mean is none of workers that keep to the contract; empty: it may be one.

    The length is compared with a bound of a chi-square variable that is not central (Birge, 2001), each number with the
    norm and a quantile of its noise; either fails by chance in half of ``_FALSE_ALARM`` at most.
    """
    kind, deviation = contract.kinds[found.kind], math.sqrt(found.variance)
    length, largest = float(np.linalg.norm(found.mean)), float(np.abs(found.mean).max())
    rare, far = math.log(2.0 / _FALSE_ALARM), (kind.norm / deviation) ** 2
    squared = kind.numbers + far + 2.0 * math.sqrt((kind.numbers + 2.0 * far) * rare) + 2.0 * rare
    longest = deviation * math.sqrt(squared)
    most = kind.norm - deviation * NormalDist().inv_cdf(_FALSE_ALARM / (4.0 * kind.numbers))
    if length <= longest and largest <= most:
        return ""
    what, had, may = ("a norm", length, longest) if length > longest else ("a number", largest, most)
    had_text, may_text = number_text(had, 3), number_text(may, 3)
    return (
        f"round {found.number}: the mean of {kind.sends} has {what} of {had_text}, which is at most {may_text} while "
        "all workers keep to the contract: at least one does not, it cannot be identified, and the model may be ruined"
    )


def warnings_of(contract: Contract, sums: Sequence[Sum]) -> list[str]:
    """Return a line for each sum that lies outside."""
    return [line for each in sums if (line := outside(contract, each))]
