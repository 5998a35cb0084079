"""What no gain of a run exceeds, except with a stated probability, and how much gains differ from each other.

Powers are lowered by the first; what is left of masks goes with the second. The server as adversary has all of its
antennas: what it can tell of a worker grows with P sum_a |h_a|^2 instead of P |h|^2.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from scipy.special import gammaincc, gammainccinv

from airmixml.arrays import Doubles, db_to_ratio
from airmixml.impairments.fading import MOST_FADINGS, fades, renews, weakest_fading
from airmixml.impairments.frame import Frame, frame_of
from airmixml.impairments.gain_laws import Error, GaussianError, SumBound, gain_failure_of, joint_bound, joint_sum_bound
from airmixml.impairments.gains import SeatDraws, draw_gains, impairments_of
from airmixml.impairments.renewal import echoes_of
from airmixml.impairments.timing import pulse_of, smears
from airmixml.privacy.gaussian import bracket_root
from airmixml.randomness.slot_words import SlotWords, slot_words
from airmixml.scenario import Radio, Scenario
from airmixml.streams import Streams

# More pieces than any slot has, where it is not known how many symbols a worker sends.
_MOST_PIECES: Final = 1 << 20
_RARE, _FREQUENT = 1e-30, 1e-3  # probabilities of failure at which a bound that never fails is the same
_ROUNDING: Final = 1e-9
_SHARE_OF_FAILURE: Final = 0.5  # the rest is that of all other gains
_TINY, _POINTS = 1e-320, 1024


def largest_power_gain(scenario: Scenario, seats: int, symbols: int = 0) -> float:
    """Return what no abs(g)^2 of so many seats of all slots exceeds, except with probability ``gain_failure_of``.

    ``symbols`` are those that a worker sends in a slot; 0: it is not known. A union bound over seats; in each,
    P(own gain of the slot times that of some place > x) <= E min(1, n T(x / own)), where T is how often the gain of one
    of the n places (pieces, or blocks where nothing moves within one) exceeds its argument, in the mean over the fading
    of that place. T is larger the weaker the channel: the disc abs(1 + e) <= x holds e = 0 for x >= 1, and shrinks
    with e's deviation; below its mean a gain counts as its mean. So a cell of fading powers counts as its weakest.
    """
    impairments = impairments_of(scenario)
    if never_exceeded(scenario):
        return math.prod(float(impairment.largest_power_gain(_RARE)) for impairment in impairments)
    alone, errors, places, each = _joined(scenario, seats, symbols, _failure(scenario))
    joint = joint_bound(errors, _direct(scenario, errors), weakest_fading(scenario), places, seats / each)
    return alone * joint**2 * (1.0 + _ROUNDING)


class GainsInRounds(NamedTuple):
    """What a worker's gains in rounds, one in each, add up to at most; of workers that send in all of them.

    What is drawn anew in every slot has a mean far below its largest, and of Gaussian mechanisms mu^2 adds up: the sum
    decides. What stays with a worker is as large in every slot.
    """

    at_chosen: tuple[float, ...]  # bound on the mean gain of the first, the first two ... rounds, at one antenna
    at_server: tuple[float, ...]  # the same at all antennas of the server

    @staticmethod
    def means(sums: SumBound | None, largest: float, rounds: int) -> tuple[float, ...]:
        """Return bounds on the mean of the first, the first two ... rounds; None: each is at most the largest."""
        every = range(1, rounds + 1)
        return tuple(largest if sums is None else min(sums.total(each) / each, largest) for each in every)

    def mean(self, rounds: int, *, at_server: bool = False) -> float:
        """Return the bound on the mean gain of so many rounds, at one antenna or at all of the server's."""
        return (self.at_server if at_server else self.at_chosen)[rounds - 1]


