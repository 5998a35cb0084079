"""What a system sends, before or after it was sent, as far as privacy asks. Plain numbers, no radio."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from scipy.stats import binom

from airmixml.privacy.sensitivity import Sensitivity

__all__ = ["Design", "participation_bound", "slots_per_round"]

# No worker exceeds the number of slots that a plan without a cap reckons with, except with this probability.
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
        power_tells_schedule: whether received power depends on who was scheduled, which spoils a hidden schedule.
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
    power_tells_schedule: bool = False
    worst_received_watts: float | None = None
    worst_sent_watts: float | None = None
    worst_participations: int | None = None

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
        if self.max_participations:
            return -(-self.slots // slots_per_round(self.slots, self.max_participations))
        return participation_bound(self.slots, self.scheduled, self.workers)

    def with_power(self, received_watts: float) -> Self:
        """Return the design with every slot received that strongly."""
        return replace(self, received_watts=(received_watts,), counts=(self.slots,))

    def scaled(self, factor: float) -> Self:
        """Return the design with ``factor`` times the power in every slot."""
        return replace(self, received_watts=tuple(factor * value for value in self.received_watts))

    def with_slots(self, slots: int) -> Self:
        """Return the design as a plan of that many slots of its strongest kind."""
        return replace(
            self,
            received_watts=(max(self.received_watts),),
            counts=(slots,),
            worst_received_watts=None,
            worst_sent_watts=None,
            worst_participations=None,
        )


def slots_per_round(slots: int, max_participations: int) -> int:
    """Return the length of the rounds in which no worker sends twice, so that none sends more often than the limit."""
    return -(-slots // max_participations)


def participation_bound(slots: int, scheduled: int, workers: int) -> int:
    """Return m such that, except with probability 1e-9, none of the workers is drawn in more than m slots.

    A worker is drawn in Binomial(T, |N_t| / N) slots; the workers are taken together by a union bound.
    """
    if scheduled == workers:
        return slots
    return min(slots, int(binom.isf(SCHEDULE_FAILURE / workers, slots, scheduled / workers)))
