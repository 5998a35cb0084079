"""Slots as one adversary sees them, what an accountant is, and the exact epsilon of Gaussian mechanisms composed.

Slots are described apart from the accountants that evaluate them, so that each can refuse what it cannot treat. Each
accountant lives in the file of its mathematics; ``airmixml.registries`` names ours and finds those of other packages.

``gdp`` is exact for an adversary who knows the schedule. Slots in which a worker moved the mean by Delta_t against
noise of deviation sigma_t are together one Gaussian mechanism with mu^2 = sum_t Delta_t^2 / sigma_t^2 (Dong, Roth and
Su 2022, Cor. 3.3), and its epsilon for a delta is exact (Balle and Wang 2018, Thm. 8).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Final, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, erfinv, log_ndtr, ndtri

from airmixml.messages import PrivacyError
from airmixml.privacy.facts import SHARE_FOR_TAILS, Rounding, log_cut
from airmixml.registries import ACCOUNTANTS

ADJACENCIES: Final = ("replace-one", "remove-one")
"""Neighbours: another sample on a worker, or no such worker."""
_LARGEST_SHIFT: Final = 1e200
SAMPLINGS: Final = ("none", "without-replacement", "poisson")
"""What an adversary does not know of the schedule: nothing, which of so many workers send, or each one's coin."""


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
    #: Where vectors are rounded to integers, what the shifts leave out, by kind of slots; see ``widened``.
    rounding: Rounding | None = None
    rounded: int = 0  #: of those slots, how many a worker takes part in at most
    total_at_most: float = math.inf  #: what the shifts of those add up to at most, where more is known of a worker
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

    def squared_tilts(self, epsilon: float, delta: float, share: float = SHARE_FOR_TAILS) -> tuple[float, ...]:
        """Return by how much rounding enlarges the shift of each kind of slots, for an epsilon of at most this.

        All tails that are cut take that share of delta.
        """
        assert self.rounding is not None
        told = self.rounded >= 1 and len(self.rounding.numbers) >= len(self.counts)
        require(told, "rounding: needs an entry for each kind of slots, and rounded, the slots of a worker, at least 1")
        left, numbers = self.rounded, 0
        for each, count in sorted(zip(self.rounding.numbers, self.counts, strict=False), reverse=True):
            numbers += each * min(left, count)
            left -= min(left, count)
        return self.rounding.squared_tilts(log_cut(numbers, epsilon, delta, share))

    def widened(self, epsilon: float, delta: float, share: float = SHARE_FOR_TAILS) -> Self:
        """Return one Gaussian slot that hides no more than the rounded ones, but for the tails that were cut."""
        tilts = self.squared_tilts(epsilon, delta, share)
        shifts = tuple(min(t * s, _LARGEST_SHIFT) if s else s for s, t in zip(self.squared_shifts, tilts, strict=False))
        total = replace(self, squared_shifts=shifts).strongest(self.rounded).total
        together = min(total, max(tilts) * self.total_at_most, _LARGEST_SHIFT)
        return replace(self, squared_shifts=(together,), counts=(1,), rounding=None)

    def louder(self, factor: float) -> Self:
        """Return the slots where ``factor`` times the power is received over the same noise."""
        shifts = tuple(min(factor * s, _LARGEST_SHIFT) if s else s for s in self.squared_shifts)
        return replace(self, squared_shifts=shifts, total_at_most=factor * self.total_at_most)

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


def bracket_root(
    excess: Callable[[float], float], low: float, high: float, *, tolerance: float, relative: float = 0.0
) -> tuple[float, float]:
    """Return two places, at most ``tolerance`` + ``relative`` |place| apart, between which ``excess`` becomes positive.

    The excess is at most 0 at the first place and above 0 at the second, or 0 at both, if they are the root itself. If
    it does not change its sign between ``low`` and ``high``, both places are the end that is nearer to the root. The
    method is that of Chandrupatla (1997): inverse quadratic interpolation where three points allow it, else halving.
    """
    places, values = [low, high], [excess(low), excess(high)]
    if values[0] >= 0.0 or values[1] <= 0.0:
        end = low if values[0] >= 0.0 else high
        return end, end
    newest, share = 1, 0.5
    while abs(places[1] - places[0]) > tolerance + relative * max(abs(places[0]), abs(places[1])):
        place = places[newest] + share * (places[1 - newest] - places[newest])
        if place in places:
            place = 0.5 * (places[0] + places[1])
            if place in places:
                break  # no number lies between them
        value = excess(place)
        if value == 0.0:
            return place, place
        side = int(value > 0.0)
        older = (places[side], values[side])
        places[side], values[side], newest = place, value, side
        share = _share((place, value), (places[1 - side], values[1 - side]), older)
        least = min(0.5 * tolerance / abs(places[1] - places[0]), 0.5)
        share = min(max(share, least), 1.0 - least)
    return places[0], places[1]


