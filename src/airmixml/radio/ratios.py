"""Mixing ratios: how the shares of a slot are drawn, one class for each kind, behind the registry ``RATIOS``.

Shares see neither workers nor data, and one's own are dealt out in random order. A slot is planned by its largest
share, so privacy statements hold whatever the law of the shares is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from airmixml.arrays import Doubles, own_numbers
from airmixml.randomness.slot_words import log_gammas, uniforms

if TYPE_CHECKING:
    from airmixml.randomness.slot_words import SlotWords
    from airmixml.scenario import Mixing

_SUMS_WITHIN: Final = 1e-9
_WORDS_PER_GAMMA, _WORDS_PER_FURTHER_ATTEMPT = 3, 2


class Ratios:
    """Shares made of independent uniform numbers."""

    about: str
    exchangeable = False  # whether every order of the shares is equally likely, where there is no prior

    def shares(self, chances: Doubles) -> Doubles:
        """Return shares of at least 0 that sum to 1 in each slot, from uniform numbers; both slots x scheduled."""
        raise NotImplementedError

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw the shares of some slots for a prior of shape scheduled; slots x scheduled."""
        chances = np.asarray(uniforms(source.words(slots, len(prior))).cpu(), dtype=np.float64)
        found = own_numbers(
            lambda: self.shares(chances),
            chances.shape,
            lambda shares: (shares >= 0.0).all(axis=1) & (np.abs(shares.sum(axis=1) - 1.0) <= _SUMS_WITHIN),
            f"mixing.policy = {type(self).__name__}: its shares must have the shape of the chances, be at least 0 "
            "and sum to 1 in each slot",
        )
        return torch.from_numpy(found).to(source.device)


class DirMix(Ratios):
    """q_t ~ Dirichlet(alpha p)."""

    about = "Dirichlet, with the dispersion mixing.alpha"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw gamma variates as logarithms, so that alpha = 1e-8 gives one entry of 1 and zeros, not 0/0."""
        per_slot, further = _WORDS_PER_GAMMA * len(prior), _WORDS_PER_FURTHER_ATTEMPT * len(prior)
        logarithms = log_gammas(
            mixing.alpha * prior,
            source.words(slots, per_slot).reshape(len(slots), len(prior), _WORDS_PER_GAMMA),
            lambda places, attempt: source.words_at(slots, further, places, attempt),
        )
        logarithms -= logarithms.amax(dim=1, keepdim=True)
        ratios = logarithms.exp_()
        return ratios.div_(ratios.sum(dim=1, keepdim=True))


class NonMix(Ratios):
    """The limit alpha -> 0."""

    about = "one worker has all"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw who, each with probability p_i."""
        upper = (prior / prior.sum()).cumsum(dim=0)[:-1]
        chosen = torch.searchsorted(upper, uniforms(source.words(slots, 1)), right=True)
        return torch.zeros((len(slots), len(prior)), dtype=prior.dtype, device=prior.device).scatter_(1, chosen, 1.0)


class EqualMix(Ratios):
    """The limit alpha -> infinity."""

    about = "the prior's shares, equal ones without"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Return the prior in every slot."""
        return prior.repeat(len(slots), 1)


DIRMIX: Final = DirMix()
NONMIX: Final = NonMix()
EQUALMIX: Final = EqualMix()


def draw_ratios(mixing: Mixing, scheduled: int, slots: range, source: SlotWords) -> torch.Tensor:
    """Draw the mixing ratios of the policy; slots x scheduled, not yet assigned to workers."""
    prior = torch.tensor(mixing.prior or (1.0 / scheduled,) * scheduled, dtype=torch.float64)
    drawn: torch.Tensor = mixing.ratios_kind.draw(mixing, prior.to(source.device), slots, source)
    return drawn
