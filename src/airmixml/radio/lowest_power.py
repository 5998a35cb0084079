"""Whether transmitters can send what is asked of them: no less than their lowest power, no more than their limit."""

import math

from airmixml.arrays import Doubles
from airmixml.errors import ScenarioError
from airmixml.radio.masking import Masking
from airmixml.radio.path_loss import weakest_gain
from airmixml.radio.system import largest_received_watts
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts, watts_to_dbm


def check_lowest_power(
    scenario: Scenario, received_watts: float, radiated_share: float, distance_metres: Doubles
) -> None:
    """Refuse a lowest power that is above all that any worker needs, and say by how much.

    ``received_watts`` is beta max q^2 where the power follows from a privacy target, ``radiated_share`` what a worker
    radiates on average per watt of P, and distances have the shape workers. Nobody needs more than the worker with the
    weakest channel does for the largest share, and nobody may send with more than P_max.
    """
    lowest_dbm, radio = scenario.air.min_power_dbm, scenario.radio
    if math.isinf(lowest_dbm):
        return
    most_watts, weakest = dbm_to_watts(radio.max_power_dbm), weakest_gain(scenario, distance_metres)
    if scenario.mixing.power != "max" and weakest > 0.0:
        most_watts = min(most_watts, largest_received_watts(scenario, received_watts) / weakest)
    most_dbm = float(watts_to_dbm(most_watts * radiated_share))
    if most_dbm < lowest_dbm:
        raise ScenarioError(
            f"air.min_power_dbm = {lowest_dbm:g}: is {lowest_dbm - most_dbm:.1f} dB above the largest power that any "
            f"worker needs on average over a slot, {most_dbm:.1f} dBm, so nobody can send; must be at most that: use "
            "transmitters that can send more softly, a receiver with more noise, a looser privacy target, or put "
            "attenuators before the antennas (radio.unit_path_loss_db)"
        )


def check_added_power(scenario: Scenario, masking: Masking | None, distance_metres: Doubles | None = None) -> None:
    """Refuse noise and masks that take more than the power limit of the worker with the weakest channel.

    They are the same in every symbol, so what is radiated on average over a slot is compared with P_max. Distances,
    shape workers, are given where they are known.
    """
    if masking is None:
        return
    weakest, limit_dbm = weakest_gain(scenario, distance_metres), scenario.radio.max_power_dbm
    needed_dbm = float(watts_to_dbm(masking.added_watts / weakest)) if weakest else math.inf
    if needed_dbm > limit_dbm:
        above_db = scenario.privacy.above_thermal_db - (needed_dbm - limit_dbm)
        raise ScenarioError(
            f"privacy.above_thermal_db = {scenario.privacy.above_thermal_db:g}: noise and masks would take "
            f"{needed_dbm:.1f} dBm of the farthest worker, whose limit is radio.max_power_dbm = {limit_dbm:g}; must be "
            f"at most {above_db:.1f}, or use a larger privacy.mask_share"
        )
