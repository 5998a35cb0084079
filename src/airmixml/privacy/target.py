"""Check a scenario's privacy target before any work is done."""

from __future__ import annotations

from airmixml.privacy.loose_bound import power_scale_for_privacy
from airmixml.scenario import Scenario

__all__ = ["check_privacy_target"]


def check_privacy_target(scenario: Scenario) -> None:
    """Raise a PrivacyError if the scenario sets its power by a target that its bound cannot certify."""
    if scenario.mixing.power == "dp":
        power_scale_for_privacy(
            1.0,
            epsilon=scenario.privacy.epsilon,
            delta=scenario.privacy.delta,
            slots=scenario.radio.slots,
            sampling_rate=scenario.radio.scheduled / scenario.workers.count,
            noise_watts=1.0,
            sensitivity=1.0,
        )
