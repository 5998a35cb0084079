"""The gain of every scheduled worker in every piece of its slots: the product of what each impairment does to it.

A worker that is to arrive with amplitude sqrt(beta) q arrives with sqrt(beta) q g, g complex and 1 on the ideal air.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any, ClassVar, Final, Self
from zlib import crc32

import torch

from airmixml.impairments.frame import Frame
from airmixml.impairments.gain_laws import Error
from airmixml.randomness.distributions import normal_pairs, uniforms
from airmixml.randomness.slot_words import SlotWords
from airmixml.registries import IMPAIRMENTS
from airmixml.scenario import Scenario

_SEQUENCES: Final = 1 << 20
_GAINS_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True, kw_only=True)
class SeatDraws:
    """What impairments draw from and may look at, for consecutive slots, or for some seats of a single slot.

    A slot of very many workers is drawn some seats at a time (``some``). Every impairment draws from sequences of its
    own, named in ``normals`` and ``uniforms``, so that none changes the draws of another.
    """

    slots: range
    frame: Frame
    workers: torch.Tensor  # who has which seat; slots x scheduled
    magnitude: torch.Tensor  # abs(h); slots x scheduled
    path_gain: torch.Tensor  # amplitude gain without fading; slots x scheduled
    source: SlotWords
    in_slot: int  # seats of a whole slot
    first_seat: int = 0  # number of the first seat that is drawn; other than 0 for a single slot alone

    @property
    def scheduled(self) -> int:
        """Seats of a slot that are drawn."""
        return self.workers.shape[1]

    def some(self, seats: slice) -> Self:
        """Return some seats of a single slot: the same draws that all of them together would give these."""
        parts = {name: getattr(self, name)[:, seats] for name in ("workers", "magnitude", "path_gain")}
        return replace(self, **parts, first_seat=seats.start)

    def uniforms(self, name: str, each: int = 1) -> torch.Tensor:
        """Return independent numbers between 0 and 1; slots x scheduled x each."""
        return uniforms(self._words(name, each))

    def normals(self, name: str, each: int = 1) -> torch.Tensor:
        """Return independent standard normal values, float64; slots x scheduled x each."""
        return torch.cat(normal_pairs(self._words(name, -(-each // 2))), dim=2)[:, :, :each]

    def complex_normals(self, name: str, each: int = 1) -> torch.Tensor:
        """Return independent CN(0, 1) values; slots x scheduled x each."""
        return torch.complex(*normal_pairs(self._words(name, each))).mul_(math.sqrt(0.5))

    def by_block(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of each block as values of each of its pieces; slots x scheduled x pieces."""
        return values[:, :, torch.tensor(self.frame.blocks, device=values.device)]

    @property
    def seconds(self) -> torch.Tensor:
        """Middle of each piece, counted from the start of its block; shape pieces."""
        return torch.tensor(self.frame.seconds, dtype=torch.float64, device=self.workers.device)

    def _words(self, name: str, each: int) -> torch.Tensor:
        """Return so many words of each seat, from a sequence that counts through slots and their seats."""
        first = self.slots.start * self.in_slot + self.first_seat
        seats = range(first, first + len(self.slots) * self.scheduled)
        words = self.source.words(seats, each, crc32(name.encode()) % _SEQUENCES)
        return words.reshape(len(self.slots), self.scheduled, each)


