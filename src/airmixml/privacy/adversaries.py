"""Whom the samples are to be hidden from. Each adversary states what it knows, and so which mechanism it faces."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

from airmixml.arrays import dbm_to_watts
from airmixml.messages import PrivacyError
from airmixml.privacy.design import Design
from airmixml.privacy.facts import Antennas, ImperfectAir, OthersInSeats, OwnSchedule, Transmitters, WorkersNoise
from airmixml.privacy.gaussian import GaussianSlots, require

DRAWN: Final = "the schedule that was drawn"
"""What a statement is given that holds for one run alone."""


@dataclass(frozen=True, kw_only=True)
class Adversary(ABC):
    """A party that wants to learn a worker's sample and already knows those of all others.

    A subclass is a frozen dataclass, so that what holds against it is computed once.
    """

    name: ClassVar[str]  #: what scenarios and statements call it
    about: ClassVar[str]  #: who it is, in one line
    knows_schedule: ClassVar[bool] = False  #: whether it knows who sent in which slot
    #: Whether it hears the workers itself, instead of getting what the server received.
    own_receiver: ClassVar[bool] = False
    colluders: int = 0  #: workers who tell it their samples and slots

    def __post_init__(self) -> None:
        require(self.colluders >= 0, f"colluders = {self.colluders}: must be at least 0")

    @classmethod
    def of(cls, scenario: Any, power_gain: Callable[[float], float]) -> Self:
        """Return the adversary that an ``airmixml.Scenario``, which this room does not know, describes.

        ``power_gain`` gives the power gain without fading of a channel of so many metres.
        """
        return cls(colluders=scenario.privacy.colluders)

    sees: ClassVar[str] = ""  #: what it receives and knows
    told: ClassVar[str] = "with the samples"  #: what colluding workers tell it besides

    @property
    def knows(self) -> str:
        """What it knows and receives, in words."""
        return self.sees + (f", {self.told} of {self.colluders:,} colluding workers" if self.colluders else "")

    @abstractmethod
    def why(self, design: Design) -> str:
        """Why its epsilon follows, in words."""

    def heard(self, design: Design) -> Design:
        """The design with the power and the noise that it receives: of the facts, those that it sees."""
        return design.in_workers_noise()

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots as it sees them: where it knows the schedule, the worst worker's own, one Gaussian mechanism."""
        squared_move = design.sensitivity.squared_move(adjacency, "none")
        return _known_schedule(self.heard(design), adjacency, squared_move, self.why(design))

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """Every description of the slots that is valid for it, ``mechanism`` first; the least epsilon of them holds."""
        return (self.mechanism(design, adjacency),)

    def hears(self, design: Design) -> bool:
        """Whether its epsilon rests on the noise, the antennas and the amplitudes of a receiver."""
        return not design.says(WorkersNoise)

    def antennas(self, design: Design) -> int:
        """How many antennas are assumed; 0 where it gets what one antenna received, whatever there is."""
        return 0

    def noise_watts(self, design: Design) -> float:
        """The noise that hides a worker from it: in the server's reception, unless it has a receiver of its own."""
        return design.in_workers_noise().noise_watts


