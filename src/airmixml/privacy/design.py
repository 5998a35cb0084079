"""What a system sends, and how far one worker can move it, as far as privacy asks. Plain numbers, no radio."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self

from scipy.special import betainc

from airmixml.errors import PrivacyError
from airmixml.privacy.mechanism import require
from airmixml.privacy.rounded_noise import Rounding

# No worker exceeds the number of slots that a plan without a limit assumes, except with this probability.
SCHEDULE_FAILURE: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Bounds on what a worker sends, before its share and power are applied.

    Attributes:
        removal: bound on ||x||^2, the move when a worker falls silent.
        replacement: bound on ||x - x'||^2, the move when another sample takes the place of the worker's own.
        numbers: how many numbers that is; 0 where nothing depends on it.
    """

    removal: float
    replacement: float
    numbers: int = 0

    def __post_init__(self) -> None:
        if not (0.0 < self.removal < math.inf and 0.0 < self.replacement < math.inf):
            raise PrivacyError(f"sensitivity {self.removal:g}, {self.replacement:g}: must be finite and above 0")

    def squared_move(self, adjacency: str, sampling: str) -> float:
        """Return how far apart, squared, the mixtures of neighbours are where all channels are inverted.

        A removed worker falls silent, unless others are drawn without replacement: then somebody else takes its seat.
        """
        if sampling == "without-replacement":
            return max(self.removal, self.replacement) if adjacency == "remove-one" else self.replacement
        if sampling == "poisson" and adjacency == "replace-one":
            return max(self.removal, self.replacement)  # without the worker nobody is in its seat
        return self.removal if adjacency == "remove-one" else self.replacement

    @property
    def largest_move(self) -> float:
        """How far apart, squared, two workers' signals can be at a receiver that sees them with other phases."""
        return max(4.0 * self.removal, self.replacement)

    @classmethod
    def paper(cls, input_dim: int, label_dim: int) -> Self:
        """d_X + d_Y for both, the paper's bound on ||i||^2 + ||l||^2 of samples in [0, 1]^(d_X + d_Y)."""
        bound = float(input_dim + label_dim)
        return cls(removal=bound, replacement=bound)


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
        gains_tell_schedule: whether what an imperfect air does to a seat may depend on who sits there: the same.
        shares_follow_workers: whether a worker may send more softly than planned, or not at all, by what it can send.
        ratios_tell_ranks: whether a worker's share tells how its channel ranks among those of the slot (max-min).
        impaired: whether the air is imperfect, so that workers may be received with other powers than planned.
        gain_bound: how many times the planned power a worker may be received or heard with, contained in
            ``received_watts``; after a run, what was drawn.
        gain_failure: probability with which some worker is received more strongly than that.
        sent_excess: how many times more than the received power tells a worker may have sent, where gains are below 1.
        sent_bound: after a run, how many times the planned power a worker may have sent with; None: ``gain_bound``.
        sent_failure: after a run, probability with which some worker exceeds that.
        antenna_gain: how many times the power of a worker in the mixtures the server has of it, at most, with all of
            its antennas; infinite where nothing bounds that. Not contained in ``received_watts``.
        antenna_failure: after a run, probability with which ``worst_server_watts`` is exceeded all the same.
        workers_noise_watts: power per complex symbol of what honest workers' own noise adds to the receiver's; 0 where
            gains decide how much of it arrives.
        hidden_noise_watts: noise power that hides a worker from somebody who hears all separately and without noise, as
            if it were received; 0 where workers bring none. With it all powers are as planned: a gain that is too
            large raises the noise with the signal.
        hidden_by: what that noise is, in words.
        hidden_failure: probability with which it is less.
        rounding: where workers send integers, what that noise leaves out, of one slot; see ``rounded_noise``. No
            receiver's noise and no hidden schedule counts there.
        worst_received_watts: after a run, the largest sum over a worker's slots of beta q^2.
        worst_server_watts: the same with all antennas of the server; None: ``antenna_gain`` times as much.
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
    max_power_watts: float = math.inf
    max_participations: int = 0
    slots_per_round: int = 0
    sampling: str = "without-replacement"
    power_tells_schedule: bool = False
    gains_tell_schedule: bool = False
    shares_follow_workers: bool = False
    ratios_tell_ranks: bool = False
    impaired: bool = False
    gain_bound: float = 1.0
    gain_failure: float = 0.0
    sent_excess: float = 1.0
    sent_bound: float | None = None
    sent_failure: float = 0.0
    antenna_gain: float = 1.0
    antenna_failure: float = 0.0
    workers_noise_watts: float = 0.0
    hidden_noise_watts: float = 0.0
    hidden_by: str = ""
    hidden_failure: float = 0.0
    rounding: Rounding | None = None
    worst_received_watts: float | None = None
    worst_server_watts: float | None = None
    worst_sent_watts: float | None = None
    worst_participations: int | None = None

    def __post_init__(self) -> None:
        workers, scheduled, slots = self.workers, self.scheduled, self.slots
        if not 1 <= scheduled <= workers:
            raise PrivacyError(f"scheduled = {scheduled}: must be at least 1 and at most the {workers} workers")
        if not 0.0 < self.noise_watts < math.inf:
            raise PrivacyError(f"noise_watts = {self.noise_watts:g}: must be finite and above 0")
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
        """Bound on the transmit power of any worker in each kind of slot; a loud one exceeds its limit too."""
        bound = self.gain_bound if self.sent_bound is None else self.sent_bound
        gain, limit_watts = self.weakest_gain, self.max_power_watts * bound
        return tuple(
            min(self.sent_excess * value / gain if gain else math.inf, limit_watts) for value in self.received_watts
        )

    @property
    def schedule_told(self) -> bool:
        """Whether nothing may be claimed for a hidden schedule, since power or gains may tell it."""
        return self.power_tells_schedule or self.gains_tell_schedule

    @property
    def participations(self) -> int:
        """Slots that compose for the worst worker: those it had, the hard limit, or what chance all but rules out."""
        if self.worst_participations is not None:
            return self.worst_participations
        seats = self.round_length * self.scheduled
        return self.rounds if seats >= self.workers else participation_bound(self.rounds, seats, self.workers)

    @property
    def schedule_failure(self) -> float:
        """Probability with which a worker is drawn more often than ``participations``."""
        by_chance = self.worst_participations is None and self.participations < self.rounds
        return SCHEDULE_FAILURE if by_chance else 0.0

    def noise_multiplier(self, adjacency: str) -> float:
        """Return the noise deviation over one worker's move in the strongest slot, as other libraries state noise."""
        noise_watts = self.in_workers_noise().noise_watts
        square = self.sensitivity.squared_move(adjacency, "none") * max(self.received_watts) / (noise_watts / 2.0)
        return math.inf if square == 0.0 else 1.0 / math.sqrt(square)

    def scaled(self, factor: float) -> Self:
        """Return the design with ``factor`` times the power in every slot."""
        worst, at_server = (
            None if each is None else factor * each for each in (self.worst_received_watts, self.worst_server_watts)
        )
        received_watts = tuple(factor * value for value in self.received_watts)
        return replace(self, received_watts=received_watts, worst_received_watts=worst, worst_server_watts=at_server)

    def at_server(self) -> Self:
        """Return the design as the server has it with all of its antennas."""
        if self.antenna_gain == 1.0:
            return self
        if not any(self.received_watts):  # nobody sends
            return replace(self, antenna_gain=1.0, worst_server_watts=None)
        if math.isinf(self.antenna_gain) and self.worst_server_watts is None:
            raise PrivacyError(
                "air.antennas: fading puts no bound on what the server has of a worker with all antennas; use "
                "air.truncation_db, by which workers in a fade stay silent, or radio.fading = none"
            )
        all_antennas = self if math.isinf(self.antenna_gain) else self.scaled(self.antenna_gain)
        worst = all_antennas.worst_received_watts if self.worst_server_watts is None else self.worst_server_watts
        return replace(all_antennas, antenna_gain=1.0, worst_received_watts=worst, worst_server_watts=None)

    def in_workers_noise(self) -> Self:
        """Return the design with the noise that hides a worker in the sum: the receiver's, and that of the workers.

        Who hears only sums learns no more than who hears everybody. On an air that is not ideal that is all there is to
        say, since a worker may be received more strongly than others' noise.
        """
        if not self.hidden_noise_watts:
            return self
        in_sum = 0.0 if self.impaired or self.rounding else self.noise_watts + self.workers_noise_watts
        failure = 0.0 if in_sum >= self.hidden_noise_watts else self.hidden_failure
        return replace(self, noise_watts=max(in_sum, self.hidden_noise_watts), hidden_failure=failure)

    def before_the_draw(self) -> Self:
        """Return the design without what is known only after a run: it holds for any schedule."""
        return replace(
            self,
            worst_received_watts=None,
            worst_server_watts=None,
            worst_sent_watts=None,
            worst_participations=None,
        )

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
    # P(Binomial > m) is the regularised incomplete beta function at m + 1 and trials - m.
    return bisect_left(range(trials), True, key=lambda most: bool(betainc(most + 1, trials - most, chance) <= tail))
