"""Whom the samples are to be hidden from. Each adversary states what it knows, and so which mechanism it faces."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from airmixml.errors import PrivacyError
from airmixml.privacy.design import Design
from airmixml.privacy.loose_bound import slot_squared_shift
from airmixml.privacy.mechanism import GaussianSlots
from airmixml.units import dbm_to_watts


@dataclass(frozen=True, kw_only=True)
class Adversary(ABC):
    """Somebody who wants to learn a worker's sample and already knows those of all others.

    A subclass is a frozen dataclass, so that what holds against it is computed once.

    Attributes:
        name: what scenarios and statements call it.
        about: who it is, in one line.
        knows_schedule: whether it knows who sent in which slot.
        own_receiver: whether it hears the workers itself, instead of getting what the server received.
        colluders: workers who tell it their samples and slots.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    knows_schedule: ClassVar[bool] = False
    own_receiver: ClassVar[bool] = False
    colluders: int = 0

    def __post_init__(self) -> None:
        if self.colluders < 0:
            raise PrivacyError(f"colluders = {self.colluders}: must be at least 0")

    @classmethod
    def of(cls, scenario: Any, power_gain: Callable[[float], float]) -> Self:
        """Return the adversary that a scenario describes.

        Args:
            scenario: an ``airmixml.Scenario``, which this room does not know.
            power_gain: gives the power gain without fading of a channel of so many metres.
        """
        return cls(colluders=scenario.privacy.colluders)

    @property
    @abstractmethod
    def knows(self) -> str:
        """What it knows and receives, in words."""

    @abstractmethod
    def why(self, design: Design) -> str:
        """Why its epsilon follows, in words."""

    @abstractmethod
    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots as it sees them."""

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """Every description of the slots that is valid for it, ``mechanism`` first; the least epsilon of them holds."""
        return (self.mechanism(design, adjacency),)

    def noise_watts(self, design: Design) -> float:
        """The noise that hides a worker from it: that of the server's receiver, unless it has its own."""
        return design.noise_watts


@dataclass(frozen=True, kw_only=True)
class Server(Adversary):
    """The edge server: knows schedule, ratios and channels, so nothing hides when a worker sent.

    Workers who collude with it tell it their own samples. Differential privacy grants every adversary all samples but
    one, so they change nothing here.
    """

    name = "server"
    about = "the server itself, which knows the schedule, the ratios and the channels"
    knows_schedule = True

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        helped = f", with the samples of {self.colluders:,} colluding workers" if self.colluders else ""
        return f"all mixtures, the schedule, the ratios and the channels{helped}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        return _known_in_words(design)

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The worst worker's own slots, one Gaussian mechanism."""
        return _known_schedule(design, adjacency, design.sensitivity.squared_move(adjacency, "none"))


@dataclass(frozen=True, kw_only=True)
class Release(Adversary):
    """Anybody who gets the mixtures but no word on who was scheduled when.

    Colluding workers know their own slots. The others are then a sample of the N - k workers who do not collude, at a
    rate of at most |N_t| / (N - k). Where ratios follow channels (max-min), a colluder's own ratio tells more than
    that, and there is no credit.
    """

    name = "release"
    about = "anybody who gets the mixtures but does not know who was scheduled when"

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        return f"all mixtures, and no schedule{_helped(self.colluders)}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        return _credit_in_words(design, self.colluders)

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """The slots with a hidden schedule, and the worst worker's own: who knows less does not learn more."""
        own = self.mechanism(design, adjacency)
        if own.sampling == "none" and _schedule_is_told(design, self.colluders):
            return (own,)
        move = design.sensitivity.squared_move(adjacency, "none" if design.everybody_sends else "without-replacement")
        known = _as_if_known(_before_the_draw(design, adjacency), adjacency, move, self.colluders)
        if adjacency == "remove-one" or own.sampling != "poisson":
            return own, known
        two_steps = replace(self.mechanism(design, "remove-one"), steps=2)
        return own, known, replace(two_steps, why=f"{own.why}; a replacement is a removal and an addition")

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots with a hidden schedule, or the worst worker's own where it is not hidden."""
        if _schedule_is_told(design, self.colluders):
            return _as_if_known(design, adjacency, design.sensitivity.squared_move(adjacency, "none"), self.colluders)
        move = design.sensitivity.squared_move(adjacency, "none" if design.everybody_sends else design.sampling)
        return _hidden_schedule(design, adjacency, self.colluders, move)


