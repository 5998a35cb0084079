"""Whether a design lets anything be learned at all, from public numbers alone: no row is looked at, and no accuracy.

A slot brings the server sum_i q_i v_i in noise of variance s^2 on every number, with ||v_i|| <= R. So whatever workers
hold, what it receives in all slots differs from noise alone by at most

    d^2 = sum_t (R sum_i q_i,t)^2 / s_t^2.

If which class has which name were drawn at random, d^2 / 2 would bound the information on it in nats (capacity of a
Gaussian channel), so that by Pinsker's inequality no learner were right more often than guessing by more than d / 2. A
design with d^2 < 0.1, all that arrives 10 dB below the noise on one single number, is refused: it would spend privacy
and power for nothing. Designs that are any good have a d^2 of thousands.
"""

import math
from dataclasses import replace
from typing import Final

from airmixml.arrays import ratio_to_db, watts_to_dbm
from airmixml.messages import ScenarioError
from airmixml.radio.air import expected_noise
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots

_LEAST: Final = 0.1  # of d^2: no learner gains more than 16 points on guessing
_SEATS_LOOKED_AT: Final = 1 << 18
_NO_LIMIT_DBM: Final = 100.0


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
    draws = _first_draws(setting)
    strength = received_strength(setting, draws)
    if strength >= _LEAST or not bool((draws.ratios > 0.0).any()):
        return
    scenario, below_db = setting.scenario, -float(ratio_to_db(strength))
    policy = scenario.mixing.power_policy
    why = f"all that the server receives is {below_db:.0f} dB below the noise on one number, so nothing can be learned"
    if policy.follows_channels or bool(draws.limited.any()):
        unlimited = replace(setting.given, radio=replace(setting.given.radio, max_power_dbm=_NO_LIMIT_DBM))
        assert setting.dimensions is not None
        asked = AirSetting.of(unlimited, *setting.dimensions, setting.distance_metres)
        asked_dbm = float(watts_to_dbm(float(_first_draws(asked).power_watts.max())))
        limit_dbm = scenario.radio.max_power_dbm
        needed_dbm = limit_dbm + below_db if policy.follows_channels else asked_dbm  # all that the target allows
        raise ScenarioError(
            f"radio.max_power_dbm = {limit_dbm:g}: {why}; must be at least {math.ceil(needed_dbm)} for this design, "
            "or bring the workers nearer"
        )
    if not policy.keeps_target:
        raise ScenarioError(
            f"mixing.power_scale_watts = {scenario.mixing.power_scale_watts:g}: {why}; must be at least "
            f"{scenario.mixing.power_scale_watts / strength:.2g}"
        )
    epsilon = scenario.privacy.epsilon
    needed = float(f"{epsilon * (_LEAST / strength) ** 0.5:.2g}")
    raise ScenarioError(f"privacy.epsilon = {epsilon:g}: {why}; must be about {needed:g} or more, or use more workers")


def _first_draws(setting: AirSetting) -> SlotTensors:
    slots = max(1, _SEATS_LOOKED_AT // setting.scenario.seats)
    return draw_slots(setting, range(setting.scenario.radio.slots)[:slots])
