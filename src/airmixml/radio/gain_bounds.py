"""What statements assume of receiver and air: the least noise, the largest gain, what gains tell."""

import math

from airmixml.errors import PrivacyError
from airmixml.scenario import Air, Scenario
from airmixml.units import dbm_to_watts


def assumed_noise_watts(scenario: Scenario) -> float:
    """Return the noise power per complex symbol that statements assume: the least that the receiver may have."""
    return dbm_to_watts(scenario.radio.noise_dbm - scenario.air.noise_uncertainty_db)


def prefix_bound(air: Air) -> float:
    """Return how many times the energy of its symbols a worker may be received with, where OFDM has a cyclic prefix.

    The prefix is the end of an OFDM symbol once more, with noise of its own, and a server may listen to it. The energy
    of a vector can lie all in what is repeated, so that it is sent twice; without a prefix nothing is.
    """
    return 2.0 if air.waveform == "ofdm" and air.cyclic_prefix else 1.0


def gain_bound(scenario: Scenario) -> float:
    """Return what no worker's power gain exceeds, except with probability ``gain_failure``; 1 on the ideal air."""
    return gain_bound_of(scenario, scenario.radio.slots * seats_with_gains(scenario))


def gain_bound_of(scenario: Scenario, seats: int) -> float:
    """Return the same for so many seats of all slots together."""
    if scenario.air.is_ideal or scenario.privacy.noise != "receiver":  # their own noise grows with the gain
        return 1.0

    from airmixml.impairments.gains import largest_power_gain  # here: it needs torch

    bound = largest_power_gain(scenario, seats)
    if not math.isfinite(bound):
        raise PrivacyError(
            "air: nothing bounds how strongly a worker may be received, so that no epsilon holds; keep workers in deep "
            "fades silent (air.truncation_db), or estimate channels better"
        )
    return bound


def seats_with_gains(scenario: Scenario) -> int:
    """Return the seats of a slot whose gains must be bounded: of a Poisson schedule those of silent workers too."""
    return scenario.workers.count if scenario.radio.schedule == "poisson" else scenario.radio.scheduled


def gain_failure(scenario: Scenario) -> float:
    """Return the probability with which ``gain_bound`` fails: ``air.gain_failure``, or 0 where it cannot."""
    if scenario.air.is_ideal or scenario.privacy.noise != "receiver":
        return 0.0
    from airmixml.impairments.gains import never_exceeded  # here: it needs torch

    of_antennas = scenario.air.antennas > 1 and scenario.radio.fading != "none"
    return scenario.air.gain_failure if of_antennas or not never_exceeded(scenario) else 0.0


def gains_tell_schedule(scenario: Scenario) -> bool:
    """Return whether what an imperfect air does to a seat may depend on who sits there; see ``privacy.views``.

    Powers that cannot be sent only shorten vectors (``privacy.SofterShares``). Which of several antennas is listened to
    depends on all who are scheduled, and so does everybody's fading. A peak limit clips the more the weaker a worker's
    channel, and two workers that clip differently may be farther apart than their samples are.
    """
    if scenario.air.is_ideal:
        return False
    if scenario.air.antennas > 1 and scenario.radio.fading != "none":
        return True
    if scenario.radio.schedule == "poisson":
        return False
    from airmixml.impairments.gains import follows_worker  # here: it needs torch

    clips = math.isfinite(scenario.air.peak_power_dbm)
    return clips or scenario.mixing.assignment == "max-min" or follows_worker(scenario)
