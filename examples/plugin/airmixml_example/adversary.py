"""An adversary: the server with a second antenna, which halves the noise that hides a worker."""

from dataclasses import dataclass, replace

from airmixml.privacy import Adversary, Design, GaussianSlots, Server


@dataclass(frozen=True, kw_only=True)
class TwoAntennas(Adversary):
    """Sees every slot twice, with independent noise, and averages."""

    name = "two-antennas"
    about = "the server with two antennas"
    knows_schedule = True

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        return "all mixtures with half the noise, the schedule, the ratios and the channels"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        return Server().why(design)

    def noise_watts(self, design: Design) -> float:
        """Noise that is left after averaging."""
        return design.noise_watts / 2.0

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The slots as the server sees them, with less noise."""
        return Server().mechanism(replace(design, noise_watts=self.noise_watts(design)), adjacency)
