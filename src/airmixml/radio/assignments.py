"""Which scheduled worker gets which ratio (Algorithm 1, line 8): one class for each rule, behind ``ASSIGNMENTS``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from airmixml.arrays import Doubles
from airmixml.errors import PluginError
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

        ``magnitude`` are the amplitudes of the workers' channels, ``chances`` uniform random numbers; all have the
        shape slots x scheduled.
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

        from airmixml.randomness.distributions import uniforms

        chances = uniforms(source.words(slots, ratios.shape[1]))
        given: list[Doubles] = [each.cpu().numpy().copy() for each in (ratios, magnitude, chances)]
        try:
            found = np.asarray(self.assign(*given), dtype=np.float64)
        except (TypeError, ValueError, NotImplementedError):
            found = np.full((), np.nan)
        if found.shape != tuple(ratios.shape) or np.any(np.sort(found, axis=1) != np.sort(ratios.cpu(), axis=1)):
            raise PluginError(
                f"mixing.assignment = {type(self).__name__}: its assign must return the ratios of each slot in another "
                "order, slots x scheduled"
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
        from airmixml.radio.scheduling import assign_randomly

        shuffle = mixing.prior or not mixing.ratios_kind.exchangeable
        return assign_randomly(ratios, slots, source) if shuffle else ratios


class MaxMin(Assignment):
    """The stronger a channel, the larger its ratio."""

    about = "the larger ratio to the stronger channel"

    def facts(self) -> tuple[Fact, ...]:
        """Return that colluders learn how others' channels rank; for all others see ``privacy.views``."""
        return (RanksTell(),)

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        """Sort both."""
        from airmixml.radio.scheduling import assign_max_min

        return assign_max_min(ratios, magnitude)


RANDOM: Final = RandomOrder()
MAX_MIN: Final = MaxMin()
