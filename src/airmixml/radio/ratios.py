"""Mixing ratios: how the shares of a slot are drawn (``RATIOS``) and which worker gets which (``ASSIGNMENTS``).

Shares see neither workers nor data, and one's own are dealt out in random order. A slot is planned by its largest
share, so privacy statements hold whatever the law of the shares is. Who gets which (Algorithm 1, line 8) may follow
channels, and then tells of the schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from airmixml.arrays import Doubles, own_numbers
from airmixml.privacy.facts import Fact, RanksTell, SharesTell

if TYPE_CHECKING:
    import torch

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
        import torch  # here and below: an account needs none

        from airmixml.randomness.slot_words import uniforms

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
        from airmixml.randomness.slot_words import log_gammas

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
        import torch

        from airmixml.randomness.slot_words import uniforms

        upper = (prior / prior.sum()).cumsum(dim=0)[:-1]
        chosen = torch.searchsorted(upper, uniforms(source.words(slots, 1)), right=True)
        return torch.zeros((len(slots), len(prior)), dtype=prior.dtype, device=prior.device).scatter_(1, chosen, 1.0)


class EqualMix(Ratios):
    """The limit alpha -> infinity."""

    about = "the prior's shares, equal ones without"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        return prior.repeat(len(slots), 1)


DIRMIX: Final = DirMix()
NONMIX: Final = NonMix()
EQUALMIX: Final = EqualMix()


def draw_ratios(mixing: Mixing, scheduled: int, slots: range, source: SlotWords) -> torch.Tensor:
    """Draw the mixing ratios of the policy; slots x scheduled, not yet assigned to workers."""
    import torch

    prior = torch.tensor(mixing.prior or (1.0 / scheduled,) * scheduled, dtype=torch.float64)
    drawn: torch.Tensor = mixing.ratios_kind.draw(mixing, prior.to(source.device), slots, source)
    return drawn


class Assignment:
    """Deals the ratios of a slot out by a rule of one's own, which may look at the channels of all who send.

    Another worker in a seat may then change everybody's ratio, so that a hidden schedule hides nobody.
    """

    about: str
    follows_channels: ClassVar[bool] = True  # whether ratios depend on who sends

    def assign(self, ratios: Doubles, magnitude: Doubles, chances: Doubles) -> Doubles:
        """Return the ratios of each slot in the order of its workers.

        ``magnitude`` are their channels' amplitudes, ``chances`` uniform numbers; all have the shape slots x scheduled.
        """
        raise NotImplementedError

    def facts(self) -> tuple[Fact, ...]:
        """Return what it says of privacy."""
        return (SharesTell(),)

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        """Deal the ratios of these slots out; slots x scheduled."""
        import torch

        from airmixml.randomness.slot_words import uniforms

        chances = uniforms(source.words(slots, ratios.shape[1]))
        given: list[Doubles] = [each.cpu().numpy().copy() for each in (ratios, magnitude, chances)]
        found = own_numbers(
            lambda: self.assign(*given),
            tuple(ratios.shape),
            lambda dealt: np.sort(dealt, axis=1) == np.sort(ratios.cpu().numpy(), axis=1),
            f"mixing.assignment = {type(self).__name__}: its assign must return the ratios of each slot in another "
            "order, slots x scheduled",
        )
        return torch.from_numpy(found).to(ratios.device)


class _RandomOrder(Assignment):
    """Any worker may get any ratio."""

    about = "in random order"
    follows_channels = False

    def facts(self) -> tuple[Fact, ...]:
        return ()

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        """Shuffle them; with equal prior shares any order of our ratios is as likely as any other already."""
        from airmixml.randomness.slot_words import uniforms

        if mixing.ratios_kind.exchangeable and not mixing.prior:
            return ratios
        return ratios.gather(1, uniforms(source.words(slots, ratios.shape[1])).argsort(dim=1))


class MaxMin(Assignment):
    """The stronger a channel, the larger its ratio, so that min_i |h_i|^2 / q_i^2 is as large as it can be.

    Wherever a stronger channel holds a smaller ratio than a weaker one, exchanging the two does not lower it.
    """

    about = "the larger ratio to the stronger channel"

    def facts(self) -> tuple[Fact, ...]:
        """Return that colluders learn how others' channels rank; for all others see ``privacy.adversaries``."""
        return (RanksTell(),)

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        order = magnitude.argsort(dim=1, stable=True)
        return ratios.new_empty(ratios.shape).scatter_(1, order, ratios.sort(dim=1).values)


RANDOM: Final = _RandomOrder()
MAX_MIN: Final = MaxMin()
