"""Whom the samples are to be hidden from. Each adversary states what it knows, and so which mechanism it faces."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from airmixml.errors import PrivacyError
from airmixml.privacy.design import Design
from airmixml.privacy.loose_bound import slot_squared_shift
from airmixml.privacy.mechanism import GaussianSlots, require
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
        require(self.colluders >= 0, f"colluders = {self.colluders}: must be at least 0")

    @classmethod
    def of(cls, scenario: Any, power_gain: Callable[[float], float]) -> Self:
        """Return the adversary that an ``airmixml.Scenario``, which this room does not know, describes.

        ``power_gain`` gives the power gain without fading of a channel of so many metres.
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
        """The noise that hides a worker from it: in the server's reception, unless it has a receiver of its own."""
        return design.in_workers_noise().noise_watts


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
        return _known_in_words(design.in_workers_noise())

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The worst worker's own slots, one Gaussian mechanism; it has all antennas, not only the chosen one."""
        heard = design.at_server().in_workers_noise()
        known = known_schedule(heard, adjacency, design.sensitivity.squared_move(adjacency, "none"))
        return replace(known, gain_failure=max(known.gain_failure, design.antenna_failure))


@dataclass(frozen=True, kw_only=True)
class _KnowsNoSchedule(Adversary):
    """Somebody from whom it is hidden who sent when, unless power or the ratios of colluders tell it."""

    receives: ClassVar[str]

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        helped = f", but the slots and samples of {self.colluders:,} colluding workers" if self.colluders else ""
        return f"{self.receives}, and no schedule{helped}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        told = self._why_told(design)
        return f"{told}, so there is no credit for sampling" if told else self._why_hidden(design)

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """The slots with a hidden schedule, and the worst worker's own: who knows less does not learn more.

        A replaced sample stays in its worker's seats. A removed worker's seats go to others, who may send louder and
        whose shares may be larger than its own were, so that only bounds for any worker hold.
        """
        own = self.mechanism(design, adjacency)
        if self._why_told(design):
            return (own,)
        heard = self._heard(design) if adjacency == "replace-one" else self._heard(design).before_the_draw()
        return own, self._as_if_known(heard, adjacency, self._known_move(design, adjacency))

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots with a hidden schedule, or the worst worker's own where it is not hidden.

        The ratios of a slot are drawn without regard to data and dealt to its seats. Putting worker j in the place of
        worker i moves a mixture by at most max q times the distance of two samples, also where seats follow channels
        (max-min): if j belongs higher up, at the seat with ratio q_b, the workers between move down, and the difference
        is q_b times (a convex combination of x_i and the samples between, minus x_j).

        The same holds on an imperfect air whose gains belong to seats. Seat s of a slot has a gain g_sp in each piece p
        of the slot, or is absent (g = 0), and all of these are drawn without regard to who sits where. So they are
        independent of schedule and data, and may be granted to the adversary: given them, a slot is
        sum_s q_s g_sp v_s(p) in Gaussian noise, with (q_s g_sp) in the place of the ratios. Shares must be dealt at
        random: then another worker in seat s changes v_s alone, and the move is at most max_s q_s max_p |g_sp| times
        the distance of two samples, which is what a tally counts. Pilots are sum_s q_s g_sp, whoever sits there, and
        do not move. A worker w that can only send more softly than planned, by a factor a_w between 0 (silence) and 1
        that follows from its distance, sends a_w v_w and pilots to match. ||a v - b u||^2 is convex in a and b, so it
        is largest at a corner of [0, 1]^2: ||v - u||^2, or ||v||^2 with the pilots. Neighbours are then apart by the
        larger of a removal and a replacement, with shares as planned in the strength of a slot.

        In a Poisson schedule all of these belong to workers. Whatever they are, and whoever else sends, the coin of a
        worker moves a slot by q |g| ||v||, independently of all others' coins. Gains of those who stayed silent are
        never drawn; the bound on gains takes their place.

        Where seats follow channels (max-min) a worker may change others' shares, whose gains are not its own and point
        elsewhere in the complex plane: the convex combination above is lost, and so is the credit. The same goes for
        gains that depend on who sits in a seat.

        With a limit on participations a *round*, in which no worker sends twice, is one sample of all its seats, drawn
        from the workers that do not collude; the worker's slot in it is at most the strongest one.
        """
        heard, alone = self._heard(design), design.sensitivity.squared_move(adjacency, "none")
        if self._why_told(design):
            return self._as_if_known(heard, adjacency, alone)
        others = design.workers - self.colluders
        if others < 1:
            raise PrivacyError(f"privacy.colluders = {self.colluders}: must be fewer than the {design.workers} workers")
        seats, rounds = design.round_length * design.scheduled, design.rounds
        squared_move = self._hidden_move(design, adjacency)
        if seats >= others:  # nobody is left to take a seat: a removed worker falls silent
            squared_move = max(squared_move, alone)
        slots = GaussianSlots(
            squared_shifts=_squared_shifts(heard, heard.received_watts, squared_move),
            counts=design.counts,
            adjacency=adjacency,
            squared_move=squared_move,
            composed=rounds,
            given=_any_schedule(design) if seats >= others else "a random schedule",
            gain_failure=design.gain_failure,
            hidden_failure=heard.hidden_failure,
            why=self._why_hidden(design),
        ).strongest(rounds)
        return slots if seats >= others else replace(slots, sampling=design.sampling, sampled=seats, population=others)

    def _as_if_known(self, design: Design, adjacency: str, squared_move: float) -> GaussianSlots:
        """Return the slots of the worst worker, in the words of an adversary that was not told the schedule."""
        why = f"{_slots_in_words(design)}, as if the schedule were known"
        if told := self._why_told(design):
            why = f"{told}, so {why}"
        return replace(known_schedule(design, adjacency, squared_move), why=why)

    def _why_told(self, design: Design) -> str:
        """Return what gives the schedule away, in words; empty where it stays hidden."""
        if design.power_tells_schedule:
            return "received power may tell who was scheduled"
        if design.gains_tell_schedule:
            return "what the air does to a signal may tell who was scheduled"
        if design.rounding is not None:
            return "sums of integers are accounted for one by one"
        if design.workers_noise_watts and self.colluders > 0:
            return "workers who hide each other know who sends, and some of them collude"
        if design.ratios_tell_ranks and self.colluders > 0:
            return "the ratios of colluding workers tell of the others' channels"
        return ""

    def _why_hidden(self, design: Design) -> str:
        """Return what a schedule that stays hidden is worth: among how many workers each of them hides."""
        others, scheduled = design.workers - self.colluders, design.scheduled
        if design.max_participations:
            seats = min(design.round_length * scheduled, others)
            return f"a round of {design.round_length:,} slots is one hidden sample of {seats:,} in {others:,} workers"
        if scheduled >= others:
            return "no worker is left out of a slot, so sampling hides nobody"
        return f"each slot is a hidden sample of {scheduled:,} in {others:,} workers"

    def _heard(self, design: Design) -> Design:
        """Return the design with the power and the noise that this adversary receives."""
        return design.in_workers_noise()

    @abstractmethod
    def _hidden_move(self, design: Design, adjacency: str) -> float:
        """Return how far apart, squared, neighbours are where the schedule is hidden."""

    @abstractmethod
    def _known_move(self, design: Design, adjacency: str) -> float:
        """Return how far apart, squared, neighbours are where the schedule is taken for known."""


@dataclass(frozen=True, kw_only=True)
class Release(_KnowsNoSchedule):
    """Anybody who gets the mixtures but no word on who was scheduled when.

    Colluding workers know their own slots. The others are then a sample of the N - k workers who do not collude, at a
    rate of at most |N_t| / (N - k). Where ratios follow channels (max-min), a colluder's own ratio tells more than
    that, and where workers bring noise all of them know who sends: there is no credit.
    """

    name = "release"
    about = "anybody who gets the mixtures but does not know who was scheduled when"
    receives = "all mixtures"

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """The slots with a hidden schedule, in one step or in two, and the worst worker's own."""
        views = super().views(design, adjacency)
        if adjacency == "remove-one" or views[0].sampling != "poisson":
            return views
        two_steps = replace(self.mechanism(design, "remove-one"), steps=2)
        return *views, replace(two_steps, why=f"{views[0].why}; a replacement is a removal and an addition")

    def _hidden_move(self, design: Design, adjacency: str) -> float:
        move = design.sensitivity.squared_move(adjacency, "none" if design.everybody_sends else design.sampling)
        # Another worker in the seat may be softer, or silent.
        return max(move, design.sensitivity.removal) if design.shares_follow_workers else move

    def _known_move(self, design: Design, adjacency: str) -> float:
        return design.sensitivity.squared_move(adjacency, "none" if design.everybody_sends else "without-replacement")


