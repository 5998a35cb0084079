"""From a scenario to what privacy asks about it: sensitivity, adversaries, and the power that meets its target."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, Final

from airmixml.arrays import Doubles
from airmixml.doors import ADVERSARIES
from airmixml.errors import PrivacyError, ScenarioError
from airmixml.impairments.antennas import antenna_gain_bound
from airmixml.impairments.frame import frame_of
from airmixml.integers.rounding import grid_margin
from airmixml.privacy import Adversary, Design, Sensitivity, calibrate_power, check_target
from airmixml.privacy.design import slots_per_round
from airmixml.privacy.evaluation import guess_factor, least_epsilon
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.radio.integer_sums import check_plane_power, integer_sums_of
from airmixml.radio.masking import masking_of, noise_probes
from airmixml.radio.rounded_sensitivity import with_rounding
from airmixml.radio.weakest_channel import power_gain, weakest_gain
from airmixml.scenario import Air, Scenario
from airmixml.scenario.ofdm import Grid
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Signal, declared_bounds

_ROUNDING_MARGIN: Final = 1.0 - 1e-12


def sensitivity_of(scenario: Scenario, input_dim: int, label_dim: int) -> Sensitivity:
    """Return what one worker can move, by the paper's bound or by what its encoder declares."""
    sensitivity = _data_sensitivity(scenario, input_dim, label_dim)
    # A worker that falls silent takes its share of the pilots along; they are the same for any sample. Who brings its
    # own noise is heard to take part whatever it sends.
    of_pilots = pilot_energy(scenario, input_dim, label_dim) if scenario.privacy.noise == "receiver" else 0.0
    removal = sensitivity.removal + of_pilots
    if scenario.privacy.arithmetic == "integers":
        numbers = Signal.of(scenario.workers, input_dim, label_dim).symbols
        apart = math.sqrt(sensitivity.replacement) + grid_margin(numbers) * math.sqrt(removal)
        return Sensitivity(removal=removal, replacement=apart**2, numbers=numbers)
    repeated = prefix_bound(scenario.air)
    return Sensitivity(removal=repeated * removal, replacement=repeated * sensitivity.replacement)


def prefix_bound(air: Air) -> float:
    """Return how many times the energy of its symbols a worker may be received with, where OFDM has a cyclic prefix.

    The prefix is the end of an OFDM symbol once more, with noise of its own, and a server may listen to it. The energy
    of a vector can lie all in what is repeated, so that it is sent twice; without a prefix nothing is.
    """
    return 2.0 if air.waveform == "ofdm" and air.cyclic_prefix else 1.0


def pilot_energy(scenario: Scenario, input_dim: int, label_dim: int) -> float:
    """Return the energy of all pilots of a slot, where a symbol of amplitude 1 has energy 1; 0 on the ideal air.

    A Poisson schedule has none: how many workers tossed heads shows in a pilot as a gain does.
    """
    air = scenario.air
    if air.is_ideal or scenario.radio.schedule == "poisson":
        return 0.0
    return air.pilot_share * _data_sensitivity(scenario, input_dim, label_dim).removal


def _data_sensitivity(scenario: Scenario, input_dim: int, label_dim: int) -> Sensitivity:
    signal = Signal.of(scenario.workers, input_dim, label_dim)
    if scenario.privacy.sensitivity == "paper":
        # Label weights are at most 1.
        return with_rounding(scenario, Sensitivity.paper(input_dim, label_dim), signal)
    squared_norm, squared_distance = declared_bounds(scenario.workers, input_dim)
    sensitivity = Sensitivity(
        removal=signal.largest_squared_norm(squared_norm),
        replacement=signal.largest_squared_distance(squared_norm, squared_distance),
    )
    return with_rounding(scenario, sensitivity, signal)


def sampling_of(scenario: Scenario) -> str:
    """Return how the workers of a slot are drawn, as accountants name it."""
    return "poisson" if scenario.radio.schedule == "poisson" else "without-replacement"