class Impairment:
    """One cause for gains other than 1; by default one that adds no power, for any worker."""

    about: ClassVar[str]  #: what it is, in one line
    #: Whether its gains depend on who sits in a seat, which a hidden schedule must not show.
    follows_worker: Any = False
    #: Of ``air``, whose number says how large it is; 0: there is none. Others override ``of``.
    key: ClassVar[str] = ""

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it as the scenario's air has it; None where the air does not."""
        size = getattr(scenario.air, cls.key)
        return cls(size) if size else None  # type: ignore[call-arg]

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw g; slots x scheduled x pieces (or x 1 where it is the same for all), real or complex."""
        raise NotImplementedError

    def largest_power_gain(self, failure: float) -> float:
        """Return what one abs(g)^2 exceeds with at most that probability."""
        return 1.0

    def law(self, frame: Frame | None = None) -> Error | None:
        """Return the law of abs(g) where it can be joined with those of others, for a tighter bound on all together."""
        return None


@lru_cache(maxsize=64)
def impairments_of(scenario: Scenario) -> tuple[Any, ...]:
    """Return what impairs the gains of a scenario, in the order of the registry."""
    air = scenario.air
    if air.is_ideal:
        return ()
    names = (*IMPAIRMENTS.own, *air.also)
    found = (IMPAIRMENTS.load(name).of(scenario) for name in names)
    return tuple(each for each in found if each is not None)


@dataclass(frozen=True, kw_only=True)
class SeatGains:
    """g of every seat of consecutive slots, kept where they are few, else made again whenever they are asked for."""

    scenario: Scenario
    draws: SeatDraws

    @property
    def parts(self) -> list[slice]:
        """Seats that are drawn at once: all, or some of a slot that has too many."""
        draws = self.draws
        per_seat = len(draws.slots) * draws.frame.with_pilots.pieces
        at_once = draws.scheduled if len(draws.slots) > 1 else max(1, _GAINS_AT_ONCE // per_seat)
        return [slice(first, first + at_once) for first in range(0, draws.scheduled, at_once)]

    def of(self, seats: slice) -> torch.Tensor:
        """Return g of one of the ``parts``; slots x seats x pieces, or x 1 where all pieces are alike; complex128."""
        return self.with_pilots(seats)[:, :, : self.draws.frame.pieces]

    def of_pilots(self, seats: slice) -> torch.Tensor:
        """Return g of one of the ``parts`` at the time of each pilot; slots x seats x pilots; complex128."""
        frame, gains = self.draws.frame, self.with_pilots(seats)
        return gains.expand(-1, -1, frame.pieces + frame.pilot_count)[:, :, frame.pieces :]

    def with_pilots(self, seats: slice) -> torch.Tensor:
        """Return g of one of the ``parts`` in every piece and then at every pilot, or x 1 where all are alike."""
        return self._all if len(self.parts) == 1 else self._draw(self.draws.some(seats))

    def at(self, slot: torch.Tensor, seat: torch.Tensor) -> torch.Tensor:
        """Return g of single seats, given by slot and seat (shape seats); as ``with_pilots``, seats x pieces."""
        if len(self.parts) == 1:
            return self._all[slot, seat]
        width = self.draws.frame.with_pilots.pieces
        found = torch.empty((len(slot), width), dtype=torch.complex128, device=slot.device)
        for part in self.parts:
            here = (seat >= part.start) & (seat < part.stop)
            if bool(here.any()):
                found[here] = self.with_pilots(part)[slot[here], seat[here] - part.start].expand(-1, width)
        return found

    @cached_property
    def peaks(self) -> torch.Tensor:
        """The largest abs(g)^2 of each seat in any piece or pilot, which silence takes along; slots x scheduled."""
        return torch.cat([self.with_pilots(seats).abs().square().amax(dim=2) for seats in self.parts], dim=1)

    @cached_property
    def _all(self) -> torch.Tensor:
        return self._draw(self.draws)

    def _draw(self, draws: SeatDraws) -> torch.Tensor:
        """Draw pieces and pilots together, in the order of time, and put pilots last."""
        gains = draw_gains(self.scenario, replace(draws, frame=draws.frame.with_pilots))
        if gains.shape[2] == 1:
            return gains
        return gains[:, :, torch.tensor(draws.frame.pieces_then_pilots, device=gains.device)]


def draw_gains(scenario: Scenario, draws: SeatDraws) -> torch.Tensor:
    """Draw g of every seat; slots x scheduled x pieces, or x 1 where all pieces are alike; complex128."""
    ones = torch.ones((len(draws.slots), draws.scheduled, 1), dtype=torch.complex128, device=draws.workers.device)
    return reduce(lambda gain, each: gain * each.gains(draws), impairments_of(scenario), ones)


def follows_worker(scenario: Scenario) -> bool:
    """Return whether some gain depends on who sits in a seat."""
    return any(each.follows_worker for each in impairments_of(scenario))