@dataclass(frozen=True, kw_only=True)
class Eavesdropper(_KnowsNoSchedule):
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
    receives = "its own reception of every slot"
    own_receiver = True
    gain: float | None
    own_noise_watts: float

    def __post_init__(self) -> None:
        super().__post_init__()
        watts = self.own_noise_watts
        require(0.0 < watts < math.inf, f"own_noise_watts = {watts:g}: must be finite and above 0")

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

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        if design.hidden_noise_watts:
            return hidden_in_words(design)
        if self.gain is None:
            return "fading puts no bound on how well it hears a worker"
        louder = self.gain * max(design.sent_watts) / max(design.received_watts)
        return f"it may hear a worker with {louder:,.4g} times the power that the server does; {super().why(design)}"

    def noise_watts(self, design: Design) -> float:
        """The noise at each of its antennas, or what workers bring."""
        return design.hidden_noise_watts or self.own_noise_watts

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """As for anybody without a schedule; where workers bring noise, what somebody who hears all would learn."""
        return (self.mechanism(design, adjacency),) if design.hidden_noise_watts else super().views(design, adjacency)

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """As for anybody without a schedule; it hears what was sent, which gains at the server do not always tell.

        Where workers bring noise of their own it learns no more than somebody who hears every worker separately.
        """
        if design.hidden_noise_watts:
            return heard_separately(design, adjacency)
        slots = super().mechanism(design, adjacency)
        return replace(slots, gain_failure=max(slots.gain_failure, design.sent_failure))

    def _hidden_move(self, design: Design, adjacency: str) -> float:
        return design.sensitivity.largest_move

    def _known_move(self, design: Design, adjacency: str) -> float:
        sensitivity = design.sensitivity
        return sensitivity.replacement if adjacency == "replace-one" else sensitivity.largest_move

    def _heard(self, design: Design) -> Design:
        if self.gain is None:
            why = f"{self.why(design)}, so nothing can be certified; use radio.fading = none"
            raise PrivacyError(f"privacy.adversary = 'eavesdropper': {why}")
        worst = design.worst_sent_watts
        return replace(
            design,
            received_watts=tuple(self.gain * value for value in design.sent_watts),
            worst_received_watts=None if worst is None else self.gain * worst,
            noise_watts=self.own_noise_watts,
        )


