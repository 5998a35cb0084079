"""Channels: path loss, small-scale fading, how weak it may get, and shadows.

Path loss follows from the distance, by one class for each kind, behind ``PATH_LOSSES``; it must not fall with it.
Fading is the law of abs(g), one class for each kind, behind ``FADINGS``: the same for every worker, antenna and slot.
So statements about a hidden schedule hold whatever the law is. Bounds on errors that are relative to a channel follow
from the Rician K alone; a fading that has none is refused where they are needed. An error e / h grows without bound
where fading has no floor: truncated inversion gives it one.

Shadowing is the same for a whole run: a normal number of decibels (3GPP TR 38.901, 7.4.1), cut at three standard
deviations, which gives path loss a floor.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import chndtr, ndtr, ndtri

from airmixml.arrays import Doubles, db_to_ratio, own_numbers, torch
from airmixml.messages import PluginError
from airmixml.randomness.slot_words import SlotWords, exponentials, normal_pairs
from airmixml.scenario import Radio, Scenario
from airmixml.streams import Streams

_HALVINGS: Final = 60
FAINTEST: Final = 1e-9  # times its mean amplitude: no channel is weaker, so that one can divide by it
MOST_FADINGS: Final = 1 << 10  # coherence times of a slot; more are refused (``impairments.renewal``)
_SHADOWS, _SHADOWS_TO_LISTENER = 2, 3  # chapters of the stream "air"
_CUT: Final = 3.0  # standard deviations
_TRIED: Final[Doubles] = np.asarray((np.arange(1000) + 0.5) / 1000.0, dtype=np.float64)


class Fading:
    """A law of the power abs(g)^2, of mean 1, given by its quantiles."""

    about: str

    def quantile(self, chances: Doubles) -> Doubles:
        """Return the powers below which abs(g)^2 lies with these probabilities, all above 0 and below 1; same shape."""
        raise NotImplementedError

    def rician_k(self, radio: Radio) -> float | None:
        """Return K where abs(g) has a Rician law: 0 is Rayleigh fading, infinity none. None: it has another law."""
        return None

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        """Draw abs(g) to one of the server's antennas; slots x scheduled."""
        chances = source.uniforms(slots, scheduled, antenna)
        given: Doubles = chances.cpu().numpy().astype(np.float64, copy=False)
        return torch.from_numpy(np.sqrt(self._powers(given))).to(chances.device)

    def share_below(self, radio: Radio, power: float) -> float:
        """Return how often abs(g)^2 is below a power."""
        if np.any(np.diff(self._powers(_TRIED)) < 0.0):
            raise PluginError(f"radio.fading = {type(self).__name__}: its quantile falls; must rise with the chances")
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            below = middle < 1.0 and float(self.quantile(np.array([middle]))[0]) < power
            low, high = (middle, high) if below else (low, middle)
        return low

    def _powers(self, chances: Doubles) -> Doubles:
        """Return the quantiles; a power that no channel can have is refused."""
        return own_numbers(
            lambda: self.quantile(chances),
            chances.shape,
            lambda powers: (powers > 0.0) & (powers < math.inf),
            f"radio.fading = {type(self).__name__}: its quantile must return one power for each chance, finite and "
            "above 0",
        )


class RicianFading(Fading):
    """abs(sqrt(K / (K + 1)) + CN(0, 1 / (K + 1))): K = 0 is Rayleigh, K = infinity is none."""

    about = "a direct path and scattered ones"

    def rician_k(self, radio: Radio) -> float:
        return radio.rician_k

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        scattered_share = 1.0 / (1.0 + radio.rician_k)
        pairs = normal_pairs(source.words(slots, scheduled, antenna))
        along, across = (math.sqrt(scattered_share / 2.0) * part for part in pairs)
        # Not by hypot, which rounds differently at the end of a row of numbers.
        return (math.sqrt(1.0 - scattered_share) + along).square_().add_(across.square_()).sqrt_().clamp_(min=FAINTEST)

    def share_below(self, radio: Radio, power: float) -> float:
        """2 (K + 1) abs(g)^2 is noncentral chi-square with two degrees of freedom and noncentrality 2 K."""
        direct = self.rician_k(radio)
        return float(chndtr(2.0 * (direct + 1.0) * power, 2, 2.0 * direct))


