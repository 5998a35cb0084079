"""What a system sends, and how far one worker can move it, as far as privacy asks. Plain numbers, no radio."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self, TypeVar

from scipy.special import betainc

from airmixml.messages import PrivacyError
from airmixml.privacy.facts import (
    Antennas,
    Drawn,
    Fact,
    ImperfectAir,
    OwnSchedule,
    Revealed,
    Transmitters,
    WorkersNoise,
)
from airmixml.privacy.gaussian import require

Kind = TypeVar("Kind", bound=Fact)

# No worker exceeds the number of slots that a plan without a limit assumes, except with this probability.
SCHEDULE_FAILURE: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Bounds on what a worker sends, before its share and power are applied."""

    removal: float  #: bound on ||x||^2, the move when a worker falls silent
    replacement: float  #: bound on ||x - x'||^2, the move when another sample takes the place of the worker's own
    numbers: int = 0  #: how many numbers that is; 0 where nothing depends on it
    in_rounds: int = 0  #: the same of a round

    def __post_init__(self) -> None:
        if not (0.0 < self.removal < math.inf and 0.0 < self.replacement < math.inf):
            raise PrivacyError(f"sensitivity {self.removal:g}, {self.replacement:g}: must be finite and above 0")

    def squared_move(self, adjacency: str, sampling: str) -> float:
        """Return how far apart, squared, the mixtures of neighbours are where all channels are inverted.

        A removed worker falls silent, unless others are drawn without replacement: then another worker takes its seat.
        """
        if sampling == "without-replacement":
            return max(self.removal, self.replacement) if adjacency == "remove-one" else self.replacement
        if sampling == "poisson" and adjacency == "replace-one":
            return max(self.removal, self.replacement)  # without the worker its seat is empty
        return self.removal if adjacency == "remove-one" else self.replacement

    @classmethod
    def paper(cls, input_dim: int, label_dim: int) -> Self:
        """d_X + d_Y for both, the paper's bound on ||i||^2 + ||l||^2 of samples in [0, 1]^(d_X + d_Y)."""
        bound = float(input_dim + label_dim)
        return cls(removal=bound, replacement=bound)