def known_schedule(design: Design, adjacency: str, squared_move: float) -> GaussianSlots:
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
        total = every.strongest(design.participations).total
        given, failures = _any_schedule(design), (design.schedule_failure, design.gain_failure)
    else:
        (total,) = _squared_shifts(design, (design.worst_received_watts,), squared_move)
        given, failures = "the schedule that was drawn", (0.0, 0.0)
    schedule_failure, gain_failure = failures
    return replace(
        every,
        squared_shifts=(total,),
        counts=(1,),
        given=given,
        schedule_failure=schedule_failure,
        gain_failure=gain_failure,
        hidden_failure=design.hidden_failure,
        rounding=None if design.rounding is None else design.rounding.times(design.participations),
    )


def heard_separately(design: Design, adjacency: str) -> GaussianSlots:
    """Return the slots of the worst worker for somebody who hears every worker alone, in the noise that workers bring.

    That somebody sends is heard too: a removed worker goes on with its noise, its masks and its pilots, and sends
    nothing of its data.
    """
    move = design.sensitivity.squared_move(adjacency, "none")
    known = known_schedule(replace(design, noise_watts=design.hidden_noise_watts), adjacency, move)
    return replace(known, why=hidden_in_words(design))


def hidden_in_words(design: Design) -> str:
    """Return what hides a worker from somebody who hears it alone, in words."""
    unless = f" (except with probability {design.hidden_failure:g})" if design.hidden_failure else ""
    return f"{_slots_in_words(design)}, each heard separately and without noise, hidden by {design.hidden_by}{unless}"


def _squared_shifts(design: Design, watts: tuple[float, ...], squared_move: float) -> tuple[float, ...]:
    """Return epsilon_t(2) of slots in which a share of 1 is received that strongly."""
    return tuple(slot_squared_shift(1.0, watts, design.noise_watts, squared_move).tolist())


def _any_schedule(design: Design) -> str:
    return "a random schedule" if design.schedule_failure or not design.max_participations else "any schedule"


def _slots_in_words(design: Design) -> str:
    drawn, count = design.worst_received_watts is not None, design.participations
    if count == 1:
        return f"the only slot of {'the worst' if drawn else 'a'} worker"
    return f"{'the' if drawn else 'up to'} {count:,} slots of {'the worst' if drawn else 'one'} worker together"


def _known_in_words(design: Design) -> str:
    hidden = f", hidden by {design.hidden_by}" if design.hidden_failure else ""
    return f"{_slots_in_words(design)}, with a known schedule{hidden}"
