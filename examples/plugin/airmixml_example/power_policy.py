"""A power policy: half of the power that the privacy target allows, in case a receiver is better than stated."""

from collections.abc import Callable

from airmixml.radio.mixing import PowerPolicy
from airmixml.scenario import Scenario


class HalfPower(PowerPolicy):
    """Every slot is received with the same power; the power limit holds as for any policy."""

    about = "half of what the privacy target allows"
    keeps_target = True

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        """Return the power of the largest share of a slot, beta max q^2, from that which meets the target exactly."""
        return private_watts() / 2.0