@dataclass(frozen=True, kw_only=True)
class Design:
    """The slots of a run, of a plan, or of a run that is over."""

    workers: int  #: N
    scheduled: int  #: |N_t|, workers per slot
    #: beta max q^2 of each kind of slot: how strongly the worker with the largest share is received, for a symbol
    #: vector of norm 1.
    received_watts: tuple[float, ...]
    counts: tuple[int, ...]  #: how many slots are of each kind
    sensitivity: Sensitivity  #: what one worker's symbol vector can be
    noise_watts: float  #: noise power per complex symbol at the server's receiver
    max_participations: int = 0  #: hard limit on the slots of one worker; 0 for none
    #: Length of the rounds in which no worker sends twice; by default what the limit needs for these slots. A part of a
    #: run keeps the rounds of the whole.
    slots_per_round: int = 0
    sampling: str = "without-replacement"  #: how the workers of a slot are drawn, "without-replacement" or "poisson"
    facts: tuple[Fact, ...] = ()  #: what the stages of the run say besides, one of each kind; see ``facts``

    def __post_init__(self) -> None:
        workers, scheduled, slots = self.workers, self.scheduled, self.slots
        fits = 1 <= scheduled <= workers
        require(fits, f"scheduled = {scheduled}: must be at least 1 and at most the {workers} workers")
        require(0.0 < self.noise_watts < math.inf, f"noise_watts = {self.noise_watts:g}: must be finite and above 0")
        require(slots >= 1, f"slots = {slots}: must be at least 1")
        if self.sampling not in ("without-replacement", "poisson"):
            raise PrivacyError(f"sampling = {self.sampling!r}: must be without-replacement or poisson")
        if not self.max_participations:
            return
        if self.sampling == "poisson":
            raise PrivacyError(
                "max_participations: needs sampling without-replacement; a Poisson schedule keeps no limit"
            )
        longest_round = workers // scheduled
        if self.round_length > longest_round:
            least = f"{-(-slots // longest_round)} for {slots} slots of {scheduled} among {workers} workers"
            raise PrivacyError(f"max_participations = {self.max_participations}: must be at least {least}")

    def fact(self, kind: type[Kind]) -> Kind:
        """Return what is said of this kind; the kind's defaults where nothing is."""
        return next((each for each in self.facts if isinstance(each, kind)), kind())

    def says(self, kind: type[Fact]) -> bool:
        """Return whether a fact of this kind is listed."""
        return any(isinstance(each, kind) for each in self.facts)

    def stating(self, *facts: Fact) -> Self:
        """Return the design with these facts, each in the place of the one of its kind, or before all others."""
        kinds = {type(each): each for each in facts}
        kept = tuple(kinds.pop(type(each), each) for each in self.facts)
        return replace(self, facts=(*kinds.values(), *kept))

    def schedule_revealed(self, colluders: int) -> str:
        """Return what gives the schedule away to an adversary with so many colluders; empty where it stays hidden."""
        return next(filter(None, (each.reveals_schedule(colluders) for each in self.facts)), "")

    def failure_of_gains(self, some: float, sampling: str) -> float:
        """Return the share of delta that a bound takes which some gain of a run exceeds with that probability.

        Gains do not depend on data, and delta is one worker's. Where the schedule is known, or each worker has a coin
        of its own, a worker's privacy rests on its own gains: a mechanism that caps these is another one only where one
        of them is above the bound. A union bound gives all seats the same chance, and a worker has at most one
        of ``scheduled`` in a slot. In a hidden schedule of fixed size any worker may sit in its place, and all gains
        count.
        """
        if sampling == "without-replacement":
            return some
        return some / (self.workers if self.sampling == "poisson" else self.scheduled)

    @property
    def everybody_sends(self) -> bool:
        """Whether all workers send in every slot, so that no other can take the seat of one who is removed."""
        return self.scheduled == self.workers

    @property
    def round_length(self) -> int:
        """Slots in which no worker sends twice; 1 without a limit on participations."""
        if not self.max_participations:
            return 1
        return self.slots_per_round or slots_per_round(self.slots, self.max_participations)

    @property
    def rounds(self) -> int:
        """Rounds of that length, the last one perhaps shorter."""
        return -(-self.slots // self.round_length)

    @property
    def slots(self) -> int:
        """T."""
        return sum(self.counts)

    @property
    def sent_watts(self) -> tuple[float, ...]:
        """Bound on the transmit power of any worker in each kind of slot; a loud one exceeds its limit too."""
        sent = self.fact(Transmitters)
        loudness = self.fact(ImperfectAir).gain_bound if sent.loudness is None else sent.loudness
        gain, limit_watts = sent.weakest_gain, sent.limit_watts * loudness
        asked = (sent.excess * value / gain if gain else math.inf for value in self.received_watts)
        return tuple(min(watts, limit_watts) for watts in asked)

    @property
    def drawn(self) -> Drawn | None:
        """What was drawn, of a run that is over."""
        return self.fact(Drawn) if self.says(Drawn) else None

    @property
    def schedule_told(self) -> bool:
        """Whether nothing may be claimed for a hidden schedule, since power or gains may tell it."""
        return any(isinstance(each, Revealed) and not each.to_colluders for each in self.facts)

    @property
    def participations(self) -> int:
        """Slots that compose for the worst worker: those it had, the hard limit, or what chance all but rules out."""
        if self.drawn is not None:
            return self.drawn.participations
        if own := self.fact(OwnSchedule).most:
            return min(own, self.slots)
        seats = self.round_length * self.scheduled
        return self.rounds if seats >= self.workers else participation_bound(self.rounds, seats, self.workers)

    @property
    def schedule_failure(self) -> float:
        """Probability with which a worker is drawn more often than ``participations``."""
        by_chance = self.drawn is None and not self.says(OwnSchedule) and self.participations < self.rounds
        return SCHEDULE_FAILURE if by_chance else 0.0

    def squared_shift(self, watts: float, squared_move: float) -> float:
        """Return epsilon_t(2), as ``slot_squared_shift``, where a share of 1 is received that strongly."""
        return squared_move * watts / (self.noise_watts / 2.0)

    def squared_shifts(self, squared_move: float) -> tuple[float, ...]:
        """Return epsilon_t(2) of each kind of slot."""
        return tuple(self.squared_shift(watts, squared_move) for watts in self.received_watts)

    def noise_multiplier(self, adjacency: str) -> float:
        """Return the noise deviation over one worker's move in the strongest slot, as other libraries state noise."""
        square = max(self.in_workers_noise().squared_shifts(self.sensitivity.squared_move(adjacency, "none")))
        return math.inf if square == 0.0 else 1.0 / math.sqrt(square)

    def scaled(self, factor: float) -> Self:
        """Return the design with ``factor`` times the power in every slot."""
        received_watts = tuple(factor * value for value in self.received_watts)
        return replace(self, received_watts=received_watts, facts=tuple(each.scaled(factor) for each in self.facts))

    def at_server(self) -> Self:
        """Return the design as the server has it with all of its antennas."""
        gain, drawn = self.fact(Antennas).gain, self.drawn
        server_watts = None if drawn is None else drawn.server_watts
        if gain == 1.0:
            return self
        if not any(self.received_watts):  # nobody sends
            return self.stating(Antennas())
        if math.isinf(gain) and server_watts is None:
            raise PrivacyError(
                "air.antennas: fading puts no bound on what the server has of a worker with all antennas; use "
                "air.truncation_db, by which workers in a fade stay silent, or radio.fading = none"
            )
        heard = (self if math.isinf(gain) else self.scaled(gain)).stating(Antennas())
        if in_rounds := self.fact(Antennas).in_rounds:
            received_watts = (*heard.received_watts[:-1], in_rounds[-1] * self.received_watts[-1])
            heard = replace(heard, received_watts=received_watts)
        if drawn is None or server_watts is None:
            return heard
        return heard.stating(replace(drawn, received_watts=server_watts, server_watts=None))

    def in_workers_noise(self) -> Self:
        """Return the design with the noise that hides a worker in the sum: the receiver's, and that of the workers.

        Who hears only sums learns no more than who hears everybody. On an air that is not ideal that is all there is to
        say, since a worker may be received more strongly than others' noise.
        """
        brought = self.fact(WorkersNoise)
        if not brought.alone_watts:
            return self
        alone = self.says(ImperfectAir) or brought.rounding is not None
        in_sum = 0.0 if alone else self.noise_watts + brought.in_sum_watts
        failure = 0.0 if in_sum >= brought.alone_watts else brought.failure
        heard = replace(self, noise_watts=max(in_sum, brought.alone_watts))
        return heard.stating(replace(brought, failure=failure))

    def before_the_draw(self) -> Self:
        """Return the design without what is known only after a run: it holds for any schedule."""
        return replace(self, facts=tuple(each for each in self.facts if not isinstance(each, Drawn)))

    def with_slots(self, slots: int, gradients: int = 0) -> Self:
        """Return the first slots of such a design as a plan, all of the strongest kind.

        Its last slots, so many as carry ``gradients``, have kinds of their own, the last ones.
        """
        length = self.round_length if self.max_participations else 0
        before = self.slots - gradients
        first = next(kind for kind in range(1, len(self.counts) + 1) if sum(self.counts[:kind]) >= before)
        later = min(max(slots - before, 0), gradients)
        kinds = [(self.received_watts[:first], slots - later), (self.received_watts[first:], later)]
        strongest, counts = zip(*((max(watts), count) for watts, count in kinds if count), strict=True)
        plan = replace(self.before_the_draw(), slots_per_round=length, received_watts=strongest, counts=counts)
        return plan.with_rounds(later) if gradients else plan

    def with_rounds(self, rounds: int) -> Self:
        """Return the design with the bounds on gains of so many of its rounds: the fewer, the higher their mean."""
        air, antennas = self.fact(ImperfectAir), self.fact(Antennas)
        if not air.in_rounds:
            return self
        fewer = self.stating(
            replace(air, in_rounds=air.in_rounds[:rounds]), replace(antennas, in_rounds=antennas.in_rounds[:rounds])
        )
        if not rounds:
            return fewer
        last = self.received_watts[-1] * air.in_rounds[rounds - 1] / air.in_rounds[-1]
        return replace(fewer, received_watts=(*self.received_watts[:-1], last))


def slots_per_round(slots: int, max_participations: int) -> int:
    """Return the length of the rounds in which no worker sends twice, so that none sends more often than the limit."""
    return -(-slots // max_participations)


def participation_bound(slots: int, scheduled: int, workers: int) -> int:
    """Return m such that, except with probability 1e-9, none of the workers is drawn in more than m slots.

    A worker is drawn in Binomial(T, |N_t| / N) slots; the workers are taken together by a union bound.
    """
    if scheduled == workers:
        return slots
    return binomial_quantile(SCHEDULE_FAILURE / workers, slots, scheduled / workers)


@lru_cache(maxsize=4096)
def binomial_quantile(tail: float, trials: int, chance: float) -> int:
    """Return the smallest m with P(Binomial > m) <= ``tail``, also for tails far below 1e-16."""
    # P(Binomial > m) is the regularised incomplete beta function at m + 1 and trials - m.
    return bisect_left(range(trials), True, key=lambda most: bool(betainc(most + 1, trials - most, chance) <= tail))