@dataclass(frozen=True, kw_only=True)
class HiddenSchedule(Adversary):
    """An adversary without the schedule, unless power or the ratios of colluders tell it."""

    told = "but the slots and samples"

    def why(self, design: Design) -> str:
        told = design.schedule_revealed(self.colluders)
        return f"{told}, so there is no credit for sampling" if told else self._why_hidden(design)

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """The slots with a hidden schedule, and the worst worker's own: who knows less does not learn more.

        A replaced sample stays in its worker's seats. A removed worker's seats go to others, who may send louder and
        whose shares may be larger than its own were, so that only bounds for any worker hold.
        """
        own = self.mechanism(design, adjacency)
        if design.schedule_revealed(self.colluders):
            return (own,)
        heard = self.heard(design) if adjacency == "replace-one" else self.heard(design).before_the_draw()
        return own, self._as_if_known(heard, adjacency, self._moves(design, adjacency)[1])

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots with a hidden schedule, or the worst worker's own where it is not hidden.

        ``docs/proofs/hidden-schedule.md`` has why the ratios of a slot, the gains that belong to its seats and the
        coins of a Poisson schedule may be granted to the adversary. With a limit on participations a *round*, in which
        no worker sends twice, is one sample of all its seats, drawn from the workers that do not collude; the worker's
        slot in it is at most the strongest one.
        """
        heard, alone = self.heard(design), design.sensitivity.squared_move(adjacency, "none")
        if design.schedule_revealed(self.colluders):
            return self._as_if_known(heard, adjacency, alone)
        others = design.workers - self.colluders
        if others < 1:
            raise PrivacyError(f"privacy.colluders = {self.colluders}: must be fewer than the {design.workers} workers")
        seats, rounds = design.round_length * design.scheduled, design.rounds
        squared_move, _ = self._moves(design, adjacency)
        if seats >= others:  # no other worker is left to take a seat: a removed one falls silent
            squared_move = max(squared_move, alone)
        sampling = "none" if seats >= others else design.sampling
        slots = GaussianSlots(
            squared_shifts=heard.squared_shifts(squared_move),
            counts=design.counts,
            adjacency=adjacency,
            squared_move=squared_move,
            composed=rounds,
            given=_any_schedule(design) if seats >= others else "a random schedule",
            gain_failure=design.failure_of_gains(design.fact(ImperfectAir).gain_failure, sampling),
            hidden_failure=heard.fact(WorkersNoise).failure,
            why=self._why_hidden(design),
        ).strongest(rounds)
        return slots if sampling == "none" else replace(slots, sampling=sampling, sampled=seats, population=others)

    def _as_if_known(self, design: Design, adjacency: str, squared_move: float) -> GaussianSlots:
        """Return the slots of the worst worker, in the words of an adversary that was not told the schedule."""
        why = f"{_slots_in_words(design)}, as if the schedule were known"
        if told := design.schedule_revealed(self.colluders):
            why = f"{told}, so {why}"
        return _known_schedule(design, adjacency, squared_move, why)

    def _why_hidden(self, design: Design) -> str:
        """Return what a schedule that stays hidden is worth: among how many workers each of them hides."""
        others, scheduled = design.workers - self.colluders, design.scheduled
        if design.max_participations:
            seats = min(design.round_length * scheduled, others)
            return f"a round of {design.round_length:,} slots is one hidden sample of {seats:,} in {others:,} workers"
        if scheduled >= others:
            return "no worker is left out of a slot, so sampling hides nobody"
        return f"each slot is a hidden sample of {scheduled:,} in {others:,} workers"

    @abstractmethod
    def _moves(self, design: Design, adjacency: str) -> tuple[float, float]:
        """Return how far apart, squared, neighbours are: where the schedule is hidden, and taken for known."""


def _known_schedule(design: Design, adjacency: str, squared_move: float, why: str) -> GaussianSlots:
    """Return the slots of the worst worker: those it had, or the most and strongest it can have."""
    drawn, brought = design.drawn, design.fact(WorkersNoise)
    every = GaussianSlots(
        squared_shifts=design.squared_shifts(squared_move),
        counts=design.counts,
        adjacency=adjacency,
        squared_move=squared_move,
        composed=design.participations,
        given=_any_schedule(design) if drawn is None else DRAWN,
        schedule_failure=design.schedule_failure,
        gain_failure=design.failure_of_gains(design.fact(ImperfectAir).gain_failure, "none") if drawn is None else 0.0,
        hidden_failure=brought.failure,
        rounding=brought.rounding,
        why=why,
    )
    together = math.inf if drawn is None else design.squared_shift(drawn.received_watts, squared_move)
    if brought.rounding is not None:  # each kind of slots is rounded in its own way, which ``widened`` looks at
        # After a draw another worker, with less in all, may have more slots of one kind.
        most = design.slots if drawn is not None and len(design.counts) > 1 else design.participations
        return replace(every, rounded=most, total_at_most=together)
    if drawn is None:
        together = every.strongest(design.participations).total
    return replace(every, squared_shifts=(together,), counts=(1,))


def _any_schedule(design: Design) -> str:
    if design.says(OwnSchedule):
        return "a schedule that keeps its limit"
    return "a random schedule" if design.schedule_failure or not design.max_participations else "any schedule"


def _slots_in_words(design: Design) -> str:
    drawn, count = design.drawn is not None, design.participations
    if count == 1:
        return f"the only slot of {'the worst' if drawn else 'a'} worker"
    return f"{'the' if drawn else 'up to'} {count:,} slots of {'the worst' if drawn else 'one'} worker together"


@dataclass(frozen=True, kw_only=True)
class Server(Adversary):
    """The edge server: knows schedule, ratios and channels, so nothing hides when a worker sent.

    Workers who collude with it tell it their own samples. Differential privacy grants every adversary all samples but
    one, so they change nothing here.
    """

    name = "server"
    about = "the server itself, which knows the schedule, the ratios and the channels"
    sees = "all mixtures, the schedule, the ratios and the channels"
    knows_schedule = True

    def why(self, design: Design) -> str:
        brought = design.in_workers_noise().fact(WorkersNoise)
        hidden = f", hidden by {brought.by}" if brought.failure else ""
        return f"{_slots_in_words(design)}, with a known schedule{hidden}"

    def antennas(self, design: Design) -> int:
        return design.fact(Antennas).count

    def heard(self, design: Design) -> Design:
        return design.at_server().in_workers_noise()

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        known = super().mechanism(design, adjacency)
        failure = design.failure_of_gains(design.fact(Antennas).failure, known.sampling)
        return replace(known, gain_failure=max(known.gain_failure, failure))


@dataclass(frozen=True, kw_only=True)
class Release(HiddenSchedule):
    """An adversary who gets the mixtures but no word on who was scheduled when.

    Colluding workers know their own slots. The others are then a sample of the N - k workers who do not collude, at a
    rate of at most |N_t| / (N - k). Where ratios follow channels (max-min), a colluder's own ratio tells more than
    that, and where workers bring noise all of them know who sends: there is no credit.
    """

    name = "release"
    about = "anybody who gets the mixtures but does not know who was scheduled when"
    sees = "all mixtures, and no schedule"

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """The slots with a hidden schedule, in one step or in two, and the worst worker's own."""
        views = super().views(design, adjacency)
        if adjacency == "remove-one" or views[0].sampling != "poisson":
            return views
        two_steps = replace(self.mechanism(design, "remove-one"), steps=2)
        return *views, replace(two_steps, why=f"{views[0].why}; a replacement is a removal and an addition")

    def _moves(self, design: Design, adjacency: str) -> tuple[float, float]:
        samplings = ("none", "none") if design.everybody_sends else (design.sampling, "without-replacement")
        hidden, known = (design.sensitivity.squared_move(adjacency, sampling) for sampling in samplings)
        if design.says(OthersInSeats):  # softer, or silent; or turned, so that both vectors may add up
            other = (4.0 if design.fact(OthersInSeats).turned else 1.0) * design.sensitivity.removal
            hidden = max(hidden, other)
            known = max(known, other) if adjacency == "remove-one" else known  # a removed one's seats go to others
        return hidden, known