def joules_per_watt(scenario: Scenario, signal: Signal, sensitivity: Sensitivity) -> float:
    """Return the energy that a worker spends in a slot per watt of P.

    With a given slot length that is tau, the paper's count: as if every symbol had amplitude 1. Where the slot lasts as
    long as its symbols need, it is the time of one symbol times the largest ||v||^2, what can really be radiated. A
    cyclic prefix repeats its share of that.
    """
    integers = integer_sums_of(scenario, sensitivity)
    if integers is not None:  # every bit is sent with full power
        return integers.symbols / SYMBOLS_PER_SECOND
    if scenario.radio.slot_seconds:
        return slot_seconds(scenario, signal)
    air = scenario.air
    once = min(sensitivity.removal / prefix_bound(air), float(signal.symbols))
    with_prefix = Grid.of(air).length / air.subcarriers if air.waveform == "ofdm" else 1.0
    return once * with_prefix / SYMBOLS_PER_SECOND


def slot_seconds(scenario: Scenario, signal: Signal) -> float:
    """Return how long a slot lasts: tau, or what all its symbols need where that is longer."""
    return max(signal.slot_seconds(scenario.radio), symbols_on_air(scenario, signal) / SYMBOLS_PER_SECOND)


def symbols_on_air(scenario: Scenario, signal: Signal) -> int:
    """Return the symbols that a slot takes: with data and without, pilots, guards; of integers one for each bit."""
    integers = integer_sums_of(scenario, sensitivity_of(scenario, signal.features, signal.classes))
    if integers is not None:
        return integers.symbols
    return frame_of(scenario.air, signal.symbols).symbols + noise_probes(scenario, signal.symbols)


def assumed_noise_watts(scenario: Scenario) -> float:
    """Return the noise power per complex symbol that statements assume: the least that the receiver may have."""
    return dbm_to_watts(scenario.radio.noise_dbm - scenario.air.noise_uncertainty_db)


def gain_bound(scenario: Scenario) -> float:
    """Return what no worker's power gain exceeds, except with probability ``gain_failure``; 1 on the ideal air."""
    return gain_bound_of(scenario, scenario.radio.slots * _seats(scenario))


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


def _seats(scenario: Scenario) -> int:
    # In a Poisson schedule those who stay silent have gains too: they are not drawn, but must be bounded.
    return scenario.workers.count if scenario.radio.schedule == "poisson" else scenario.radio.scheduled


def gain_failure(scenario: Scenario) -> float:
    """Return the probability with which ``gain_bound`` fails: ``air.gain_failure``, or 0 where it cannot."""
    if scenario.air.is_ideal or scenario.privacy.noise != "receiver":
        return 0.0
    from airmixml.impairments.gains import never_exceeded  # here: it needs torch

    of_antennas = scenario.air.antennas > 1 and scenario.radio.fading != "none"
    return scenario.air.gain_failure if of_antennas or not never_exceeded(scenario) else 0.0


