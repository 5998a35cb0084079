"""Mixing ratios q_t ~ Dirichlet(alpha p), Eq. (Dirichlet), its two limits NonMix and EqualMix, and who gets which."""

import numpy as np

from airmixml.arrays import Doubles
from airmixml.scenario import Mixing


def uniform_prior(scheduled: int) -> Doubles:
    """Return p_t = 1/|N_t| for all; shape scheduled."""
    return np.full(scheduled, 1.0 / scheduled)


def dirichlet_mix(alpha: float, prior: Doubles, slots: int, rng: np.random.Generator) -> Doubles:
    """DirMix(alpha): draw q_t ~ Dirichlet(alpha p); slots x scheduled, rows sum to 1.

    The gamma variates behind it are kept as logarithms, with G(a) = G(a + 1) U^(1/a) for small shapes a, so that
    alpha = 1e-8 gives one entry of 1 and zeros, not 0/0.
    """
    shape = np.broadcast_to(alpha * prior, (slots, len(prior)))
    small = shape < 1.0
    log_gamma = np.log(rng.standard_gamma(np.where(small, shape + 1.0, shape)))
    if small.any():
        with np.errstate(divide="ignore"):  # a prior share of zero: that worker's ratio is zero
            log_gamma -= np.where(small, rng.standard_exponential(shape.shape) / shape, 0.0)
    log_gamma -= log_gamma.max(axis=1, keepdims=True)
    ratios = np.exp(log_gamma)
    return np.asarray(ratios / ratios.sum(axis=1, keepdims=True))


def non_mix(prior: Doubles, slots: int, rng: np.random.Generator) -> Doubles:
    """NonMix, the limit alpha -> 0: one worker, drawn with probability p_i, has all; slots x scheduled."""
    chosen = rng.choice(len(prior), size=slots, p=prior / prior.sum())
    ratios = np.zeros((slots, len(prior)))
    ratios[np.arange(slots), chosen] = 1.0
    return ratios


def equal_mix(prior: Doubles, slots: int) -> Doubles:
    """EqualMix, the limit alpha -> infinity: q_t = p_t; slots x scheduled."""
    return np.tile(prior, (slots, 1))


def draw_ratios(mixing: Mixing, scheduled: int, slots: int, rng: np.random.Generator) -> Doubles:
    """Draw the mixing ratios of the policy; slots x scheduled, not yet assigned to workers."""
    prior = np.asarray(mixing.prior) if mixing.prior else uniform_prior(scheduled)
    if mixing.policy == "nonmix":
        return non_mix(prior, slots, rng)
    if mixing.policy == "equalmix":
        return equal_mix(prior, slots)
    return dirichlet_mix(mixing.alpha, prior, slots, rng)


def assign_randomly(ratios: Doubles, rng: np.random.Generator) -> Doubles:
    """Deal the ratios of each slot out in random order; slots x scheduled."""
    return rng.permuted(ratios, axis=1)


def assign_max_min(ratios: Doubles, magnitude: Doubles) -> Doubles:
    """Deal the ratios out so that min_i |h_i|^2 / q_i^2 is as large as it can be; slots x scheduled.

    Sorting both the same way does it: wherever a stronger channel holds a smaller ratio than a weaker one, exchanging
    the two does not lower the minimum.
    """
    assigned = np.empty_like(ratios)
    np.put_along_axis(assigned, np.argsort(magnitude, axis=1, kind="stable"), np.sort(ratios, axis=1), axis=1)
    return assigned


def assign_ratios(assignment: str, ratios: Doubles, magnitude: Doubles, rng: np.random.Generator) -> Doubles:
    """Assign by the named rule (Algorithm 1, line 8); slots x scheduled."""
    if assignment == "max-min":
        return assign_max_min(ratios, magnitude)
    return assign_randomly(ratios, rng)


def varying_share(square_share: float, scheduled: int, workers: int, *, poisson: bool) -> float:
    """Return how much of a worker's variation a slot carries: the variance of the mixture over that of the samples.

    Of N workers drawn without replacement with shares that add up to 1 it is (sum_i q_i^2 - 1 / N) N / (N - 1): where
    everybody sends the same share, every slot is the same. With a coin of rate r each it is (1 - r) / |N_t| of
    E[x x^T], mean and all; how many tossed heads is nobody's to know, so that does not enter. ``square_share`` is the
    mean of sum_i q_i^2, ``scheduled`` |N_t|.
    """
    if poisson:
        return (1.0 - scheduled / workers) / scheduled
    if workers == 1:
        return 0.0
    # Equal shares of all leave nothing but rounding.
    left = (square_share - 1.0 / workers) * workers / (workers - 1)
    return left if left > 1e-9 * square_share else 0.0
