"""A link: packets through a satellite, whose answers a worker waits for before it sends anything again."""

from airmixml.radio.links import DigitalLink
from airmixml.radio.system import System

ROUND_TRIP_SECONDS = 0.5


class Satellite(DigitalLink):
    """Rate, packets and access points are those of the table [link]; lost packets are sent again all together."""

    about = "packets through a satellite, sent again after half a second"

    def slot_seconds(self, system: System) -> float:
        """Return how long a slot lasts: what its packets take, and a round trip for every try."""
        return super().slot_seconds(system) + ROUND_TRIP_SECONDS * system.scenario.link.tries
