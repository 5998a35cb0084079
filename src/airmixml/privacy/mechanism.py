"""Slots as one adversary sees them, and what an accountant is: it says what it can treat, and the epsilon of that.

Slots are described apart from the accountants that evaluate them, so that each can refuse what it cannot treat. Each
accountant lives in the file of its mathematics; ``airmixml.registries`` names ours and finds those of other packages.

Slots of integers are Gaussian mechanisms but for their tails, of which a share of delta takes care. Vectors that are
rounded at random to integers, in noise of which one step in one number has mu = m, are at distance s mu-GDP up to a
total variation distance of d eta on either side (Theorem 2 of docs/trust.md), with

    mu = s m (e^(G m) - 1) / (G m),    G = m - Phi^-1(eta),

so that delta grows by (1 + e^epsilon) d eta. Sums compose: mu^2 add up, and so do the d eta.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Protocol, Self

import numpy as np
from scipy.special import ndtri_exp

from airmixml.errors import PrivacyError
from airmixml.registries import ACCOUNTANTS

ADJACENCIES: Final = ("replace-one", "remove-one")
"""Neighbours: another sample on a worker, or no such worker."""
_LARGEST_SHIFT: Final = 1e200
SAMPLINGS: Final = ("none", "without-replacement", "poisson")
"""What an adversary does not know of the schedule: nothing, which of so many workers send, or each one's coin."""

SHARE_FOR_TAILS: Final = 1e-3
"""Of delta: what is set aside for tails, in which rounding may tell more."""

COMPOSED_SHARE: Final = 1e-9
"""The same for losses that are to be added up with those of other runs, whatever epsilon comes out (up to 200)."""

_COMPOSED_EPSILON: Final = 200.0
_ROUNDING_MARGIN: Final = 1e-13
_SETTLED: Final = 1e-12
_MOST_ROUNDS: Final = 200
_LARGEST_EXPONENT: Final = 700.0


def tilt(step_mu: float, log_cut: float) -> float:
    """Return (e^(G m) - 1) / (G m), m = ``step_mu``, eta = exp(``log_cut``); infinite where too large to matter."""
    exponent = (step_mu - float(ndtri_exp(log_cut))) * step_mu
    return math.expm1(exponent) / exponent * (1.0 + _ROUNDING_MARGIN) if exponent < _LARGEST_EXPONENT else math.inf


def log_cut(numbers: int, epsilon: float, delta: float, share: float = SHARE_FOR_TAILS) -> float:
    """Return ln eta with (1 + e^epsilon) d eta = the share of delta that is set aside."""
    assumed = max(epsilon, 0.0)
    return math.log(share * delta / numbers) - assumed - math.log1p(math.exp(-assumed))


