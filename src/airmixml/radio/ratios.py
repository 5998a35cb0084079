"""Mixing ratios: how the shares of a slot are drawn, one class for each kind, behind the registry ``RATIOS``.

Shares see neither workers nor data, and one's own are dealt out in random order. A slot is planned by its largest
share, so privacy statements hold whatever the law of the shares is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.errors import PluginError
from airmixml.radio.scheduling import dirichlet_mix, equal_mix, non_mix
from airmixml.randomness.distributions import uniforms

if TYPE_CHECKING:
    from airmixml.randomness.slot_words import SlotWords
    from airmixml.scenario import Mixing

_SUMS_WITHIN: Final = 1e-9


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
        try:
            found = np.asarray(self.shares(chances), dtype=np.float64)
        except (TypeError, ValueError):
            found = np.full((), np.nan)
        if found.shape != chances.shape or not np.all(
            (found >= 0.0).all(axis=1) & (np.abs(found.sum(axis=1) - 1.0) <= _SUMS_WITHIN)
        ):
            raise PluginError(
                f"mixing.policy = {type(self).__name__}: its shares must have the shape of the chances, be at least 0 "
                "and sum to 1 in each slot"
            )
        return torch.from_numpy(found).to(source.device)


class DirMix(Ratios):
    """Dirichlet(alpha p)."""

    about = "Dirichlet, with the dispersion mixing.alpha"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw them."""
        return dirichlet_mix(mixing.alpha, prior, slots, source)


class NonMix(Ratios):
    """The limit alpha -> 0."""

    about = "one worker has all"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw who."""
        return non_mix(prior, slots, source)


class EqualMix(Ratios):
    """The limit alpha -> infinity."""

    about = "the prior's shares, equal ones without"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Return the prior in every slot."""
        return equal_mix(prior, slots)


DIRMIX: Final = DirMix()
NONMIX: Final = NonMix()
EQUALMIX: Final = EqualMix()