@dataclass(frozen=True, kw_only=True)
class Eavesdropper(HiddenSchedule):
    """A receiver near the workers, without the schedule.

    Workers invert their channel to the server, not to the eavesdropper, so it hears each with the power that it sends,
    the farthest from the server loudest, and with a phase of its own. When another worker takes a seat its
    reception may therefore move by the sum of both amplitudes, twice the largest norm. Where every worker sends there
    is no such worker, and a removed one's signal is missing.
    """

    name = "eavesdropper"
    about = "somebody with a receiver near the workers, who does not know who was scheduled when"
    sees = "its own reception of every slot, and no schedule"
    own_receiver = True
    #: Power gain of its best channel, all antennas together; None if fading leaves it without a bound.
    gain: float | None
    own_noise_watts: float  #: noise power per complex symbol at each of its antennas
    own_antennas: int = 1  #: how many ``gain`` is of

    def __post_init__(self) -> None:
        super().__post_init__()
        watts = self.own_noise_watts
        require(0.0 < watts < math.inf, f"own_noise_watts = {watts:g}: must be finite and above 0")

    @classmethod
    def of(cls, scenario: Any, power_gain: Callable[[float], float]) -> Self:
        """Return the eavesdropper of a scenario; it receives no more than was sent, however near it comes."""
        privacy = scenario.privacy
        gain = min(privacy.eavesdropper_antennas * power_gain(privacy.eavesdropper_distance_metres), 1.0)
        return cls(
            gain=gain if scenario.radio.fading == "none" else None,
            own_noise_watts=dbm_to_watts(privacy.eavesdropper_noise_dbm),
            own_antennas=privacy.eavesdropper_antennas,
            colluders=privacy.colluders,
        )

    def why(self, design: Design) -> str:
        if design.says(WorkersNoise):
            return Everyone().why(design)
        if self.gain is None:
            return "fading puts no bound on how well it hears a worker"
        louder = self.gain * max(design.sent_watts) / max(design.received_watts)
        return f"it may hear a worker with {louder:,.4g} times the power that the server does; {super().why(design)}"

    def antennas(self, design: Design) -> int:
        return self.own_antennas

    def noise_watts(self, design: Design) -> float:
        return design.fact(WorkersNoise).alone_watts or self.own_noise_watts

    def views(self, design: Design, adjacency: str) -> tuple[GaussianSlots, ...]:
        """As for any adversary without a schedule; where workers bring noise, what an isolating one learns."""
        return (self.mechanism(design, adjacency),) if design.says(WorkersNoise) else super().views(design, adjacency)

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        if design.says(WorkersNoise):
            return Everyone().mechanism(design, adjacency)
        slots = super().mechanism(design, adjacency)
        failure = design.failure_of_gains(design.fact(Transmitters).failure, slots.sampling)
        return replace(slots, gain_failure=max(slots.gain_failure, failure))

    def _moves(self, design: Design, adjacency: str) -> tuple[float, float]:
        if design.everybody_sends:  # no other worker is left to take a removed one's place
            own = design.sensitivity.squared_move(adjacency, "none")
            return max(own, design.sensitivity.removal) if design.says(OthersInSeats) else own, own
        # Two workers' signals may come with opposite phases.
        largest = max(4.0 * design.sensitivity.removal, design.sensitivity.replacement)
        return largest, design.sensitivity.replacement if adjacency == "replace-one" else largest

    def heard(self, design: Design) -> Design:
        """What is sent, with the gain of its channel, in its own noise."""
        if self.gain is None:
            why = f"{self.why(design)}, so nothing can be certified; use radio.fading = none"
            raise PrivacyError(f"privacy.adversary = 'eavesdropper': {why}")
        received_watts = tuple(self.gain * value for value in design.sent_watts)
        heard = replace(design, received_watts=received_watts, noise_watts=self.own_noise_watts)
        drawn = design.drawn
        return heard if drawn is None else heard.stating(replace(drawn, received_watts=self.gain * drawn.sent_watts))


