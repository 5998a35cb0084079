"""How far one worker can move a mixture where its converter rounds what it sends.

Let a worker send Q(v), shortened to the declared norm R. Its removal moves a mixture by at most R, as before.
Shortening is the projection on a ball, which sets no two vectors farther apart, and rounding moves a vector by at most
r = sqrt(d) step / 2. So a replacement moves it by at most min(2 R, ||v - v'|| + 2 r); the step is that of the largest
symbol that can be sent. The waveform of OFDM saturates at a level that depends on v: there 2 R is all that is known.
"""

import math

from airmixml.privacy import Sensitivity
from airmixml.scenario import Air, Scenario
from airmixml.workers import Signal, declared_bounds, sends_inputs_unchanged


def with_rounding(scenario: Scenario, sensitivity: Sensitivity, signal: Signal) -> Sensitivity:
    """Return the sensitivity of symbols that go through the workers' converters.

    The paper's bound is on samples in [0, 1]. Their levels lie in [0, 1] as well, so that it holds unchanged.
    """
    air = scenario.air
    if scenario.privacy.noise_kind.brought:  # noise is on it already: rounding is post-processing
        return sensitivity
    if not air.dac_bits or (scenario.privacy.sensitivity == "paper" and air.waveform != "ofdm"):
        return sensitivity
    squared_norm, squared_distance = declared_bounds(scenario.workers, signal.features)
    replacement = rounded_distance(
        air,
        signal.largest_squared_norm(squared_norm),
        signal.largest_squared_distance(squared_norm, squared_distance),
        largest_symbol(scenario, signal),
        signal.symbols,
    )
    return Sensitivity(removal=sensitivity.removal, replacement=max(sensitivity.replacement, replacement))


def rounded_distance(air: Air, squared_norm: float, squared_distance: float, largest: float, symbols: int) -> float:
    """Return the bound on ||Q(v) - Q(v')||^2 of vectors with these bounds and symbols, none above ``largest``."""
    if not air.dac_bits:
        return squared_distance
    if air.waveform == "ofdm":
        return 4.0 * squared_norm
    apart = math.sqrt(squared_distance) + 2.0 * rounding_radius(largest, symbols, air.dac_bits)
    return min(4.0 * squared_norm, apart**2)


def largest_symbol(scenario: Scenario, signal: Signal) -> float:
    """Return the largest symbol that any sample can be sent with.

    Of several rows and rounded numbers it is known only that the whole vector has its norm.
    """
    workers = scenario.workers
    squared_norm, _ = declared_bounds(workers, signal.features)
    if signal.several_rows or signal.bits:
        return math.sqrt(signal.largest_squared_norm(squared_norm))
    if signal.moments:
        return max(squared_norm, signal.label_weight * math.sqrt(squared_norm))
    return max(1.0 if sends_inputs_unchanged(workers) else math.sqrt(squared_norm), signal.label_weight)


def rounding_radius(largest: float, symbols: int, bits: int) -> float:
    """Return how far, in norm, rounding moves a vector of so many symbols at most: half a step in each."""
    return math.sqrt(symbols) * largest / (1.0 if bits == 1 else 2.0 * (2 ** (bits - 1) - 1))