class RayleighFading(RicianFading):
    """abs(CN(0, 1)), whose square is exponential."""

    about = "scattered paths alone"

    def rician_k(self, radio: Radio) -> float:
        return 0.0

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        return exponentials(source.words(slots, scheduled, antenna)).sqrt_()


class NoFading(RicianFading):
    """abs(g) = 1."""

    about = "none: every channel has its mean"

    def rician_k(self, radio: Radio) -> float:
        return math.inf

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        return torch.ones((len(slots), scheduled), dtype=torch.float64, device=source.device)


def choose_antenna(
    scenario: Scenario, magnitude: torch.Tensor, path_gain: torch.Tensor, slots: range, source: SlotWords
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return abs(h) to the antenna whose weakest worker is strongest, and sum_a |h_a|^2 / |h|^2; slots x scheduled.

    ``magnitude`` is abs(h) to the first antenna, the path gain that without fading. One antenna at a time, in constant
    memory.
    """
    antennas = scenario.air.antennas
    if scenario.radio.fading == "none":  # all antennas are alike
        return magnitude, torch.full_like(magnitude, float(antennas))
    chosen, weakest, together = magnitude, magnitude.amin(dim=1), magnitude.square()
    for antenna in range(1, antennas):
        other = path_gain * scenario.radio.fading_kind.draw(scenario.radio, slots, magnitude.shape[1], source, antenna)
        together = together + other.square()
        its_weakest = other.amin(dim=1)
        better = its_weakest > weakest
        chosen = torch.where(better[:, None], other, chosen)
        weakest = torch.where(better, its_weakest, weakest)
    return chosen, together / chosen.square()


def draw_phase(slots: range, scheduled: int, source: SlotWords) -> torch.Tensor:
    """Draw arg h, uniform and independent of |h| since the phase of the direct path is; slots x scheduled."""
    return source.uniforms(slots, scheduled).mul_(2.0 * math.pi)


def draw_magnitude(
    radio: Radio, worker_path_gain: torch.Tensor, scheduled_workers: torch.Tensor, slots: range, source: SlotWords
) -> torch.Tensor:
    """Draw |h| of the scheduled workers (slots x scheduled) from each worker's path gain (shape workers)."""
    magnitude = worker_path_gain[scheduled_workers]
    if radio.fading == "none":
        return magnitude
    return magnitude.mul_(radio.fading_kind.draw(radio, slots, scheduled_workers.shape[1], source))


def fades(scenario: Scenario) -> bool:
    """Return whether channels differ from their mean at all."""
    return bool(scenario.radio.fading_kind.rician_k(scenario.radio) != math.inf)


def renews(scenario: Scenario) -> bool:
    """Return whether fading is drawn anew within a slot, after every coherence time."""
    return fades(scenario) and scenario.air.blocks_per_fading > 0


def weakest_fading(scenario: Scenario) -> float:
    """Return the least power of a sender's channel over its mean, 1 without fading, 0 without ``air.truncation_db``."""
    if not fades(scenario):
        return 1.0
    return db_to_ratio(scenario.air.truncation_db)


def silent_share(scenario: Scenario) -> float:
    """Return the share of the scheduled workers that do not send: absent, or in a fade that lasts for a whole slot."""
    in_fade, floor = 0.0, weakest_fading(scenario)
    if fades(scenario) and floor > 0.0 and not renews(scenario):
        in_fade = scenario.radio.fading_kind.share_below(scenario.radio, floor)
    return 1.0 - (1.0 - scenario.air.absent) * (1.0 - in_fade)


def largest_ratio(scenario: Scenario, variance: float, failure: float) -> float:
    """Return what abs(e / h) exceeds with at most that probability, e ~ CN(0, variance), h of mean power 1.

    Where abs(h)^2 has a floor c that is sqrt(variance ln(1 / failure) / c), since abs(e)^2 is exponential. Without one
    it is sqrt((K + 1) variance / failure): the density of h is at most (K + 1) / pi, so that
    P(abs(h)^2 < y) <= (K + 1) y, and the probability is at most (K + 1) E abs(e)^2 / x^2. Rayleigh fading has K = 0.
    """
    floor = weakest_fading(scenario)
    if floor > 0.0:
        return math.sqrt(variance * math.log(1.0 / failure) / floor)
    direct = scenario.radio.direct_path
    return math.sqrt((direct + 1.0) * variance / failure)


def draw_shadowing(scenario: Scenario, workers: int, *, to_listener: bool = False) -> Doubles:
    """Draw the amplitude gain of every worker's shadow, towards the server or a listener elsewhere; shape workers."""
    deviation_db = scenario.air.shadowing_db
    if not deviation_db:
        return np.ones(workers)
    share = Streams(scenario.seed).generator("air", _SHADOWS_TO_LISTENER if to_listener else _SHADOWS).random(workers)
    lowest = ndtr(-_CUT)
    return np.asarray(10.0 ** (deviation_db * ndtri(lowest + share * (1.0 - 2.0 * lowest)) / 20.0))


def deepest_shadow(scenario: Scenario) -> float:
    """Return the power gain of the deepest shadow; 1 without."""
    return db_to_ratio(-_CUT * scenario.air.shadowing_db)


_TRIED_DISTANCES: Final = 200  # at which a loss of one's own is looked at where a bound rests on it


class PathLoss:
    """A loss in decibels that follows from the distance alone."""

    about: str

    def loss_db(self, distance_metres: Doubles) -> Doubles:
        """Return by how many decibels power falls over each distance; same shape. It must not fall with distance."""
        raise NotImplementedError

    def gain(self, radio: Radio, distance_metres: Doubles) -> Doubles:
        """Return the amplitude gain at each distance; same shape."""
        named = f"radio.path_loss = {type(self).__name__}: its loss_db"
        wrong = f"{named} must return one finite number for each distance"
        loss = own_numbers(lambda: self.loss_db(distance_metres), distance_metres.shape, np.isfinite, wrong)
        if np.any(np.diff(loss[np.argsort(distance_metres)]) < 0.0):
            raise PluginError(f"{named} falls with the distance; must rise or stay the same")
        return np.asarray(10.0 ** (-loss / 20.0))


class PowerLaw(PathLoss):
    """beta_U d^-n, the paper's."""

    about = "radio.path_loss_exponent and radio.unit_path_loss_db"

    def gain(self, radio: Radio, distance_metres: Doubles) -> Doubles:
        unit = math.sqrt(db_to_ratio(radio.unit_path_loss_db))
        return np.asarray(unit * distance_metres ** (-radio.path_loss_exponent / 2.0))


def worker_path_gain(scenario: Scenario, distance_metres: Doubles) -> Doubles:
    """Return the amplitude gain of all workers of a scenario, with the shadows that they are in; shape workers."""
    gain: Doubles = scenario.radio.path_loss_kind.gain(scenario.radio, distance_metres)
    return gain * draw_shadowing(scenario, len(gain)) if scenario.air.shadowing_db else gain


def weakest_gain(scenario: Scenario, distance_metres: Doubles | None = None) -> float:
    """Return the power gain of the weakest channel a sending worker may have; 0 if fading leaves no floor.

    That is the farthest corner, or the farthest of the given workers, in the deepest shadow and the deepest fade sent
    in.
    """
    if scenario.radio.fading != "none" and scenario.air.truncation_db == -math.inf:
        return 0.0
    corner = scenario.workers.farthest_metres
    farthest = corner if distance_metres is None else max(corner, float(distance_metres.max()))
    nearest = min(scenario.workers.min_distance_metres, farthest)
    gain = float(_gains_between(scenario, nearest, farthest)[-1])
    return weakest_fading(scenario) * deepest_shadow(scenario) * gain**2


def best_power_gain(scenario: Scenario, distance_metres: float) -> float:
    """Return the power gain of the best channel of at least so many metres without fading: in the lightest shadow."""
    gains = _gains_between(scenario, distance_metres, max(distance_metres, scenario.workers.farthest_metres))
    return float(gains[0]) ** 2 * db_to_ratio(_CUT * scenario.air.shadowing_db)


def _gains_between(scenario: Scenario, nearest: float, farthest: float) -> Doubles:
    """Return amplitude gains at distances at which a loss that does not rise would show."""
    distances = np.linspace(nearest, farthest, _TRIED_DISTANCES)
    gains: Doubles = scenario.radio.path_loss_kind.gain(scenario.radio, distances)
    return gains
