"""Whom the samples are to be hidden from. Each adversary states what it knows, and so which mechanism it faces."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from airmixml.arrays import dbm_to_watts
from airmixml.errors import PrivacyError
from airmixml.privacy.design import Design
from airmixml.privacy.facts import Antennas, SofterShares, Transmitters, WorkersNoise
from airmixml.privacy.mechanism import GaussianSlots, require
from airmixml.privacy.views import Adversary, HiddenSchedule, hidden_in_words, known_in_words


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
        return known_in_words(design.in_workers_noise())

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
        # Another worker in the seat may be softer, or silent.
        return max(hidden, design.sensitivity.removal) if design.says(SofterShares) else hidden, known


@dataclass(frozen=True, kw_only=True)
class Eavesdropper(HiddenSchedule):
    """A receiver near the workers, without the schedule.

    Workers invert their channel to the server, not to the eavesdropper, so it hears each with the power that it sends,
    the farthest from the server loudest, and with a phase of its own. When another worker takes a seat its
    reception may therefore move by the sum of both amplitudes, twice the largest norm.
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
            return hidden_in_words(design)
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
        largest = design.sensitivity.largest_move
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
        return hidden_in_words(design)

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

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        return replace(super().mechanism(design, adjacency), why=hidden_in_words(design))
