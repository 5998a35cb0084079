"""Names that other rooms still ask for here; see ``system`` and ``power_calibration``."""

from airmixml.privacy import Sensitivity
from airmixml.radio.power_calibration import (
    asked_received_watts,
    centring_target,
    check_privacy_target,
    composes_exactly,
    guessed_received_watts,
    private_received_watts,
    slots_target,
)
from airmixml.radio.system import (
    System,
    adversary_named,
    assumed_noise_watts,
    gain_bound,
    gain_bound_of,
    gain_failure,
    gains_tell_schedule,
    largest_received_watts,
    planned_design,
    prefix_bound,
    round_length_of,
    sensitivity_of,
)
from airmixml.scenario import Scenario
from airmixml.workers import Signal

__all__ = [
    "adversary_named",
    "asked_received_watts",
    "assumed_noise_watts",
    "centring_target",
    "check_privacy_target",
    "composes_exactly",
    "gain_bound",
    "gain_bound_of",
    "gain_failure",
    "gains_tell_schedule",
    "guessed_received_watts",
    "joules_per_watt",
    "largest_received_watts",
    "pilot_energy",
    "planned_design",
    "prefix_bound",
    "private_received_watts",
    "round_length_of",
    "sensitivity_of",
    "slot_seconds",
    "slots_target",
    "symbols_on_air",
]


def joules_per_watt(scenario: Scenario, signal: Signal, sensitivity: Sensitivity) -> float:
    """Return ``System.joules_per_watt``."""
    return System.of(scenario, signal.features, signal.classes).joules_per_watt


def slot_seconds(scenario: Scenario, signal: Signal) -> float:
    """Return ``System.slot_seconds``."""
    return System.of(scenario, signal.features, signal.classes).slot_seconds


def symbols_on_air(scenario: Scenario, signal: Signal) -> int:
    """Return ``System.symbols_of``."""
    return System.of(scenario, signal.features, signal.classes).symbols_of(signal)


def pilot_energy(scenario: Scenario, input_dim: int, label_dim: int) -> float:
    """Return ``System.pilot_energy``."""
    return System.of(scenario, input_dim, label_dim).pilot_energy