@lru_cache(maxsize=64)
def gains_in_rounds(scenario: Scenario, largest: float, most_antennas: float, symbols: int) -> GainsInRounds | None:
    """Return what gains in rounds add up to; None where only the largest of any slot is known, which is given.

    That is so where a worker sends in some slots alone: those that it has may be its strongest. Of the failure that a
    run has, rounds have a share by their number; the rest is that of the largest gains in the other slots.
    """
    radio, workers, rounds = scenario.radio, scenario.workers.count, scenario.learner.rounds
    in_all = scenario.all_send and not radio.max_participations
    if rounds < 2 or not in_all or scenario.workers.sends != "moments" or math.isinf(most_antennas):
        return None
    certain, several = never_exceeded(scenario), scenario.air.antennas > 1
    if certain and not several:
        return None
    seats, failure = workers * rounds, _failure(scenario) * rounds / scenario.slots_on_air
    sums: SumBound | None
    weakest: SumBound | None
    if certain:
        sums, weakest, least = None, SumBound.constant(largest, workers / failure), failure
    else:
        alone, errors, places, least = _joined(scenario, seats, symbols, failure)
        if any(error.stays and getattr(error, "over_fading", False) for error in errors):
            return None  # it stays, and the channel that it is relative to does not
        fading = _direct(scenario, errors), weakest_fading(scenario)
        sums, weakest = (
            joint_sum_bound(errors, fading, places, rounds, workers / least, alone * (1.0 + _ROUNDING), weakest=each)
            for each in (False, True)
        )
    at_chosen = GainsInRounds.means(sums, largest, rounds)
    if not several:
        return GainsInRounds(at_chosen, at_chosen)
    together = with_antennas(scenario, weakest, symbols, least)
    return GainsInRounds(at_chosen, GainsInRounds.means(together, largest * most_antennas, rounds))


def _failure(scenario: Scenario) -> float:
    return gain_failure_of(scenario) / (1 if scenario.air.antennas == 1 else 2)  # the other half is the antennas'


def _joined(
    scenario: Scenario, seats: int, symbols: int, failure: float
) -> tuple[float, tuple[Error, ...], int, float]:
    """Return a bound on gains without a law, the laws of others, their places, and their share of the failure."""
    impairments = impairments_of(scenario)
    frame = frame_of(scenario.air, symbols).with_pilots if symbols else None  # a removed worker takes pilots along
    laws = [impairment.law(frame) if hasattr(impairment, "law") else None for impairment in impairments]
    others = [impairment for impairment, law in zip(impairments, laws, strict=True) if law is None]
    each = failure / (1 + sum(not _is_certain(impairment) for impairment in others))
    pieces = _places(scenario, frame, "piece")
    alone = math.prod(float(impairment.largest_power_gain(each / (seats * pieces))) for impairment in others)
    errors = tuple(law for law in laws if law is not None)
    drawn = (error.drawn for error in errors if isinstance(error, GaussianError))
    places = max((_places(scenario, frame, often) for often in drawn), default=1)
    return alone, errors, places, each


def never_exceeded(scenario: Scenario) -> bool:
    """Return whether bounds on gains hold always: they are the same for any probability of failure."""
    return all(map(_is_certain, impairments_of(scenario)))


def _is_certain(impairment: Any) -> bool:
    return bool(impairment.largest_power_gain(_RARE) == impairment.largest_power_gain(_FREQUENT))


def _direct(scenario: Scenario, errors: tuple[Error, ...]) -> float:
    """Return K of the fading of a place, or a cluster of subcarriers; 0 where no error is relative to a channel."""
    if not any(getattr(error, "over_fading", False) for error in errors):
        return 0.0
    echoes = echoes_of(scenario)
    if echoes is not None:
        return echoes.direct**2 / max(1.0 - echoes.direct**2, 1e-12)
    return scenario.radio.direct_path if fades(scenario) else 0.0


def _places(scenario: Scenario, frame: Frame | None, drawn: str) -> int:
    """Return how many independent draws of a kind a seat has in a slot, with those of the channel behind them.

    The chosen one of M antennas is one of M, and the harmonic mean of C clusters is no weaker than the weakest: the law
    of one channel holds M or C times. Where fading is renewed, none is chosen.
    """
    if drawn == "slot":
        return 1
    several = scenario.air.antennas if fades(scenario) and not renews(scenario) else 1
    several *= len(scenario.air.grid.widths) if echoes_of(scenario) is not None else 1
    if frame is None:
        return _MOST_PIECES * several
    return several * (frame.pieces if drawn == "piece" else frame.pilot_count)


