"""Whom the samples are to be hidden from. Each adversary states what it knows, and so which mechanism it faces."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airmixml.errors import PrivacyError
from airmixml.privacy.design import Design, slots_per_round
from airmixml.privacy.mechanism import GaussianSlots

__all__ = ["ADVERSARIES", "Adversary", "Eavesdropper", "Release", "Server"]

ADVERSARIES = ("release", "server", "eavesdropper")


@dataclass(frozen=True, kw_only=True)
class Server:
    """The edge server: knows schedule, ratios and channels, so nothing hides when a worker sent.

    Workers who collude with it tell it their own samples. Differential privacy grants every adversary all samples but
    one, so they change nothing here.
    """

    colluders: int = 0
    name: str = "server"

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        helped = f", with the samples of {self.colluders:,} colluding workers" if self.colluders else ""
        return f"all mixtures, the schedule, the ratios and the channels{helped}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        slots = (
            f"the {design.participations:,} slots of the worst worker"
            if design.worst_received_watts is not None
            else f"up to {design.participations:,} slots of one worker"
        )
        return f"{slots} compose without credit for sampling"

    def noise_watts(self, design: Design) -> float:
        """The receiver noise that the design was made for."""
        return design.noise_watts

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The worst worker's own slots, one Gaussian mechanism."""
        return _known_schedule(
            design, design.received_watts, design.worst_received_watts, design.noise_watts, adjacency
        )


@dataclass(frozen=True, kw_only=True)
class Release:
    """Anybody who gets the mixtures but no word on who was scheduled when.

    Colluding workers know their own slots. The others are then a sample of the N - k workers who do not collude, at a
    rate of at most |N_t| / (N - k).
    """

    colluders: int = 0
    name: str = "release"

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        helped = f", but the slots and samples of {self.colluders:,} colluding workers" if self.colluders else ""
        return f"all mixtures, and no schedule{helped}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        return _credit_in_words(design, self.colluders)

    def noise_watts(self, design: Design) -> float:
        """The noise in the mixtures is the server's."""
        return design.noise_watts

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots with a hidden schedule, or the worst worker's own where the power gave it away."""
        if design.power_tells_schedule:
            return Server().mechanism(design, adjacency)
        return _hidden_schedule(design, design.received_watts, design.noise_watts, adjacency, self.colluders)


@dataclass(frozen=True, kw_only=True)
class Eavesdropper:
    """Somebody with a receiver of their own near the workers, who knows no schedule.

    Workers invert their channel to the server, not to the eavesdropper, so it hears each with the power that it sends.
    The worst one is the worker farthest from the server, with the eavesdropper beside it.

    Attributes:
        gain: power gain of its best channel, all antennas together.
        own_noise_watts: noise power per complex symbol at each of its antennas.
    """

    gain: float
    own_noise_watts: float
    colluders: int = 0
    name: str = "eavesdropper"

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        helped = f", but the slots and samples of {self.colluders:,} colluding workers" if self.colluders else ""
        return f"its own reception of every slot, and no schedule{helped}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        ratio = self.noise_watts(design) / design.noise_watts
        return (
            f"the worker it hears best is hidden by {ratio:.3g} times the server's noise; "
            f"{_credit_in_words(design, self.colluders)}"
        )

    def noise_watts(self, design: Design) -> float:
        """Its noise, referred to the server's antenna: the server would need it to hear the worst worker as badly."""
        loudest = max(design.sent_watts) * self.gain
        return self.own_noise_watts * max(design.received_watts) / loudest if loudest > 0.0 else design.noise_watts

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots as heard from beside the worker that sends loudest."""
        heard = tuple(self.gain * value for value in design.sent_watts)
        if design.power_tells_schedule:
            worst = None if design.worst_sent_watts is None else self.gain * design.worst_sent_watts
            return _known_schedule(design, heard, worst, self.own_noise_watts, adjacency)
        return _hidden_schedule(design, heard, self.own_noise_watts, adjacency, self.colluders)


# Somebody who wants to learn a worker's sample and already knows those of all others.
Adversary = Release | Server | Eavesdropper


def _known_schedule(
    design: Design, watts: tuple[float, ...], worst_watts: float | None, noise_watts: float, adjacency: str
) -> GaussianSlots:
    """Return the slots of the worst worker: those it had, or the most and strongest it can have."""
    bound = design.sensitivity.squared_move(adjacency, "none")
    exponents = tuple(bound * value / (noise_watts / 2.0) for value in watts)
    every = GaussianSlots(exponents=exponents, counts=design.counts, adjacency=adjacency)
    total = every.worst(design.participations) if worst_watts is None else bound * worst_watts / (noise_watts / 2.0)
    return replace(every, exponents=(total,), counts=(1,))


def _hidden_schedule(
    design: Design, watts: tuple[float, ...], noise_watts: float, adjacency: str, colluders: int
) -> GaussianSlots:
    """Return the slots as samples of the workers that do not collude.

    With a limit on participations a *round*, in which no worker sends twice, is one sample of all its
    seats; the worker's slot in it is at most the strongest one.
    """
    others = design.workers - colluders
    if others < 1:
        raise PrivacyError(f"privacy.colluders = {colluders}: must be fewer than the {design.workers} workers")
    bound = design.sensitivity.squared_move(adjacency, design.sampling)
    exponents = tuple(bound * value / (noise_watts / 2.0) for value in watts)
    slots = GaussianSlots(exponents=exponents, counts=design.counts, adjacency=adjacency)
    seats = design.scheduled
    if design.max_participations:
        length = slots_per_round(design.slots, design.max_participations)
        slots, seats = slots.strongest(-(-design.slots // length)), length * design.scheduled
    if seats >= others:
        return slots
    return replace(slots, sampling=design.sampling, sampled=seats, population=others)


def _credit_in_words(design: Design, colluders: int) -> str:
    others = design.workers - colluders
    if design.power_tells_schedule:
        return "received power told who was scheduled, so there is no credit for sampling"
    if design.max_participations:
        length = slots_per_round(design.slots, design.max_participations)
        seats = min(length * design.scheduled, others)
        return f"a round of {length:,} slots is one hidden sample of {seats:,} in {others:,} workers"
    if design.scheduled >= others:
        return "all workers send in every slot, so sampling hides nobody"
    return f"each slot is a hidden sample of {design.scheduled:,} in {others:,} workers"