def _share(newest: tuple[float, float], across: tuple[float, float], older: tuple[float, float]) -> float:
    """Return how far to go from the newest place to the one across the root, as a share of the way."""
    (a, f_a), (b, f_b), (c, f_c) = newest, across, older
    if c in (a, b) or f_c in (f_a, f_b):
        return 0.5
    along, up = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
    if not (0.0 <= along <= 1.0 and 1.0 - math.sqrt(1.0 - along) < up < math.sqrt(along)):
        return 0.5
    return f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)


# Rounding of a few steps must not carry an epsilon below what holds.
_ROUNDING_MARGIN: Final = 1e-12
_NEWTON_STEPS: Final = 60
# Beyond this the rounding of mu^2/2 outweighs all else, and the bound delta <= Phi(mu/2 - epsilon/mu) is as good.
_LARGE_MU: Final = 1e6
# Below this Phi differs from 1/2 in its last digits only; a larger mu is taken instead, which loses next to nothing.
_SMALL_MU: Final = 1e-9


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return ln delta, with delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    log_first = float(log_ndtr(mu / 2.0 - epsilon / mu))
    log_ratio = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu)) - log_first
    return log_first + math.log(-math.expm1(log_ratio)) if log_ratio < 0.0 else -math.inf


def gaussian_profile(mu: ArrayLike, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Return delta of the Gaussian mechanism mu > 0 at each epsilon; arrays broadcast."""
    shift, eps = np.asarray(mu, dtype=np.float64), np.asarray(epsilon, dtype=np.float64)
    log_first = log_ndtr(shift / 2.0 - eps / shift)
    log_ratio = eps + log_ndtr(-shift / 2.0 - eps / shift) - log_first
    return np.asarray(np.exp(log_first) * -np.expm1(np.minimum(log_ratio, 0.0)))


def total_variation(mu: ArrayLike) -> NDArray[np.float64]:
    """Return delta at epsilon = 0, erf(mu / sqrt(8)); any shape."""
    return np.asarray(erf(np.asarray(mu, dtype=np.float64) / math.sqrt(8.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of the Gaussian mechanism mu at ``delta``, rounded to the private side.

    ``mu`` is the shift of the mean over the deviation of the noise, all slots together.
    """
    _check(mu, delta)
    if total_variation(mu) <= delta:
        return 0.0
    shift = max(mu, _SMALL_MU)
    enough = float(_enough(np.float64(shift), delta))
    if shift > _LARGE_MU:
        return enough
    if log_gaussian_delta(shift, 0.0) <= math.log(delta):
        return 0.0
    log_delta = math.log(delta)
    _, private = bracket_root(
        lambda epsilon: log_delta - log_gaussian_delta(shift, epsilon), 0.0, enough, tolerance=1e-13, relative=1e-14
    )
    return private * (1.0 + _ROUNDING_MARGIN) + _ROUNDING_MARGIN


def gaussian_epsilons(mu: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return ``gaussian_epsilon`` of many workers at once; same shape as ``mu``.

    Newton's method on ln delta, all workers together, from an epsilon that is large enough. ln delta is concave in
    epsilon: delta is the convolution of two log-concave functions, the chance of a larger loss and exp(-x), x >= 0. So
    every step stays on the private side.
    """
    _check(mu, delta)
    shifts, place = np.unique(np.asarray(mu, dtype=np.float64), return_inverse=True)
    clipped = np.maximum(shifts, _SMALL_MU)
    epsilons = enough = _enough(clipped, delta)
    for _ in range(_NEWTON_STEPS):
        log_first = log_ndtr(clipped / 2.0 - epsilons / clipped)
        log_second = epsilons + log_ndtr(-clipped / 2.0 - epsilons / clipped)
        # Of delta = first - second the slope in epsilon is -second.
        log_delta = log_first + np.log(-np.expm1(np.minimum(log_second - log_first, -_ROUNDING_MARGIN)))
        step = np.maximum((math.log(delta) - log_delta) * np.exp(log_delta - log_second), 0.0)
        epsilons = np.maximum(epsilons - step, 0.0)
        if (step <= _ROUNDING_MARGIN * epsilons).all():
            break
    epsilons = np.where(clipped > _LARGE_MU, enough, epsilons * (1.0 + _ROUNDING_MARGIN) + _ROUNDING_MARGIN)
    epsilons = np.where(total_variation(shifts) <= delta, 0.0, epsilons)
    return np.asarray(epsilons[place].reshape(np.shape(mu)))


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose epsilon at ``delta`` does not exceed the given one."""
    require(0.0 < epsilon < math.inf, f"epsilon = {epsilon:g}: must be finite and above 0")
    if epsilon <= gaussian_epsilon(_SMALL_MU, delta):
        return float(np.sqrt(8.0) * erfinv(delta)) * (1.0 - _ROUNDING_MARGIN)  # so little that epsilon is 0
    deviations = max(float(-ndtri(delta)), 0.0)
    mu = math.sqrt(deviations**2 + 2.0 * epsilon) - deviations  # where _enough is epsilon; private, if not the largest
    if mu <= _LARGE_MU:
        # An epsilon that, rounded up as gaussian_epsilon rounds it, is the one asked for.
        aim = max((epsilon - _ROUNDING_MARGIN) / (1.0 + _ROUNDING_MARGIN), 0.5 * epsilon)
        log_delta = math.log(delta)
        low = high = max(mu, _SMALL_MU)
        while log_gaussian_delta(high, aim) <= log_delta:
            high *= 2.0
        mu, _ = bracket_root(
            lambda shift: log_gaussian_delta(shift, aim) - log_delta, low, high, tolerance=0.0, relative=1e-14
        )
    step = _ROUNDING_MARGIN
    while gaussian_epsilon(mu, delta) > epsilon:
        mu *= 1.0 - step
        step = min(2.0 * step, 0.5)
    return mu


def _check(mu: ArrayLike, delta: float) -> None:
    values = np.asarray(mu, dtype=np.float64)
    require(bool(((values >= 0.0) & (values < 1e150)).all()), "mu: must be finite, at least 0 and below 1e150")
    require(0.0 < delta < 1.0, f"delta = {delta:g}: must lie between 0 and 1")


def _enough(mu: NDArray[np.float64] | np.float64, delta: float) -> NDArray[np.float64]:
    """Return an epsilon that is large enough: delta <= Phi(mu/2 - epsilon/mu), rounded up."""
    return np.asarray((mu**2 / 2.0 + mu * max(float(-ndtri(delta)), 0.0)) * (1.0 + _ROUNDING_MARGIN))


class ExactIfKnown(Accountant):
    """Exact where the schedule is known: all slots of a worker form one Gaussian mechanism."""

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        if mechanism.sampling == "none":
            return gaussian_epsilon(math.sqrt(mechanism.total), delta)
        return self.sampled_epsilon(mechanism, delta)

    def sampled_epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return an epsilon where the schedule is hidden."""
        raise PrivacyError(self.refusal(mechanism))


class Gdp(ExactIfKnown):
    """The exact epsilon of that mechanism, and nothing else."""

    about = "exact for a known schedule and that sensitivity (Dong, Roth, Su; Balle, Wang)"
    considers_all_views = False

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse hidden schedules: a mixture over schedules is not Gaussian."""
        return "" if mechanism.sampling == "none" else "exact only where the schedule is known; use pld"

    def power_factor(self, mechanism: GaussianSlots, epsilon: float, delta: float) -> float:
        return gaussian_mu(epsilon, delta) ** 2 / mechanism.total
