"""Whether a design lets anything be learned at all, from public numbers alone: no row is looked at, and no accuracy.

A slot brings the server sum_i q_i v_i in noise of variance s^2 on every number, with ||v_i|| <= R. So whatever workers
hold, what it receives in all slots differs from noise alone by at most d deviations,

    d^2 = sum_t (R sum_i q_i,t)^2 / s_t^2.

Another name for one of C equal classes moves the part of its workers alone, and by at most sqrt(2) R each: by
sqrt(2) d / C deviations. Two Gaussians so far apart have the total variation distance 2 Phi(d / (sqrt(2) C)) - 1, and
by no more than that can any learner be right more often than by guessing. A design where that is below a fifth is
refused: it would spend privacy and power for nothing. Designs that are any good have a d^2 of thousands.
"""

import math
from dataclasses import replace
from typing import Any, Final

from scipy.special import ndtr, ndtri

from airmixml.arrays import ratio_to_db, watts_to_dbm
from airmixml.messages import ScenarioError
from airmixml.radio.air import expected_noise
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots

_LEAST_GAIN: Final = 0.2  # over guessing
_HALF_GAIN: Final = float(ndtri(0.5 + _LEAST_GAIN / 2.0))
_SEATS_LOOKED_AT: Final = 1 << 18
_NO_LIMIT_DBM: Final = 100.0
_LARGEST_EPSILON: Final = 1e6


def received_strength(setting: AirSetting, draws: SlotTensors) -> float:
    """Return d^2 of all slots, given the draws of some."""
    scenario, of_squares = setting.scenario, draws.ratios.sum(dim=1).square()
    if setting.integers is None:
        of_squares = of_squares * draws.power_scale_watts / (expected_noise(scenario).total_watts / 2.0)
    else:
        of_squares = of_squares / setting.integers.mixture_variance
    slots = scenario.radio.slots + setting.rounds * setting.round_strength
    return slots * setting.sensitivity.removal * float(of_squares.mean())


def check_learnable(setting: AirSetting) -> None:
    """Refuse a design from which no server can learn, and say which power or target it would need.

    Parameters
    ----------
    setting
        Of the scenario's own slots, of which the first few are drawn.

    Raises
    ------
    ScenarioError
        It names the power limit where that is the reason, or else the target.
    """
    draws, classes = _first_draws(setting), max(2, setting.signal.classes)
    strength, least = received_strength(setting, draws), 2.0 * (classes * _HALF_GAIN) ** 2
    if strength >= least or not bool((draws.ratios > 0.0).any()):
        return
    scenario, policy = setting.scenario, setting.scenario.mixing.power_policy
    gain = 2.0 * float(ndtr(math.sqrt(strength / 2.0) / classes)) - 1.0
    why = (
        "what the server receives is too weak to learn from: whatever the data, at most "
        f"{math.ceil(100.0 * gain)} % more answers are right than by guessing"
    )
    if policy.follows_channels or bool(draws.limited.any()):
        limit_dbm = scenario.radio.max_power_dbm
        needed_dbm = limit_dbm + float(ratio_to_db(least / strength))
        if not policy.follows_channels:  # all that the target allows
            free = _first_draws(_asked_anew(setting, radio=replace(setting.given.radio, max_power_dbm=_NO_LIMIT_DBM)))
            needed_dbm = float(watts_to_dbm(float(free.power_watts.max())))
        raise ScenarioError(
            f"radio.max_power_dbm = {limit_dbm:g}: {why}; must be at least {math.ceil(needed_dbm)} for this design, "
            "or bring the workers nearer"
        )
    if not policy.keeps_target:
        scale_watts = scenario.mixing.power_scale_watts
        needed_watts = 1.05 * scale_watts * least / strength  # rounded up in two digits
        raise ScenarioError(f"mixing.power_scale_watts = {scale_watts:g}: {why}; must be at least {needed_watts:.2g}")
    epsilon = scenario.privacy.epsilon
    needed = _needed_epsilon(setting, strength, least)
    mend = f"must be about {needed:g} or more, or have" if needed else "have"
    raise ScenarioError(f"privacy.epsilon = {epsilon:g}: {why}; {mend} more workers")


def _needed_epsilon(setting: AirSetting, strength: float, least: float) -> float:
    """Return a target, of two digits, that lets something be learned; 0 where none that is tried does."""
    epsilon = setting.given.privacy.epsilon
    while strength < least:
        # mu grows as epsilon does, or less.
        epsilon = float(f"{epsilon * max(1.1, math.sqrt(least / strength)):.2g}")
        if epsilon > _LARGEST_EPSILON:
            return 0.0
        raised = _asked_anew(setting, privacy=replace(setting.given.privacy, epsilon=epsilon))
        strength = received_strength(raised, _first_draws(raised))
    return epsilon


def _asked_anew(setting: AirSetting, **tables: Any) -> AirSetting:
    """Return the setting of the scenario with other tables."""
    assert setting.dimensions is not None
    return AirSetting.of(replace(setting.given, **tables), *setting.dimensions, setting.distance_metres)


def _first_draws(setting: AirSetting) -> SlotTensors:
    slots = max(1, _SEATS_LOOKED_AT // setting.scenario.seats)
    return draw_slots(setting, range(setting.scenario.radio.slots)[:slots])