@lru_cache(maxsize=64)
def antenna_gain_bound(scenario: Scenario, seats: int, symbols: int = 0, antennas: int = 0) -> float:
    """Return what no worker's sum_a |h_a|^2 / |h|^2 exceeds in a run; infinite where fading puts no bound on it.

    Without fading it is M. With fading the chosen channel may be arbitrarily weak, unless workers in a fade stay silent
    (``air.truncation_db``): then it is at least that, and the sum exceeds its quantile in a slot, seat and coherence
    time with half the probability of ``gain_failure_of``, all of them together. ``symbols`` are those of a slot;
    ``antennas`` asks for another number of them.
    """
    air, radio = scenario.air, scenario.radio
    count = antennas or air.antennas
    if count == 1:
        return 1.0
    if radio.fading == "none":
        return float(count)
    floor = db_to_ratio(air.truncation_db)
    if floor == 0.0 or (antennas and radio.fading_kind.rician_k(radio) is None):  # a law of one's own, if asked what if
        return math.inf
    each = _SHARE_OF_FAILURE * gain_failure_of(scenario) / (scenario.slots_on_air * seats * _fadings(scenario, symbols))
    if renews(scenario) and radio.direct_path == 0.0:  # where no antenna is chosen by its channels
        return largest_fading_ratio(count, floor, each)
    return largest_fading_sum(radio, count, each) / floor


def with_antennas(scenario: Scenario, gains: SumBound | None, symbols: int, failure: float) -> SumBound | None:
    """Return the bound on sums of A G over rounds of so many symbols; None where none is known.

    G are gains that do not depend on channels, A the same ratio in the worst coherence time of a round: 0 for a worker
    that is silent in all of them, else at least their number, as tallies have it. No credit is taken for absent
    workers: they need not be absent. Half of the probability of ``failure`` is that of an A beyond the grid.
    """
    air, rounds = scenario.air, scenario.learner.rounds
    if gains is None:
        return None
    if scenario.radio.fading == "none":
        return gains._replace(tilts=gains.tilts / air.antennas)
    if not (renews(scenario) and scenario.radio.direct_path == 0.0):
        return None
    fadings, floor = _fadings(scenario, symbols), db_to_ratio(air.truncation_db)
    seats = scenario.workers.count * rounds
    most = largest_fading_ratio(air.antennas, floor, failure / (2.0 * seats * fadings))
    values = np.linspace(air.antennas, max(most, 2.0 * air.antennas), _POINTS)
    above = fadings * _ratio_excess(air.antennas, floor, values)
    sends = 1.0 - math.exp(fadings * math.log1p(-math.exp(-floor)))
    return gains.times(np.append(0.0, values), np.minimum.accumulate(np.append(sends, above)), rounds)


