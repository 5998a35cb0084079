"""The noise that claims against somebody who hears sums rest on."""

from airmixml.privacy import Sensitivity
from airmixml.radio.privacy_target import assumed_noise_watts, planned_design
from airmixml.scenario import Scenario


def stated_noise_watts(scenario: Scenario) -> float:
    """Return its power per complex symbol: the least of the receiver, with what honest workers bring.

    On an air that is not ideal claims rest on less than that, on what hides a worker from somebody who hears it alone.
    """
    if scenario.privacy.noise == "receiver":
        return assumed_noise_watts(scenario)
    any_sensitivity = Sensitivity(removal=1.0, replacement=1.0)
    return planned_design(scenario, any_sensitivity, received_watts=0.0).in_workers_noise().noise_watts