def settled_epsilon(found: Callable[[float], float]) -> float:
    """Return the least e with ``found(e)`` <= e, or infinity; what is found hardly grows with what is assumed."""
    assumed = 0.0
    for _ in range(_MOST_ROUNDS):
        epsilon = found(assumed)
        if epsilon <= assumed or math.isinf(epsilon):
            return epsilon
        assumed = epsilon * (1.0 + _SETTLED) + _SETTLED
    return math.inf


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What makes sums of integers other than Gaussian."""

    step_mu: float  # m, of a single step in a single number
    numbers: int  # d, that are rounded in all sums together

    def times(self, sums: int) -> "Rounding":
        """Return that of so many sums."""
        return Rounding(step_mu=self.step_mu, numbers=self.numbers * sums)

    def squared_tilt(self, epsilon: float, delta: float) -> float:
        """Return by how much mu^2 is larger than without rounding, for an epsilon of at most this."""
        return tilt(self.step_mu, log_cut(self.numbers, epsilon, delta)) ** 2

    def composed_tilt(self, delta: float) -> float:
        """Return the same for losses that are added up with others; ``COMPOSED_SHARE`` of delta goes to tails."""
        return tilt(self.step_mu, log_cut(self.numbers, _COMPOSED_EPSILON, delta, COMPOSED_SHARE)) ** 2


def require(fits: bool, otherwise: str) -> None:
    """Raise a PrivacyError with that message unless something fits."""
    if not fits:
        raise PrivacyError(otherwise)


@dataclass(frozen=True, kw_only=True)
class GaussianSlots:
    """Slots in a row, each a Gaussian mechanism on the workers that were scheduled."""

    #: s = (move of the mean)^2 / (noise variance) of each kind of slot, the epsilon_t(2) of the paper.
    squared_shifts: tuple[float, ...]
    counts: tuple[int, ...]  #: how many slots are of that kind
    #: "replace-one" (another sample on the same worker) or "remove-one" (no such worker; where the schedule is known or
    #: told: the worker keeps its seat and sends nothing).
    adjacency: str
    #: "none" if the adversary knows in which slots the worker took part (only those are listed), else how the hidden
    #: set of each slot was drawn: "without-replacement" (exactly ``sampled`` of ``population``), or "poisson" (each
    #: worker on its own, with probability ``sampled / population``).
    sampling: str = "none"
    sampled: int = 1  #: workers per slot
    population: int = 1  #: workers they are drawn from
    squared_move: float = 1.0  #: the bound on what one worker moves that the shifts were made with, for the record
    composed: int = 0  #: slots or rounds behind the shifts where these are already a sum, for the record
    #: Which schedule it is about: a random one, any that keeps the limit, or the one that was drawn.
    given: str = "a random schedule"
    schedule_failure: float = 0.0  #: probability with which a worker is drawn more often than the shifts assume
    #: Probability, a part of delta, with which a worker is received more strongly than the shifts assume.
    gain_failure: float = 0.0
    hidden_failure: float = 0.0  #: probability with which less noise than the shifts assume hides a worker
    #: Where vectors are rounded to integers, what the shifts leave out; see ``Rounding``.
    rounding: Rounding | None = None
    #: How many such neighbours lie between those that are meant: 2 for a replacement seen as a removal and an addition.
    steps: int = 1
    why: str = field(default="", compare=False)  #: why the adversary faces this mechanism, in words

    def __post_init__(self) -> None:
        for name, allowed in (("adjacency", ADJACENCIES), ("sampling", SAMPLINGS)):
            value = getattr(self, name)
            require(value in allowed, f"{name} = {value!r}: must be one of {', '.join(allowed)}")
        if not len(self.squared_shifts) == len(self.counts) > 0:
            raise PrivacyError("squared_shifts and counts: must be of the same length, at least 1")
        if not all(math.isfinite(value) and value >= 0.0 for value in self.squared_shifts):
            largest = max(self.squared_shifts)
            raise PrivacyError(f"squared shifts up to {largest:g}: must be finite and at least 0; lower the power")
        require(min(self.counts) >= 0, f"counts down to {min(self.counts)}: must be at least 0")
        if not 1 <= self.sampled <= self.population:
            raise PrivacyError(
                f"sampled = {self.sampled}: must be at least 1 and at most the {self.population} workers"
            )

    @property
    def sampling_rate(self) -> float:
        """r, the share of the workers in a slot; 1 where the schedule is known."""
        return 1.0 if self.sampling == "none" else self.sampled / self.population

    @property
    def slots(self) -> int:
        """Number of slots."""
        return sum(self.counts)

    @property
    def kinds(self) -> list[tuple[float, int]]:
        """Squared shift and number of slots of each kind that has any."""
        return [(s, count) for s, count in zip(self.squared_shifts, self.counts, strict=True) if count]

    @property
    def total(self) -> float:
        """mu^2, the sum over all slots: they are together one Gaussian mechanism if the schedule is known."""
        return math.fsum(count * s for s, count in self.kinds)

    def widened(self, squared_tilt: float) -> Self:
        """Return the Gaussian slots that hide no more than rounded ones, but for the tails that were cut."""
        shifts = tuple(min(squared_tilt * s, _LARGEST_SHIFT) if s else s for s in self.squared_shifts)
        return replace(self, squared_shifts=shifts, rounding=None)

    def louder(self, factor: float) -> Self:
        """Return the slots where ``factor`` times the power is received over the same noise."""
        return replace(self, squared_shifts=tuple(min(factor * s, _LARGEST_SHIFT) for s in self.squared_shifts))

    def as_drawn(self) -> Self:
        """Return a Poisson schedule of replace-one neighbours as a draw without replacement, whose bounds cover it.

        The bounds for a draw ask that the slots with either sample and those without the worker lie no further apart,
        two by two, than the move. Where a worker's own coin leaves its seat empty that holds too, if the move is no
        less than the norm of what it sends.
        """
        if self.sampling == "poisson" and self.adjacency == "replace-one":
            return replace(self, sampling="without-replacement")
        return self

    def strongest(self, slots: int) -> Self:
        """Return only the slots with the largest shifts, that many of them."""
        left, kept = slots, []
        for s, count in sorted(zip(self.squared_shifts, self.counts, strict=True), reverse=True):
            kept.append((s, min(left, count)))
            left -= kept[-1][1]
        return self._of_kinds(kept)

    def coarsened(self, most_kinds: int) -> Self:
        """Return at most that many kinds of slots, each shift rounded up; never more private than it was."""
        if len(self.kinds) <= most_kinds:
            return self
        shifts, counts = (np.array(values, dtype=np.float64) for values in zip(*sorted(self.kinds), strict=True))
        log_shifts = np.log(np.maximum(shifts, 1e-300))
        # Kinds near the largest decide the loss, so nothing is lost by lumping what lies 60 dB below together.
        low = max(log_shifts[0], log_shifts[-1] - 6.0 * math.log(10.0))
        edges = np.linspace(low, log_shifts[-1], most_kinds)
        place = np.minimum(np.searchsorted(edges, log_shifts - 1e-12), most_kinds - 1)
        return self._of_kinds(
            [(float(shifts[place == k].max()), int(counts[place == k].sum())) for k in np.unique(place)]
        )

    def _of_kinds(self, kinds: list[tuple[float, int]]) -> Self:
        return replace(self, squared_shifts=tuple(s for s, _ in kinds), counts=tuple(count for _, count in kinds))


class Accountant(Protocol):
    """Turns slots into an epsilon. A subclass is made without arguments; what it does not define is as here."""

    about: ClassVar[str]  #: what it is, in one line
    #: Whether the least epsilon over all valid descriptions of the slots is taken, or the bound stays what it is in
    #: print.
    considers_all_views: ClassVar[bool] = True
    #: Whether ``power_factor`` usually knows the answer, so that a calibration takes no time.
    closed_form: ClassVar[bool] = False

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Return why the mechanism cannot be treated; empty if it can."""
        return ""

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return an epsilon that holds at ``delta``, never too small a one."""

    def quick_epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return an epsilon that holds too but may be larger, for searches over many designs."""
        return self.epsilon(mechanism, delta)

    def power_factor(self, mechanism: GaussianSlots, epsilon: float, delta: float) -> float | None:
        """Return by how much the power may be multiplied to give ``epsilon``; None where that has no closed form."""
        return None


def accountant_named(name: str) -> Accountant:
    """Return the accountant of that name, or raise an error that names the nearest one."""
    accountant: Accountant = ACCOUNTANTS.make(name)
    return accountant