def _fadings(scenario: Scenario, symbols: int) -> int:
    """Return how many coherence times a slot of so many symbols has; 0: as many as any may have."""
    if not renews(scenario):
        return 1
    blocks = frame_of(scenario.air, symbols).block_count if symbols else 0
    return min((blocks - 1) // scenario.air.blocks_per_fading + 1, MOST_FADINGS) if symbols else MOST_FADINGS


def _ratio_excess(antennas: int, floor: float, ratios: Doubles) -> Doubles:
    """Return P(1 + S / u > ratio, u >= c); shape of the ratios. See ``largest_fading_ratio``."""
    orders, t = np.arange(antennas - 1)[:, None], ratios - 1.0
    terms = np.exp(orders * np.log(t / (1.0 + t))) / (1.0 + t) * gammaincc(orders + 1, floor * (1.0 + t))
    return np.asarray(terms.sum(axis=0))


def largest_fading_ratio(antennas: int, floor: float, failure: float) -> float:
    """Return what 1 + S / u exceeds with at most that probability where u, the power of one antenna, is at least c.

    Both at their worst at once are rarer than either. With Rayleigh fading u is exponential and S, of the m others,
    has a gamma law: P(S > t u, u >= c) = sum_(k < m) t^k / (1 + t)^(k + 1) Q(k + 1, c (1 + t)).
    """

    def beyond(ratio: float) -> float:
        excess = float(_ratio_excess(antennas, floor, np.array([ratio]))[0])
        return math.log(failure) - math.log(max(excess, _TINY))

    most = float(gammainccinv(antennas, failure)) / floor  # as if both were
    return bracket_root(beyond, 1.0 + 1e-9, most, tolerance=0.0, relative=1e-14)[1]


def largest_fading_sum(radio: Radio, antennas: int, failure: float) -> float:
    """Return what sum_a |g_a|^2 over the antennas, E|g|^2 = 1, exceeds with at most that probability.

    Of Rayleigh fading it has a gamma law. Rician fading adds a direct path of norm sqrt(M K / (K + 1)) to a vector of
    such a sum over K + 1; norms add up at most.
    """
    scattered = 1.0 / (1.0 + radio.direct_path)
    direct = math.sqrt(antennas * (1.0 - scattered))
    return float(direct + math.sqrt(scattered * gammainccinv(antennas, failure))) ** 2


SEATS: Final = 512
"""How many workers stand for all in an estimate."""
_SYMBOLS: Final = 4096
_LEVELS: Final = 256
_ANY: Final = Scenario(name="any")


def some_gains(scenario: Scenario, frame: Frame, path_gain: float, source: SlotWords) -> torch.Tensor:
    """Draw g of a few hundred workers in a slot, all of them behind a channel of that gain; seats x pieces."""
    channel = torch.full((1, SEATS), path_gain, dtype=torch.float64)
    draws = SeatDraws(
        slots=range(1),
        frame=frame,
        workers=torch.arange(SEATS)[None] % scenario.workers.count,
        magnitude=channel,
        path_gain=channel,
        source=source,
        in_slot=SEATS,
    )
    return draw_gains(scenario, draws)[0]


def gain_spread(scenario: Scenario) -> float:
    """Return about the variance of what arrives of a unit symbol over the square of its mean.

    Of a few hundred workers that are drawn for it, in the first symbols of a slot: a choice of design, not a bound.
    """
    # Who sends what, and how often, does not matter: plans ask for many such designs on one air.
    radio = replace(scenario.radio, slots=1, scheduled=0, max_participations=0, schedule="fixed", slot_seconds=0.0)
    place = {name: getattr(scenario.workers, name) for name in ("side_metres", "min_distance_metres")}
    return _gain_spread(replace(_ANY, workers=replace(_ANY.workers, **place), radio=radio, air=scenario.air))


@lru_cache(maxsize=16)
def _gain_spread(scenario: Scenario) -> float:
    air = scenario.air
    arrives = some_gains(scenario, frame_of(air, _SYMBOLS), 1.0, slot_words(Streams(0), "masks")).real.numpy()
    if air.power_step_db:
        below_db = air.power_step_db * (np.arange(SEATS) % _LEVELS + 0.5) / _LEVELS
        arrives = arrives * 10.0 ** (-below_db[:, None] / 20.0)
    pulse = np.ones((SEATS, 1))
    if smears(air):
        offsets = 2.0 * torch.arange(SEATS).double() / (SEATS - 1) - 1.0
        pulse = pulse_of(air).factors(offsets).numpy() @ pulse_of(air).filters
    taps = arrives[:, :, None] * pulse[:, None, :]  # seats x pieces x symbols around
    mean = taps.mean(axis=0)
    variance, power = np.square(taps - mean).sum(axis=2).mean(axis=0), np.square(mean).sum(axis=1)
    heard = power > 0.0  # where all workers are absent or late, there is nothing that could differ
    return float((variance[heard] / power[heard]).mean()) if heard.any() else 0.0
