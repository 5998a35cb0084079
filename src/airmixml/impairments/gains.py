"""The gain of every scheduled worker in every piece of its slots: the product of what each impairment does to it.

A worker that is to arrive with amplitude sqrt(beta) q arrives with sqrt(beta) q g, g complex and 1 on the ideal air.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Self
from zlib import crc32

import torch

from airmixml.arrays import Doubles, Integers, check_finite, rows_of, turned_over
from airmixml.impairments.fading import fades
from airmixml.impairments.frame import Frame
from airmixml.impairments.gain_laws import Error
from airmixml.randomness.slot_words import SlotWords, log_gammas, standard_normals, uniforms
from airmixml.registries import IMPAIRMENTS
from airmixml.scenario import Scenario
from airmixml.scenario.air import STAYING

_SEQUENCES: Final = 1 << 20
_GAINS_AT_ONCE: Final = 1 << 24
_GAINS_IN_CACHE: Final = 1 << 19
# Sines and cosines are rounded to float32: a turn is that much softer, so that none adds power by rounding.
_SOFTER: Final = 1.0 - 2.0**-21


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnWords:
    """Words that stay with a worker for a whole run, whatever its slot and seat: those of its devices' errors."""

    source: SlotWords
    workers: int
    names: frozenset[str]  # of the draws that take them
    _made: dict[str, torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, scenario: Scenario, source: SlotWords) -> Self:
        """Return those of a scenario's air."""
        names = frozenset(STAYING[key] for key in scenario.air.staying)
        return cls(source=source, workers=scenario.workers.count, names=names)

    def of_all(self, name: str, each: int) -> torch.Tensor:
        """Return so many words of every worker, made once for many slots; workers x each."""
        if name not in self._made:
            self._made[name] = self.source.words(range(self.workers), each, _sequence(name))
        return self._made[name]


