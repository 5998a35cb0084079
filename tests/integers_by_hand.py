"""Sums of integers with every mask formed, and the exact loss of one number: what shortcuts are tested by."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.integers.encoding import IntegerCode, Residues, reduce
from airmixml.integers.integer_noise import IntegerNoise, SumTarget, rounded_mu_per_step
from airmixml.messages import PrivacyError
from airmixml.privacy.evaluation import settled_epsilon
from airmixml.privacy.facts import SHARE_FOR_TAILS, log_cut
from airmixml.privacy.gaussian import gaussian_epsilon

_RANGE_IN_DEVIATIONS = 8.0

PairGenerator = Callable[[int, int], np.random.Generator]
"""A fresh generator from the seed that workers i < j share."""


def code_for(*, numbers: int, norm: float, workers: int, bits: int) -> IntegerCode:
    """The finest code that holds sums up to 8 times the root mean square of a sum of equal vectors."""
    most = _RANGE_IN_DEVIATIONS * workers * norm / math.sqrt(numbers)
    return IntegerCode(numbers=numbers, norm=norm, step=2.0 * most / 2.0**bits, bits=bits)


def calibrated(
    code: IntegerCode, *, workers: int, epsilon: float, delta: float, honest: int = 0, distance: float = 1.0
) -> IntegerNoise:
    """The least noise with which so many honest workers (0: all) have that epsilon at delta."""
    sizes = {"numbers": code.numbers, "norm": code.norm, "workers": workers, "carriers": honest or workers}
    total = SumTarget(**sizes, epsilon=epsilon, delta=delta, distance=distance).honest_variance(code)
    return IntegerNoise(code=code, workers=workers, variance_per_worker=total / (honest or workers))


def stated_epsilon(noise: IntegerNoise, delta: float, *, honest: int = 0, distance: float = 1.0) -> float:
    """An epsilon that holds at delta if so many workers (0: all) keep their noise secret, by Theorem 2."""
    carried = (honest or noise.workers) * noise.variance_per_worker

    def found(assumed: float) -> float:
        cut = log_cut(noise.code.numbers, assumed, delta)
        mu = distance * noise.code.steps * rounded_mu_per_step(carried, cut)
        return gaussian_epsilon(mu, delta * (1.0 - SHARE_FOR_TAILS)) if mu < 1e100 else math.inf

    return settled_epsilon(found)


def masked(integers: Integers, edges: Integers, pair_generator: PairGenerator, bits: int) -> Residues:
    """Return what every worker sends, its integers plus its masks modulo 2^b; workers x numbers, as the integers.

    Edges are pairs of different workers, edges x 2. Forms every mask: for few workers, and for tests of the rest.
    """
    workers, numbers = integers.shape
    sent = integers.astype(np.uint64)  # two's complement: sums modulo 2^64 are sums modulo 2^b too
    for one, other in _checked(edges, workers).tolist():
        first, second = min(one, other), max(one, other)
        mask = pair_generator(first, second).integers(0, 1 << bits, size=numbers, dtype=np.uint64)
        sent[first] += mask
        sent[second] -= mask
    return reduce(sent, bits)


def add_up(residues: Residues, bits: int) -> Residues:
    """Return the sum over workers modulo 2^b; numbers."""
    return reduce(residues.sum(axis=0, dtype=np.uint64), bits)


def smallest_honest_group(workers: int, edges: Integers, colluders: Collection[int] = ()) -> int:
    """Return how many honest workers the smallest connected part of their graph has.

    Edges to colluders are taken out. That many shares of noise hide a worker in the worst case.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    honest = np.ones(workers, dtype=bool)
    honest[list(colluders)] = False
    if not honest.any():
        raise PrivacyError(f"colluders = {len(colluders)}: must leave an honest worker of {workers}")
    kept = _checked(edges, workers)
    kept = kept[honest[kept].all(axis=1)]
    graph = coo_array((np.ones(len(kept)), (kept[:, 0], kept[:, 1])), shape=(workers, workers))
    _, part = connected_components(graph, directed=False)
    return int(np.unique(part[honest], return_counts=True)[1].min())


def _checked(edges: Integers, workers: int) -> Integers:
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= workers or (pairs[:, 0] == pairs[:, 1]).any()):
        raise PrivacyError(f"edges: must join two different workers of 0 to {workers - 1}")
    return pairs


def renyi_bound(order: int, variance: float, *, squared_distance: float, total_distance: float) -> float:
    """Return the bound on the Renyi divergence of Agarwal, Kairouz and Liu (2021), for comparison.

    alpha D^2 / (2 V) + min(((2 alpha - 1) D^2 + 6 D_1) / (4 V^2), 3 D_1 / (2 V)), for whole orders alpha above 1, with
    D^2 the squared Euclidean and D_1 the l1 distance of the two vectors in steps, V the variance.
    """
    first = order * squared_distance / (2.0 * variance)
    second = ((2.0 * order - 1.0) * squared_distance + 6.0 * total_distance) / (4.0 * variance**2)
    return first + min(second, 1.5 * total_distance / variance)


def chances(variance: float, largest: int) -> Doubles:
    """Return p_0 ... p_largest in float64, by the recurrence I_(t-1) = I_(t+1) + (2 t / V) I_t from the top down.

    Right to 1e-12 relative where p_t is above 1e-250 and ``largest`` lies well beyond what is asked for.
    """
    found = np.zeros(largest + 1)
    above, here = 0.0, 1e-290
    for place in range(largest, 0, -1):
        found[place] = here
        above, here = here, above + 2.0 * place / variance * here
        if here > 1e280:
            found[place:] *= 1e-280
            above, here = above * 1e-280, here * 1e-280
    found[0] = here
    return np.asarray(found / (found[0] + 2.0 * found[1:].sum()))


def one_number_delta(variance: float, move: float, epsilon: float) -> float:
    """Return the exact delta at ``epsilon`` where one number moves from 0 by ``move`` steps, rounded at random.

    delta = sum_t max(p_t - e^epsilon q_t, 0), q_t = (1 - f) p_(t - k) + f p_(t - k - 1) for a move of k + f: a lower
    bound on the delta of all vectors with that bound on their norm.
    """
    whole = math.floor(move)
    largest = whole + 60 + math.ceil(14.0 * math.sqrt(variance))
    half = chances(variance, largest)
    still = np.concatenate([half[:0:-1], half, np.zeros(whole + 1)])
    moved = np.roll(still, whole)
    moved += (move - whole) * (np.roll(moved, 1) - moved)
    return float(np.maximum(still - math.exp(epsilon) * moved, 0.0).sum())
