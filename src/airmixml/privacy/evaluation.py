"""From a design to the least epsilon that an accountant certifies, and from a target back to power.

A calibrated power is the largest that an accountant still certifies, always on the private side.

Against receiver noise an epsilon assumes a number of antennas, a noise floor and amplitudes. A factor f in power, from
whichever of them, is a factor f of every squared shift: sqrt(f) of mu.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from airmixml.arrays import db_to_ratio, watts_to_dbm
from airmixml.messages import PrivacyError
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.facts import SHARE_FOR_TAILS, Antennas, ImperfectAir, Transmitters, WorkersNoise
from airmixml.privacy.gaussian import GaussianSlots, accountant_named, bracket_root, gaussian_mu, require
from airmixml.privacy.paper_bounds import smallest_certifiable_epsilon

# Beyond this a delta is needed that no accountant resolves.
_LARGEST_STEP: Final = 300.0
_HEADROOM: Final = 1.01
_WIDEST: Final = 1e30
_TOLERANCE: Final = 1e-4
_QUICK_TOLERANCE: Final = 0.02
ROUNDING: Final = 1e-12
"""What is sent is rounded a few times on its way; that must not carry it above the target."""

LOUDER_DB: Final = (3.0, 10.0)
"""How much stronger a worker may be received than assumed: a quieter receiver, a louder transmitter."""
MANY_ANTENNAS: Final = 64
"""Antennas of an ordinary base station."""
_MANY: Final = f"{MANY_ANTENNAS} antennas"


@lru_cache(maxsize=4096)
def certified_epsilon(accountant: str, mechanism: GaussianSlots, delta: float, *, quickly: bool = False) -> float:
    """Return the accountant's epsilon, or raise a PrivacyError that says why it has none."""
    chosen = accountant_named(accountant)
    refusal = chosen.refusal(mechanism)
    kind = f"sampling {mechanism.sampling} with {mechanism.adjacency} neighbours"
    require(not refusal, f"privacy.accountant = {accountant!r}: cannot treat {kind}: {refusal}")
    require(0.0 < delta < 1.0, f"privacy.delta = {delta:g}: must lie between 0 and 1")
    delta = left_of(delta, mechanism)
    epsilon_of = chosen.quick_epsilon if quickly else chosen.epsilon
    if mechanism.rounding is not None:  # Gaussian slots, with a share of delta set aside for tails
        left = delta * (1.0 - SHARE_FOR_TAILS)
        return settled_epsilon(lambda assumed: epsilon_of(mechanism.widened(assumed, delta), left))
    return epsilon_of(mechanism, delta) if mechanism.steps == 1 else _in_steps(epsilon_of, mechanism, delta)


def left_of(delta: float, mechanism: GaussianSlots) -> float:
    """Return delta less the probability with which a gain exceeds its bound, which is independent of data."""
    failure = mechanism.gain_failure
    require(failure < delta, f"air.gain_failure: {failure:g} for one worker; must be below privacy.delta = {delta:g}")
    return delta - failure


_SETTLED: Final = 1e-12
_MOST_ROUNDS: Final = 200


def settled_epsilon(found: Callable[[float], float]) -> float:
    """Return the least e with ``found(e)`` <= e, or infinity; what is found hardly grows with what is assumed."""
    assumed = 0.0
    for _ in range(_MOST_ROUNDS):
        epsilon = found(assumed)
        if epsilon <= assumed or math.isinf(epsilon):
            return epsilon
        assumed = epsilon * (1.0 + _SETTLED) + _SETTLED
    return math.inf