def gains_tell_schedule(scenario: Scenario) -> bool:
    """Return whether what an imperfect air does to a seat may depend on who sits there; see ``privacy.adversaries``.

    Powers that cannot be sent only shorten vectors (``shares_follow_workers``).
    Which of several antennas is listened to depends on all who are scheduled, and so does everybody's fading. A peak
    limit clips the more the weaker a worker's channel, and two workers that clip differently may be farther apart than
    their samples are.
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


def shares_follow_workers(scenario: Scenario) -> bool:
    """Return whether a worker may send more softly than planned, or not at all, by what its transmitter can."""
    return scenario.air.power_step_db > 0.0 or math.isfinite(scenario.air.min_power_dbm)


def adversary_named(name: str, scenario: Scenario) -> Adversary:
    """Return the adversary of that name, as the scenario describes it."""
    adversary: Adversary = ADVERSARIES.load(name).of(scenario, partial(power_gain, scenario))
    return adversary


def power_may_tell_schedule(scenario: Scenario, received_watts: float, floor: float) -> bool:
    """Return whether the power limit can bind in some slot, which makes its noise level depend on who was scheduled.

    What counts is whether it can, not whether it did: that it did not in any slot would tell of the schedule too.
    ``received_watts`` is beta max q^2 of every slot, where the power follows from a privacy target; ``floor`` the power
    gain of the weakest channel, 0 where fading has no floor.
    """
    mixing, limit_watts = scenario.mixing, dbm_to_watts(scenario.radio.max_power_dbm)
    if mixing.power == "max" or floor == 0.0:
        return True
    return largest_received_watts(scenario, received_watts) / floor > limit_watts


def largest_received_watts(scenario: Scenario, private_received_watts: float) -> float:
    """Return what beta max q^2 of a slot is at most, without regard to the power limit."""
    mixing = scenario.mixing
    if mixing.power != "fixed":
        return private_received_watts
    equal_share = max(mixing.prior, default=1.0 / scenario.radio.scheduled)
    largest_share = equal_share if mixing.policy == "equalmix" else 1.0
    return mixing.power_scale_watts * largest_share**2


def round_length_of(scenario: Scenario) -> int:
    """Return the length of the rounds in which no worker sends twice; 0 without a limit on participations."""
    radio = scenario.radio
    return slots_per_round(radio.slots, radio.max_participations) if radio.max_participations else 0


def planned_design(
    scenario: Scenario, sensitivity: Sensitivity, *, received_watts: float, floor: float | None = None
) -> Design:
    """Return the scenario as equal slots, each planned to be received with beta max q^2 = ``received_watts``.

    On an air that is not ideal a worker may be received more strongly than planned: the design has the bound on that.

    ``floor`` is the power gain of the weakest channel, if other than that of the square's corner.
    """
    radio, masking, integers = scenario.radio, masking_of(scenario), integer_sums_of(scenario, sensitivity)
    floor = weakest_gain(scenario) if floor is None else floor
    hidden: dict[str, Any] = {}
    if masking is not None:
        hidden = {
            "workers_noise_watts": 2.0 * masking.honest.count * masking.own_watts,
            "hidden_noise_watts": 2.0 * masking.hidden_watts,
            "hidden_by": masking.in_words,
            "hidden_failure": min(
                1.0, scenario.radio.slots * masking.honest.failure
            ),  # colluders sit elsewhere in each
        }
    elif integers is not None:
        # Powers are those of bits: noise is stated in the same proportion to them as it is to a worker's vector.
        hidden = {
            "hidden_noise_watts": 2.0 * (received_watts or integers.received_watts) * integers.hidden_variance,
            "hidden_by": integers.in_words,
            "hidden_failure": min(1.0, radio.slots * integers.honest.failure) if integers.masked else 0.0,
            "rounding": integers.rounding,
        }
    elif scenario.privacy.arithmetic == "integers":  # of vectors that nothing is known of: nobody sends
        hidden = {"hidden_noise_watts": assumed_noise_watts(scenario)}
    return Design(
        **hidden,
        workers=scenario.workers.count,
        scheduled=radio.scheduled,
        received_watts=(received_watts * gain_bound(scenario),),
        gain_bound=gain_bound(scenario),
        gain_failure=gain_failure(scenario),
        impaired=not scenario.air.is_ideal,
        antenna_gain=antenna_gain_bound(scenario, _seats(scenario)),
        counts=(radio.slots,),
        sensitivity=sensitivity,
        noise_watts=assumed_noise_watts(scenario),
        weakest_gain=floor,
        max_power_watts=dbm_to_watts(radio.max_power_dbm),
        max_participations=radio.max_participations,
        slots_per_round=round_length_of(scenario),
        sampling=sampling_of(scenario),
        power_tells_schedule=power_may_tell_schedule(scenario, received_watts, floor),
        gains_tell_schedule=gains_tell_schedule(scenario),
        shares_follow_workers=shares_follow_workers(scenario),
        ratios_tell_ranks=scenario.mixing.assignment == "max-min",
    )


def slots_target(scenario: Scenario) -> tuple[float, float]:
    """Return epsilon and delta that the slots may spend: all of them, less the share of a private mean.

    A refined mean and the slots compose exactly where both are accounted for as Gaussian mechanisms: their mu^2 add up,
    so the share is one of mu^2, and epsilon is that of the rest at the rest of delta.
    """
    workers, privacy = scenario.workers, scenario.privacy
    if not workers.centre_on_air:
        return privacy.epsilon, privacy.delta
    rest = 1.0 - workers.centre_share
    if composes_exactly(scenario):
        mu = math.sqrt(rest) * gaussian_mu(privacy.epsilon, privacy.delta)
        return gaussian_epsilon(mu, rest * privacy.delta), rest * privacy.delta
    return rest * privacy.epsilon, rest * privacy.delta


def centring_target(scenario: Scenario) -> tuple[float, float]:
    """Return mu that the slot for a mean may spend, and the share of delta that is counted as its own."""
    privacy, (slots_epsilon, slots_delta) = scenario.privacy, slots_target(scenario)
    delta = privacy.delta - slots_delta
    if composes_exactly(scenario):
        return math.sqrt(scenario.workers.centre_share) * gaussian_mu(privacy.epsilon, privacy.delta), delta
    return gaussian_mu(privacy.epsilon - slots_epsilon, delta), delta


def composes_exactly(scenario: Scenario) -> bool:
    """Whether the slot for a mean and all others are accounted for as one Gaussian mechanism."""
    return scenario.workers.centre == "refined" and scenario.privacy.accountant == "gdp"


def check_privacy_target(scenario: Scenario) -> None:
    """Raise a PrivacyError if the scenario's accountant cannot treat its adversary, or certify its target."""
    if not scenario.is_settled:
        raise ScenarioError(
            "workers.count, radio.scheduled or privacy.delta is 0: the number of rows decides it; use "
            "airmixml.settle(scenario) to read that from the data, or scenario.settled(rows)"
        )
    privacy = scenario.privacy
    silent = planned_design(scenario, Sensitivity(removal=1.0, replacement=1.0), received_watts=0.0)
    adversary = adversary_named(privacy.adversary, scenario)
    epsilon, delta = slots_target(scenario)
    if scenario.mixing.power == "dp":
        check_target(silent, adversary, privacy.accountant, privacy.adjacency, epsilon, delta)
    else:
        least_epsilon(silent, adversary, privacy.accountant, adjacency=privacy.adjacency, delta=delta)