@dataclass(frozen=True, kw_only=True)
class Eavesdropper(Adversary):
    """Somebody with a receiver of their own near the workers, who knows no schedule.

    Workers invert their channel to the server, not to the eavesdropper, so it hears each with the power that it sends,
    the farthest from the server loudest, and with a phase of its own. When somebody else takes a worker's seat its
    reception may therefore move by the sum of both amplitudes, twice the largest norm.

    Attributes:
        gain: power gain of its best channel, all antennas together; None if fading leaves it without a bound.
        own_noise_watts: noise power per complex symbol at each of its antennas.
    """

    name = "eavesdropper"
    about = "somebody with a receiver near the workers, who does not know who was scheduled when"
    own_receiver = True
    gain: float | None
    own_noise_watts: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.own_noise_watts < math.inf:
            raise PrivacyError(f"own_noise_watts = {self.own_noise_watts:g}: must be finite and above 0")

    @classmethod
    def of(cls, scenario: Any, power_gain: Callable[[float], float]) -> Self:
        """Return the eavesdropper of a scenario; nobody receives more than was sent, however near it comes."""
        privacy = scenario.privacy
        gain = min(privacy.eavesdropper_antennas * power_gain(privacy.eavesdropper_distance_metres), 1.0)
        return cls(
            gain=gain if scenario.radio.fading == "none" else None,
            own_noise_watts=dbm_to_watts(privacy.eavesdropper_noise_dbm),
            colluders=privacy.colluders,
        )

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        return f"its own reception of every slot, and no schedule{_helped(self.colluders)}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        if self.gain is None:
            return "fading puts no bound on how well it hears a worker"
        louder = self.gain * max(design.sent_watts) / max(design.received_watts)
        credit = _credit_in_words(design, self.colluders)
        return f"it may hear a worker with {louder:,.4g} times the power that the server does; {credit}"

    def noise_watts(self, _design: Design) -> float:
        """The noise at each of its antennas."""
        return self.own_noise_watts

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """The slots with a hidden schedule, and the worst worker's own: who knows less does not learn more."""
        own, sensitivity = self.mechanism(design, adjacency), design.sensitivity
        if own.sampling == "none" and _schedule_is_told(design, self.colluders):
            return (own,)
        move = sensitivity.replacement if adjacency == "replace-one" else sensitivity.largest_move
        return own, _as_if_known(_before_the_draw(self._heard(design), adjacency), adjacency, move, self.colluders)

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots as heard from beside the worker that sends loudest."""
        heard, sensitivity = self._heard(design), design.sensitivity
        if _schedule_is_told(design, self.colluders):
            return _as_if_known(heard, adjacency, sensitivity.squared_move(adjacency, "none"), self.colluders)
        return _hidden_schedule(heard, adjacency, self.colluders, sensitivity.largest_move)

    def _heard(self, design: Design) -> Design:
        """Return the design with what this receiver has in place of what the server has: its power, its noise."""
        if self.gain is None:
            raise PrivacyError(
                "privacy.adversary = 'eavesdropper': fading puts no bound on how well it hears a worker, so nothing "
                "can be certified; use radio.fading = none"
            )
        worst = design.worst_sent_watts
        return replace(
            design,
            received_watts=tuple(self.gain * value for value in design.sent_watts),
            worst_received_watts=None if worst is None else self.gain * worst,
            noise_watts=self.own_noise_watts,
        )


def _helped(colluders: int) -> str:
    return f", but the slots and samples of {colluders:,} colluding workers" if colluders else ""


def _schedule_is_told(design: Design, colluders: int) -> bool:
    return design.power_tells_schedule or (design.ratios_tell_ranks and colluders > 0)


def _before_the_draw(design: Design, adjacency: str) -> Design:
    """Return the design as before a run where neighbours do not keep the schedule that was drawn.

    A replaced sample stays in its worker's seats. A removed worker's seats go to others, who may send louder and whose
    shares may be larger than its own were, so that only bounds for any worker hold.
    """
    if adjacency == "replace-one":
        return design
    return replace(design, worst_received_watts=None, worst_sent_watts=None, worst_participations=None)


def _known_schedule(design: Design, adjacency: str, squared_move: float) -> GaussianSlots:
    """Return the slots of the worst worker: those it had, or the most and strongest it can have."""
    every = GaussianSlots(
        squared_shifts=_squared_shifts(design, design.received_watts, squared_move),
        counts=design.counts,
        adjacency=adjacency,
        squared_move=squared_move,
        composed=design.participations,
        why=_known_in_words(design),
    )
    if design.worst_received_watts is None:
        total, given, failure = every.worst(design.participations), _any_schedule(design), design.schedule_failure
    else:
        (total,) = _squared_shifts(design, (design.worst_received_watts,), squared_move)
        given, failure = "the schedule that was drawn", 0.0
    return replace(every, squared_shifts=(total,), counts=(1,), given=given, schedule_failure=failure)


def _as_if_known(design: Design, adjacency: str, squared_move: float, colluders: int) -> GaussianSlots:
    """Return the slots of the worst worker for an adversary that was not told the schedule."""
    why = f"{_composed_in_words(design)} compose as if the schedule were known"
    if _schedule_is_told(design, colluders):
        why = f"{_credit_in_words(design, colluders).partition(', so ')[0]}, so {why}"
    return replace(_known_schedule(design, adjacency, squared_move), why=why)


def _squared_shifts(design: Design, watts: tuple[float, ...], squared_move: float) -> tuple[float, ...]:
    """Return epsilon_t(2) of slots in which a share of 1 is received that strongly."""
    return tuple(slot_squared_shift(1.0, watts, design.noise_watts, squared_move).tolist())


def _any_schedule(design: Design) -> str:
    return "a random schedule" if design.schedule_failure or not design.max_participations else "any schedule"


def _composed_in_words(design: Design) -> str:
    drawn = design.worst_received_watts is not None
    return f"{'the' if drawn else 'up to'} {design.participations:,} slots of {'the worst' if drawn else 'one'} worker"


def _known_in_words(design: Design) -> str:
    tense = "are" if design.worst_received_watts is None else "were"
    return f"{_composed_in_words(design)} compose, and it is known which they {tense}"


def _hidden_schedule(design: Design, adjacency: str, colluders: int, squared_move: float) -> GaussianSlots:
    """Return the slots as samples of the workers that do not collude.

    The ratios of a slot are drawn without regard to data and dealt to its seats. Putting worker j in the place of
    worker i moves a mixture by at most max q times the distance of two samples, also where seats follow channels
    (max-min): if j belongs higher up, at the seat with ratio q_b, the workers between move down, and the difference is
    q_b times (a convex combination of x_i and the samples between, minus x_j).

    With a limit on participations a *round*, in which no worker sends twice, is one sample of all its seats; the
    worker's slot in it is at most the strongest one.
    """
    others = design.workers - colluders
    if others < 1:
        raise PrivacyError(f"privacy.colluders = {colluders}: must be fewer than the {design.workers} workers")
    seats, rounds = design.round_length * design.scheduled, design.rounds
    if seats >= others:  # nobody is left to take a seat: a removed worker falls silent
        squared_move = max(squared_move, design.sensitivity.squared_move(adjacency, "none"))
    slots = GaussianSlots(
        squared_shifts=_squared_shifts(design, design.received_watts, squared_move),
        counts=design.counts,
        adjacency=adjacency,
        squared_move=squared_move,
        composed=rounds,
        given=_any_schedule(design) if seats >= others else "a random schedule",
        why=_credit_in_words(design, colluders),
    ).strongest(rounds)
    return slots if seats >= others else replace(slots, sampling=design.sampling, sampled=seats, population=others)


def _credit_in_words(design: Design, colluders: int) -> str:
    others = design.workers - colluders
    if design.power_tells_schedule:
        return "received power may tell who was scheduled, so there is no credit for sampling"
    if design.ratios_tell_ranks and colluders:
        return "the ratios of colluding workers tell of the others' channels, so there is no credit for sampling"
    if design.max_participations:
        seats = min(design.round_length * design.scheduled, others)
        return f"a round of {design.round_length:,} slots is one hidden sample of {seats:,} in {others:,} workers"
    if design.scheduled >= others:
        return "no worker is left out of a slot, so sampling hides nobody"
    return f"each slot is a hidden sample of {design.scheduled:,} in {others:,} workers"
