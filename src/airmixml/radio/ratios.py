"""Mixing ratios q_t ~ Dirichlet(alpha p), Eq. (Dirichlet), its two limits NonMix and EqualMix, and who gets which."""

import torch

from airmixml.randomness.distributions import log_gammas, uniforms
from airmixml.randomness.slot_words import SlotWords
from airmixml.scenario import Mixing

_WORDS_PER_GAMMA = 3
_WORDS_PER_FURTHER_ATTEMPT = 2


def uniform_prior(scheduled: int) -> torch.Tensor:
    """Return p_t = 1/|N_t| for all; shape scheduled."""
    return torch.full((scheduled,), 1.0 / scheduled, dtype=torch.float64)


def dirichlet_mix(alpha: float, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
    """DirMix(alpha): draw q_t ~ Dirichlet(alpha p); slots x scheduled, rows sum to 1.

    The gamma variates behind it are kept as logarithms, so that alpha = 1e-8 gives one entry of 1 and zeros, not 0/0.
    """
    per_slot, further = _WORDS_PER_GAMMA * len(prior), _WORDS_PER_FURTHER_ATTEMPT * len(prior)
    logarithms = log_gammas(
        alpha * prior,
        source.words(slots, per_slot).reshape(len(slots), len(prior), _WORDS_PER_GAMMA),
        lambda places, attempt: source.words_at(slots, further, places, attempt),
    )
    logarithms -= logarithms.amax(dim=1, keepdim=True)
    ratios = logarithms.exp_()
    return ratios.div_(ratios.sum(dim=1, keepdim=True))


def non_mix(prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
    """NonMix, the limit alpha -> 0: one worker, drawn with probability p_i, has all; slots x scheduled."""
    upper = (prior / prior.sum()).cumsum(dim=0)[:-1]
    chosen = torch.searchsorted(upper, uniforms(source.words(slots, 1)), right=True)
    return torch.zeros((len(slots), len(prior)), dtype=prior.dtype, device=prior.device).scatter_(1, chosen, 1.0)


def equal_mix(prior: torch.Tensor, slots: range) -> torch.Tensor:
    """EqualMix, the limit alpha -> infinity: q_t = p_t; slots x scheduled."""
    return prior.repeat(len(slots), 1)


def draw_ratios(mixing: Mixing, scheduled: int, slots: range, source: SlotWords) -> torch.Tensor:
    """Draw the mixing ratios of the policy; slots x scheduled, not yet assigned to workers."""
    prior = torch.tensor(mixing.prior, dtype=torch.float64) if mixing.prior else uniform_prior(scheduled)
    prior = prior.to(source.device)
    if mixing.policy == "nonmix":
        return non_mix(prior, slots, source)
    if mixing.policy == "equalmix":
        return equal_mix(prior, slots)
    return dirichlet_mix(mixing.alpha, prior, slots, source)


def assign_randomly(ratios: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
    """Deal the ratios of each slot out in random order; slots x scheduled."""
    order = uniforms(source.words(slots, ratios.shape[1])).argsort(dim=1)
    return ratios.gather(1, order)


def assign_max_min(ratios: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """Deal the ratios out so that min_i |h_i|^2 / q_i^2 is as large as it can be; slots x scheduled.

    Sorting both the same way does it: wherever a stronger channel holds a smaller ratio than a weaker one, exchanging
    the two does not lower the minimum.
    """
    order = magnitude.argsort(dim=1, stable=True)
    return torch.empty_like(ratios).scatter_(1, order, ratios.sort(dim=1).values)


def assign_ratios(
    mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
) -> torch.Tensor:
    """Assign by the scenario's rule (Algorithm 1, line 8); slots x scheduled.

    With equal prior shares any order of the ratios is as likely as any other: there is nothing left to shuffle.
    """
    if mixing.assignment == "max-min":
        return assign_max_min(ratios, magnitude)
    return assign_randomly(ratios, slots, source) if mixing.prior else ratios


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