def private_received_watts(
    scenario: Scenario, sensitivity: Sensitivity, distance_metres: Doubles | None = None, *, quickly: bool = False
) -> float:
    """Return beta max q^2 of every slot, the largest that keeps the scenario's privacy target.

    With the paper's accountant this is Proposition 2. Where the power limit might bind, and so tell the schedule, the
    power is lowered until it cannot, or until the target is met without credit for a hidden schedule. ``quickly``: a
    few per cent less than the largest will do. Distances, shape workers, are given where they are known.
    """
    check_privacy_target(scenario)
    privacy, floor = scenario.privacy, weakest_gain(scenario, distance_metres)
    integers = integer_sums_of(scenario, sensitivity)
    if integers is not None:  # noise follows from the target, and power from what bits need
        check_plane_power(scenario, integers, floor)
        return integers.received_watts
    epsilon, delta = slots_target(scenario)
    unit_watts = assumed_noise_watts(scenario) / 2.0 / sensitivity.replacement
    unit = planned_design(scenario, sensitivity, received_watts=unit_watts, floor=floor)

    def calibrated_watts(*, told: bool) -> float:
        factor = calibrate_power(
            replace(unit, power_tells_schedule=told),
            adversary_named(privacy.adversary, scenario),
            privacy.accountant,
            adjacency=privacy.adjacency,
            epsilon=epsilon,
            delta=delta,
            quickly=quickly,
        )
        return factor * unit_watts

    if floor == 0.0 or gains_tell_schedule(scenario):  # no power, however low, would hide it
        return calibrated_watts(told=True)
    hidden_watts = calibrated_watts(told=False)
    if not power_may_tell_schedule(scenario, hidden_watts, floor):
        return hidden_watts
    limit_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    # A target that the power limit alone keeps allows any power; no more is received than from the nearest place.
    most_watts = limit_watts * power_gain(scenario, scenario.workers.min_distance_metres)
    return min(max(_ROUNDING_MARGIN * limit_watts * floor, calibrated_watts(told=True)), most_watts)


def asked_received_watts(scenario: Scenario, sensitivity: Sensitivity, distance_metres: Doubles | None) -> float:
    """Return ``private_received_watts``, or 0 where the power does not follow from a privacy target."""
    return private_received_watts(scenario, sensitivity, distance_metres) if scenario.mixing.power == "dp" else 0.0


def guessed_received_watts(scenario: Scenario, sensitivity: Sensitivity) -> float:
    """Return about what ``private_received_watts`` would, at once: to compare designs, never to send with."""
    integers = integer_sums_of(scenario, sensitivity)
    if integers is not None:
        return integers.received_watts
    unit_watts = assumed_noise_watts(scenario) / 2.0 / sensitivity.replacement
    epsilon, delta = slots_target(scenario)
    adversary = adversary_named(scenario.privacy.adversary, scenario)
    design = planned_design(scenario, sensitivity, received_watts=unit_watts)
    adjacency = scenario.privacy.adjacency
    return unit_watts * guess_factor(design, adversary, adjacency=adjacency, epsilon=epsilon, delta=delta)
