"""What a system sends, before or after it was sent, as far as privacy asks. Plain numbers, no radio."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self

from scipy.stats import binom

from airmixml.errors import PrivacyError
from airmixml.privacy.sensitivity import Sensitivity

# No worker exceeds the number of slots that a plan without a limit assumes, except with this probability.
SCHEDULE_FAILURE: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Design:
    """The slots of a run, of a plan, or of a run that is over.

    Attributes:
        workers: N.
        scheduled: |N_t|, workers per slot.
        received_watts: beta max q^2 of each kind of slot: how strongly the worker with the largest share is received,
            for a symbol vector of norm 1.
        counts: how many slots are of each kind.
        sensitivity: what one worker's symbol vector can be.
        noise_watts: noise power per complex symbol at the server's receiver.
        weakest_gain: power gain of the weakest channel that a scheduled worker may have; 0 where fading has no floor.
        max_power_watts: the workers' power limit.
        max_participations: hard limit on the slots of one worker; 0 for none.
        slots_per_round: length of the rounds in which no worker sends twice; by default what the limit needs for these
            slots. A part of a run keeps the rounds of the whole.
        sampling: how the workers of a slot are drawn, "without-replacement" or "poisson".
        power_tells_schedule: whether received power may depend on who was scheduled, which spoils a hidden schedule.
        ratios_tell_ranks: whether a worker's share tells how its channel ranks among those of the slot (max-min).
        worst_received_watts: after a run, the largest sum over a worker's slots of beta q^2.
        worst_sent_watts: after a run, the largest sum over a worker's slots of its transmit power.
        worst_participations: after a run, the slots of the worker with the largest ``worst_received_watts``.
    """

    workers: int
    scheduled: int
    received_watts: tuple[float, ...]
    counts: tuple[int, ...]
    sensitivity: Sensitivity
    noise_watts: float
    weakest_gain: float = 0.0
    max_power_watts: float = float("inf")
    max_participations: int = 0
    slots_per_round: int = 0
    sampling: str = "without-replacement"
    power_tells_schedule: bool = False
    ratios_tell_ranks: bool = False
    worst_received_watts: float | None = None
    worst_sent_watts: float | None = None
    worst_participations: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.scheduled <= self.workers:
            raise PrivacyError(
                f"scheduled = {self.scheduled}: must be at least 1 and at most the {self.workers} workers"
            )
        if not 0.0 < self.noise_watts < math.inf:
            raise PrivacyError(f"noise_watts = {self.noise_watts:g}: must be finite and above 0")
        if self.slots < 1:
            raise PrivacyError(f"slots = {self.slots}: must be at least 1")
        if self.sampling not in ("without-replacement", "poisson"):
            raise PrivacyError(f"sampling = {self.sampling!r}: must be without-replacement or poisson")
        if not self.max_participations:
            return
        if self.sampling == "poisson":
            raise PrivacyError(
                "max_participations: needs sampling without-replacement; a Poisson schedule keeps no limit"
            )
        most_slots_per_round = self.workers // self.scheduled
        if self.round_length > most_slots_per_round:
            raise PrivacyError(
                f"max_participations = {self.max_participations}: must be at least "
                f"{-(-self.slots // most_slots_per_round)} for {self.slots} slots of {self.scheduled} among "
                f"{self.workers} workers"
            )

    @property
    def everybody_sends(self) -> bool:
        """Whether all workers send in every slot, so that nobody can take the seat of one who is removed."""
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
        """Bound on the transmit power of any worker in each kind of slot."""
        if self.weakest_gain == 0.0:
            return tuple(self.max_power_watts for _ in self.received_watts)
        return tuple(min(value / self.weakest_gain, self.max_power_watts) for value in self.received_watts)

    @property
    def participations(self) -> int:
        """Slots that compose for the worst worker: those it had, the hard limit, or what chance all but rules out."""
        if self.worst_participations is not None:
            return self.worst_participations
        return min(self.rounds, self._unlikely_participations)

    @property
    def _unlikely_participations(self) -> int:
        seats = self.round_length * self.scheduled
        return self.rounds if seats >= self.workers else participation_bound(self.rounds, seats, self.workers)

    @property
    def schedule_failure(self) -> float:
        """Probability with which a worker is drawn more often than ``participations``."""
        by_chance = self.worst_participations is None and self._unlikely_participations < self.rounds
        return SCHEDULE_FAILURE if by_chance else 0.0

    def noise_multiplier(self, adjacency: str) -> float:
        """Return the noise deviation over one worker's move in the strongest slot, as other libraries state noise."""
        square = self.sensitivity.squared_move(adjacency, "none") * max(self.received_watts) / (self.noise_watts / 2.0)
        return math.inf if square == 0.0 else 1.0 / math.sqrt(square)

    def scaled(self, factor: float) -> Self:
        """Return the design with ``factor`` times the power in every slot."""
        return replace(self, received_watts=tuple(factor * value for value in self.received_watts))

    def before_the_draw(self) -> Self:
        """Return the design without what is known only after a run: it holds for any schedule."""
        return replace(self, worst_received_watts=None, worst_sent_watts=None, worst_participations=None)

    def with_slots(self, slots: int) -> Self:
        """Return the first slots of such a design as a plan, all of the strongest kind."""
        length = self.round_length if self.max_participations else 0
        strongest = (max(self.received_watts),)
        return replace(self.before_the_draw(), slots_per_round=length, received_watts=strongest, counts=(slots,))


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
    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        if binom.sf(middle, trials, chance) <= tail:
            high = middle
        else:
            low = middle
    return high