@dataclass(frozen=True, kw_only=True)
class SeatDraws:
    """What impairments draw from and may look at, for consecutive slots, or for ``some`` seats of a single slot.

    Every impairment draws from named sequences of its own, so that none changes the draws of another.
    """

    slots: range
    frame: Frame
    workers: torch.Tensor  # who has which seat; slots x scheduled
    magnitude: torch.Tensor  # abs(h); slots x scheduled
    path_gain: torch.Tensor  # amplitude gain without fading; slots x scheduled
    source: SlotWords
    in_slot: int  # seats of a whole slot
    first_seat: int = 0  # number of the first seat that is drawn; other than 0 for a single slot alone
    own: OwnWords | None = None  # of errors that stay; None: all are drawn anew in every slot
    _kept: dict[str, torch.Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def scheduled(self) -> int:
        return self.workers.shape[1]

    def some(self, seats: slice) -> Self:
        """Return some seats of a single slot: the same draws that all of them together would give these."""
        parts = {name: getattr(self, name)[:, seats] for name in ("workers", "magnitude", "path_gain")}
        return replace(self, **parts, first_seat=seats.start)

    def uniforms(self, name: str, each: int = 1) -> torch.Tensor:
        """Return independent numbers between 0 and 1; slots x scheduled x each."""
        return uniforms(self._words(name, each))

    def normals(self, name: str, each: int = 1) -> torch.Tensor:
        """Return independent standard normal values, float32; slots x scheduled x each."""
        slots, scheduled = self.workers.shape
        values = torch.empty((slots, each, scheduled), device=self.workers.device).mT
        return standard_normals(self._words(name, -(-each // 2)), out=values)

    def complex_normals(self, name: str, each: int = 1) -> torch.Tensor:
        """Return independent CN(0, 1) values, complex64; slots x scheduled x each."""
        return torch.complex(*self.normals(name, 2 * each).mul_(math.sqrt(0.5)).chunk(2, dim=2))

    def gammas(self, name: str, shape: float, each: int = 1) -> torch.Tensor:
        """Return independent standard gamma values of one shape; slots x scheduled x each, float64."""
        seats, shapes = self._seats, torch.full((each,), shape, dtype=torch.float64, device=self.workers.device)

        def further(places: torch.Tensor, attempt: int) -> torch.Tensor:
            return self.source.words_at(seats, 2 * each, places, _sequence(f"{name}-{attempt}"))

        words = self.source.words(seats, 3 * each, _sequence(name)).view(len(seats), each, 3)
        logarithms = log_gammas(shapes, words, further)
        return logarithms.exp_().view(*self.workers.shape, each)

    def once(self, name: str, draw: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return what several impairments look at, drawn when the first of them does."""
        if name not in self._kept:
            self._kept[name] = draw()
        return self._kept[name]

    def by_block(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of each block as values of each of its pieces; slots x scheduled x pieces."""
        return columns(values, torch.tensor(self.frame.blocks, device=values.device))

    def drifting(self, each_second: torch.Tensor) -> torch.Tensor:
        """Return by how much what grows so fast, slots x scheduled x 1, has grown since its block began; x pieces."""
        return self.times(each_second, self.over_pieces(self.frame.times))

    def times(self, of_seats: torch.Tensor, of_pieces: torch.Tensor) -> torch.Tensor:
        """Return products of numbers of seats, slots x scheduled x 1, and of pieces; slots x scheduled x pieces."""
        slots, scheduled = self.workers.shape
        made = torch.empty((slots, len(of_pieces), scheduled), dtype=of_seats.dtype, device=of_seats.device).mT
        return torch.mul(of_seats, of_pieces, out=made)

    def over_pieces(self, values: Doubles) -> torch.Tensor:
        """Return numbers of the frame as gains have them, float32; same shape."""
        return torch.from_numpy(values).to(self.workers.device, torch.float32)

    def _words(self, name: str, each: int) -> torch.Tensor:
        """Return so many words of each seat, from a sequence that counts through slots and their seats, or workers.

        Seats lie side by side in memory, so that whatever is done to pieces is done to rows of many numbers.
        """
        if self.own is not None and name in self.own.names:
            words = self.own.of_all(name, each)[self.workers]
        else:
            words = self.source.words(self._seats, each, _sequence(name)).view(*self.workers.shape, each)
        return turned_over(words).mT

    @property
    def _seats(self) -> range:
        first = self.slots.start * self.in_slot + self.first_seat
        return range(first, first + len(self.slots) * self.scheduled)


def _sequence(name: str) -> int:
    return crc32(name.encode()) % _SEQUENCES


class Term(NamedTuple):
    """A number of each block that is weighted for each of its pieces."""

    number: tuple[torch.Tensor, torch.Tensor] | None  #: both parts, slots x scheduled x blocks (or x 1); None: 1
    weights: torch.Tensor  #: pieces, float32


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
        """Draw g; slots x scheduled x pieces (or x blocks, or x 1, where all of one are alike), real or complex."""
        angle = self.angle(draws)
        assert angle is not None
        return torch.complex(angle.cos(), angle.sin())

    def angle(self, draws: SeatDraws) -> torch.Tensor | None:
        """Draw phi of g = exp(j phi), which moves no power, in radians, as ``gains``; None: g is more than a turn."""
        return None

    def terms(self, draws: SeatDraws) -> list["Term"] | None:
        """Draw g of the pieces of a block as the sum of few numbers of the block; None: as ``gains`` or ``angle``."""
        return None

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
    _peaks: dict[int, torch.Tensor] = field(default_factory=dict, compare=False)  # of parts, by their first seat

    @property
    def parts(self) -> list[slice]:
        """Seats that are drawn at once: all, or some of a slot that has too many (on a CPU, for a core's cache)."""
        draws = self.draws
        every, per_seat = draws.scheduled, draws.frame.with_pilots.pieces
        at_once = max(1, _GAINS_AT_ONCE // per_seat)
        if len(draws.slots) > 1 or every <= at_once:
            return [slice(0, every)]
        if draws.workers.device.type == "cpu":
            at_once = max(1, _GAINS_IN_CACHE // per_seat)
        return [slice(first, min(first + at_once, every)) for first in range(0, every, at_once)]

    @property
    def batches(self) -> list[list[slice]]:
        """The parts, as many together as are added up at once."""
        parts, per_seat = self.parts, self.draws.frame.with_pilots.pieces
        together = max(1, _GAINS_AT_ONCE // (per_seat * (parts[0].stop - parts[0].start)))
        return [parts[first : first + together] for first in range(0, len(parts), together)]

    def of(self, seats: slice) -> torch.Tensor:
        """Return g of one of the ``parts``; slots x seats x pieces, or x 1 where all pieces are alike; complex64."""
        return self._some(seats, slice(0, self.draws.frame.pieces))

    def of_pilots(self, seats: slice) -> torch.Tensor:
        """Return g of one of the ``parts`` at the time of each pilot; slots x seats x pilots; complex64."""
        frame = self.draws.frame
        return self._some(seats, slice(frame.pieces, None)).expand(-1, -1, frame.pilot_count)

    def with_pilots(self, seats: slice) -> torch.Tensor:
        """Return g of one of the ``parts`` in every piece and then at every pilot, or x 1 where all are alike."""
        return self._some(seats, slice(0, None))

    def planes(self, seats: slice) -> torch.Tensor:
        """Return the same as real and imaginary part; 2 x slots x seats x pieces and pilots, or x 1."""
        return self._draw(seats, slice(0, None)) if len(self.parts) > 1 else both(self._all)

    def at(self, slot: torch.Tensor, seat: torch.Tensor) -> torch.Tensor:
        """Return g of single seats, given by slot and seat (shape seats); as ``with_pilots``, seats x pieces."""
        if len(self.parts) == 1:
            return self._all[slot, seat]
        width = self.draws.frame.with_pilots.pieces
        found = torch.empty((len(slot), width), dtype=torch.complex64, device=slot.device)
        for part in self.parts:
            here = (seat >= part.start) & (seat < part.stop)
            if bool(here.any()):
                found[here] = self.with_pilots(part)[slot[here], seat[here] - part.start].expand(-1, width)
        return found

    @cached_property
    def peaks(self) -> torch.Tensor:
        """The largest abs(g)^2 of each seat in any piece or pilot, which silence takes along; slots x scheduled."""
        for seats in self.parts:
            if seats.start not in self._peaks:
                self.of_pilots(seats)
        return torch.cat([self._peaks[seats.start] for seats in self.parts], dim=1)

    def _some(self, seats: slice, wanted: slice) -> torch.Tensor:
        """Return g of one of the ``parts`` in some of all pieces and pilots, counted in that order."""
        if len(self.parts) > 1:
            return torch.complex(*self._draw(seats, wanted))
        return self._all if self._all.shape[2] == 1 else self._all[:, :, wanted]

    @cached_property
    def _all(self) -> torch.Tensor:
        return torch.complex(*self._draw(slice(0, self.draws.scheduled), slice(0, None)))

    def _draw(self, seats: slice, wanted: slice) -> torch.Tensor:
        """Draw pieces and pilots together, in the order of time; return both parts of some, pilots last; keep peaks."""
        draws, frame = self.draws, self.draws.frame
        if len(draws.slots) == 1:
            draws = draws.some(seats)
        drawn = draw_planes(self.scenario, replace(draws, frame=frame.with_pilots), frame.pieces_then_pilots[wanted])
        self._peaks[seats.start] = drawn[1]
        return drawn[0]


def draw_gains(scenario: Scenario, draws: SeatDraws) -> torch.Tensor:
    """Draw g of every seat; slots x scheduled x pieces, or x 1 where all pieces are alike; complex64."""
    return draw_with_peaks(scenario, draws)[0]


def draw_with_peaks(
    scenario: Scenario, draws: SeatDraws, wanted: Integers | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return g of every seat in all pieces or those wanted, and its largest abs(g)^2 in any; slots x scheduled."""
    planes, peaks = draw_planes(scenario, draws, wanted)
    return torch.complex(planes[0], planes[1]), peaks


def draw_planes(
    scenario: Scenario, draws: SeatDraws, wanted: Integers | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same with real and imaginary part apart, 2 x the shape of g: a CPU computes with these faster."""
    frame, ones = draws.frame, torch.ones((*draws.workers.shape, 1), dtype=torch.complex64, device=draws.workers.device)
    factors, angles, terms = [ones], [], None
    for each in impairments_of(scenario):
        angle = each.angle(draws) if hasattr(each, "angle") else None
        mixed = each.terms(draws) if angle is None and terms is None and hasattr(each, "terms") else None
        if angle is not None:
            angles.append(angle.float())
        elif mixed is not None:
            terms = mixed
        else:
            factors.append(each.gains(draws).to(torch.complex64))
    gains = _joined(torch.mul, factors, frame)
    real, imag = both(gains)
    if terms is not None:
        of_blocks = gains.shape[2] in (1, frame.block_count)
        by_terms = mix(terms, frame, real, imag) if of_blocks else mix(terms, frame, *both(ones))
        real, imag = by_terms if of_blocks else both(_joined(torch.mul, [gains, torch.complex(*by_terms)], frame))
    peaks = real.square().addcmul_(imag, imag).amax(dim=2).double()
    check_finite("gains", peaks=peaks)
    if angles:
        real, imag = _turned(real, imag, _joined(torch.add, angles, frame), frame)
    if real.shape[2] not in (1, frame.pieces):
        real, imag = draws.by_block(real), draws.by_block(imag)
    if wanted is not None and real.shape[2] > 1:
        places = torch.from_numpy(wanted).to(real.device)
        real, imag = columns(real, places), columns(imag, places)
    return torch.stack([real.mT, imag.mT]).mT, peaks


def _turned(
    real: torch.Tensor, imag: torch.Tensor, angle: torch.Tensor, frame: Frame
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both parts of gains times exp(j angle)."""
    cos, sin = angle.cos().mul_(_SOFTER), angle.sin().mul_(_SOFTER)
    if cos.shape[2] == real.shape[2]:
        return (real * cos).addcmul_(imag, sin, value=-1.0), (imag * cos).addcmul_(real, sin)
    along, across = ([_joined(torch.mul, [part, turn], frame) for turn in (cos, sin)] for part in (real, imag))
    return along[0] - across[1], across[0] + along[1]


def both(gains: torch.Tensor) -> torch.Tensor:
    """Return real and imaginary part of gains, slots x seats x pieces, with seats side by side in memory; 2 x these."""
    return torch.stack([gains.mT.real, gains.mT.imag]).mT


def mix(terms: list[Term], frame: Frame, real: torch.Tensor, imag: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both parts of sums of terms, slots x seats x pieces, times a factor with parts of x blocks, or x 1."""
    slots, seats = real.shape[:2]
    made = real.new_empty((2, slots, frame.pieces, seats)).mT
    whole = frame.pieces // frame.per_block
    first = whole * frame.per_block
    for count, (number, weights) in enumerate(terms):
        parts = real, imag
        if number is not None:
            parts = (
                (real * number[0]).addcmul_(imag, number[1], value=-1.0),
                (real * number[1]).addcmul_(imag, number[0]),
            )
        for part, out in zip(parts, made, strict=True):
            of_blocks = part.expand(-1, -1, frame.block_count)
            for here, values, share in (
                (
                    torch.unflatten(out[:, :, :first], 2, (whole, -1)),
                    of_blocks[:, :, :whole, None],
                    weights[:first].view(whole, -1),
                ),
                (out[:, :, first:], of_blocks[:, :, whole:], weights[first:]),
            ):
                if here.numel():
                    here.addcmul_(values, share) if count else torch.mul(values, share, out=here)
    return made[0], made[1]


def _joined(join: Callable[..., torch.Tensor], parts: list[torch.Tensor], frame: Frame) -> torch.Tensor:
    """Return all parts joined; what a seat has in a slot, or in a block, is joined before what it has in each piece."""
    total, *others = sorted(parts, key=lambda part: part.shape[2])
    for part in others:
        if total.shape[2] in (1, part.shape[2]):
            total = join(part, total)
            continue
        made, whole = torch.empty_like(part), frame.pieces // frame.per_block
        first = whole * frame.per_block
        of_pieces, out = (torch.unflatten(each[:, :, :first], 2, (whole, -1)) for each in (part, made))
        join(of_pieces, total[:, :, :whole, None], out=out)
        join(part[:, :, first:], total[:, :, whole:], out=made[:, :, first:])
        total = made
    return total


def columns(values: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return some columns of slots x seats x columns, which lie as rows of seats in memory."""
    return rows_of(values.mT, chosen).mT


def follows_worker(scenario: Scenario) -> bool:
    """Return whether some gain depends on who sits in a seat."""
    return any(each.follows_worker for each in impairments_of(scenario))


def staying_errors(scenario: Scenario) -> frozenset[str]:
    """Return keys of the errors that do stay with a worker: where channels fade, how it moves does not."""
    found = scenario.air.staying
    return found - {"speed_metres_per_second"} if fades(scenario) else found


def phases_stay(scenario: Scenario) -> bool:
    """Return whether some phase or clock stays with a worker, by which a receiver knows it again."""
    return bool(staying_errors(scenario) - {"amplitude_error_db"})
