"""Which scheduled worker gets which ratio (Algorithm 1, line 8): one class for each rule, behind ``ASSIGNMENTS``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from airmixml.arrays import Doubles, own_numbers
from airmixml.privacy.facts import Fact, RanksTell, SharesTell

if TYPE_CHECKING:
    import torch

    from airmixml.randomness.slot_words import SlotWords
    from airmixml.scenario import Mixing


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


class RandomOrder(Assignment):
    """Any worker may get any ratio."""

    about = "in random order"
    follows_channels = False

    def facts(self) -> tuple[Fact, ...]:
        """Return none: who gets which ratio says nothing."""
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
        """Return that colluders learn how others' channels rank; for all others see ``privacy.views``."""
        return (RanksTell(),)

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        """Sort both."""
        order = magnitude.argsort(dim=1, stable=True)
        return ratios.new_empty(ratios.shape).scatter_(1, order, ratios.sort(dim=1).values)


RANDOM: Final = RandomOrder()
MAX_MIN: Final = MaxMin()