@dataclass(frozen=True, kw_only=True)
class Everyone(Adversary):
    """Everybody who hears everything: the server, all eavesdroppers and the colluding workers together.

    No receiver noise, no hidden schedule and no secret position is assumed: only what workers themselves add hides
    them. Where masks are drawn from keys, that holds as long as the cipher does.
    """

    name = "everyone"
    about = "everybody together, who hear every worker separately and without any noise"
    sees = "what every worker sends, separately and without noise, the schedule and the ratios"
    told = "with the keys and samples"
    knows_schedule = True

    def why(self, design: Design) -> str:
        brought = design.fact(WorkersNoise)
        unless = f" (except with probability {brought.failure:g})" if brought.failure else ""
        return f"{_slots_in_words(design)}, each heard separately and without noise, hidden by {brought.by}{unless}"

    def noise_watts(self, design: Design) -> float:
        return design.fact(WorkersNoise).alone_watts

    def heard(self, design: Design) -> Design:
        """Every worker alone, in the noise that workers bring.

        That a worker sends is heard too: a removed one goes on with its noise, its masks and its pilots, and sends
        nothing of its data.
        """
        if not design.says(WorkersNoise):
            raise PrivacyError(
                "privacy.adversary = 'everyone': nothing hides a worker from a listener who hears it alone and without "
                'noise; use privacy.noise = "masked" or "workers"'
            )
        return replace(design, noise_watts=design.fact(WorkersNoise).alone_watts)