def _in_steps(epsilon_of: Callable[[GaussianSlots, float], float], mechanism: GaussianSlots, delta: float) -> float:
    """Return the epsilon of neighbours n steps apart: (n e, (1 + exp e + ... + exp((n - 1) e)) d) where one has (e, d).

    The smaller d must be, the larger e gets, so it is raised until the two agree; infinite where d becomes 0.
    """
    step, steps = 0.0, mechanism.steps
    while (steps - 1) * step < _LARGEST_STEP:
        enough = _HEADROOM * step
        smaller = delta / math.fsum(math.exp(place * enough) for place in range(steps))
        if not smaller:
            break
        found = epsilon_of(mechanism, smaller)
        if found <= enough:
            return steps * found
        step = found
    return math.inf


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a design: against whom, by which accountant, for which neighbours and delta."""

    adversary: Adversary
    accountant: str
    adjacency: str
    delta: float

    def views(self, design: Design) -> tuple[GaussianSlots, ...]:
        """Return the descriptions of the slots over which the least epsilon is taken.

        Renyi and privacy-loss accounting take all. The paper's bounds stay what they are in print, and ``gdp`` leaves
        hidden schedules to others, unless participations are limited: then a known schedule is what to fall back on.
        """
        views = self.adversary.views(design, self.adjacency)
        every = accountant_named(self.accountant).considers_all_views or design.max_participations
        return views if every else views[:1]

    def refusal(self, design: Design) -> str:
        """Return why the accountant can treat no view of the adversary; empty if it can treat one."""
        reasons = [accountant_named(self.accountant).refusal(view) for view in self.views(design)]
        return "" if "" in reasons else reasons[0]

    def epsilon(self, design: Design, *, quickly: bool = False, louder: float = 1.0) -> tuple[float, GaussianSlots]:
        """Return the least epsilon over the views that the accountant treats, and the view that gives it.

        ``louder`` is a factor in the power that the adversary receives, beside what the design says.
        """
        found: list[tuple[float, GaussianSlots]] = []
        problems: list[PrivacyError] = []
        for each in self.views(design):
            view = each if louder == 1.0 else each.louder(louder)
            try:
                found.append((certified_epsilon(self.accountant, view, self.delta, quickly=quickly), view))
            except PrivacyError as problem:
                problems.append(problem)
        if not found:
            raise problems[0]
        return min(found, key=lambda pair: pair[0])

    def if_better(self, design: Design) -> dict[str, float | None]:
        """Return the epsilon for each better receiver, None where none is certified.

        Empty where the adversary's own receiver does not count, since workers bring their noise.
        """
        found: dict[str, float | None] = {}
        adversary, of_server = self.adversary, design.fact(Antennas)
        factors = better_receivers(adversary.antennas(design)) if adversary.hears(design) else {}
        if _MANY in factors and of_server.many and not adversary.own_receiver:
            factors[_MANY] = of_server.many / of_server.gain  # a fading channel gains more than their number
        for name, factor in factors.items():
            try:
                # Nothing bounds what infinitely many times the power has of a worker.
                epsilon = math.inf if math.isinf(factor) else self.epsilon(design, louder=factor, quickly=True)[0]
            except PrivacyError:
                epsilon = math.inf
            found[name] = epsilon if epsilon < math.inf else None
        return found

    def if_withstood(self, design: Design) -> float | None:
        """Return the epsilon if as many collude as the design withstands; None if nothing is certified."""
        left = design.fact(WorkersNoise).if_withstood
        with suppress(PrivacyError):
            return None if left is None else self.epsilon(design.stating(left))[0]
        return None

    def check_target(self, design: Design, epsilon: float) -> None:
        """Raise a PrivacyError if the accountant could not certify the target at any power."""
        smallest, _ = self.epsilon(design.scaled(0.0))
        if epsilon > smallest:
            return
        is_logarithm = math.isclose(smallest, smallest_certifiable_epsilon(self.delta))
        above = f"ln(1/delta) = {smallest:.4f}" if is_logarithm else f"{smallest:.4g}"
        raise PrivacyError(
            f"privacy.epsilon = {epsilon:g}: {self.accountant} certifies only epsilon above {above} for privacy.delta "
            f"= {self.delta:g}; ask for more, for a larger delta, or for privacy.accountant = pld"
        )

    def guess_factor(self, design: Design, epsilon: float) -> float:
        """Return about what ``calibrate_power`` would, at once and without any promise."""
        guesses = []
        for view in self.adversary.views(design, self.adjacency):
            # Many sampled slots are nearly a Gaussian mechanism, mu^2 = r^2 T (e^s - 1); if nothing is hidden, exactly.
            together, rate = gaussian_mu(epsilon, self.delta) ** 2 / view.slots, view.sampling_rate
            allowed = together if rate == 1.0 else math.log1p(together / rate**2)
            guesses.append(allowed / max(view.squared_shifts))
        return max(guesses)

    def closed_form(self, design: Design, epsilon: float) -> float | None:
        """Return the largest factor that one of the views allows; None where a view has no closed form."""
        if self.adversary.own_receiver and math.isfinite(design.fact(Transmitters).limit_watts):
            return None  # more power asked for may not be more power sent: the limit may hold down what it hears
        if design.fact(WorkersNoise).rounding is not None:
            return None
        treats = accountant_named(self.accountant)
        views = [view for view in self.views(design) if not treats.refusal(view)]
        factors = [treats.power_factor(view, epsilon, left_of(self.delta, view)) for view in views]
        known = [factor for factor in factors if factor is not None]
        return max(known) if known and len(known) == len(factors) else None


def air_in_words(design: Design, adversary: Adversary, mechanism: GaussianSlots | None = None) -> str:
    """Return what is assumed of an imperfect air: the bound on gains, how it may fail, and the noise; else nothing.

    Gains are drawn without regard to data. A bound that fails with probability f makes (epsilon, delta - f) one of
    (epsilon, delta): delta contains f.
    """
    air = design.fact(ImperfectAir)
    if not design.says(ImperfectAir) or design.says(WorkersNoise):  # a worker's own noise grows with its gain
        return ""
    failure = air.gain_failure if mechanism is None else mechanism.gain_failure
    mean = f" ({air.in_rounds[-1]:.4g} times in the mean of all rounds)" if air.in_rounds else ""
    unless = f", except with probability {failure:.2g} (in delta)" if failure else ""
    received = f"no worker is received with more than {air.gain_bound:.4g} times the planned power{mean}{unless}"
    return f"{received}, over noise of at least {watts_to_dbm(adversary.noise_watts(design)):.4g} dBm"


def better_receivers(antennas: int) -> dict[str, float]:
    """Return what may be better than assumed, and by which factor in power; 0 antennas: they do not matter."""
    factors = {f"+{decibels:g} dB": db_to_ratio(decibels) for decibels in LOUDER_DB}
    return factors | ({_MANY: MANY_ANTENNAS / antennas} if 0 < antennas < MANY_ANTENNAS else {})


@lru_cache(maxsize=1024)
def calibrate_power(
    design: Design,
    adversary: Adversary,
    accountant: str,
    *,
    adjacency: str,
    epsilon: float,
    delta: float,
    quickly: bool = False,
) -> float:
    """Return the largest factor by which the design's power may be multiplied to keep (epsilon, delta).

    ``design`` gives the shape: one kind of slot, or several with powers in a given proportion. The accountant, asked
    again about the scaled design, gives at most ``epsilon``. Where no closed form is known the factor is within 0.01 %
    of the largest; ``quickly``, for searches over many designs, within a few per cent.
    """
    asked = Question(adversary=adversary, accountant=accountant, adjacency=adjacency, delta=delta)
    asked.check_target(design, epsilon)

    def spent(factor: float) -> float:
        return asked.epsilon(design.scaled(factor), quickly=quickly)[0]

    proportions = "received_watts: all are 0; calibration scales powers, so give their proportions"
    require(any(design.received_watts), proportions)
    factor, step = asked.closed_form(design, epsilon), ROUNDING
    if factor is None:
        step = _QUICK_TOLERANCE if quickly else _TOLERANCE
        factor = _root(lambda factor: spent(factor) - epsilon, asked.guess_factor(design, epsilon), step)
    while spent(factor * (1.0 - ROUNDING)) > epsilon:
        factor *= 1.0 - step
        step = min(2.0 * step, 0.5)
    return factor * (1.0 - ROUNDING)


def _root(excess: Callable[[float], float], guess: float, tolerance: float) -> float:
    """Return where the excess turns positive, within the tolerance; the excess grows with the factor."""
    low = high = guess
    while excess(low) > 0.0:
        high, low = low, low / 3.0
        if low < guess / _WIDEST:
            raise PrivacyError("privacy.epsilon: no power keeps this target; ask for more, or for another adversary")
    while high == low or excess(high) <= 0.0:
        low, high = high, high * 3.0
        if high > guess * _WIDEST:
            return high  # the target is kept at any power
    private, _ = bracket_root(
        lambda log_factor: excess(math.exp(log_factor)), math.log(low), math.log(high), tolerance=tolerance
    )
    return math.exp(private)
