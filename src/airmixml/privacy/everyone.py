"""The strongest listener there can be: it hears every worker separately, perfectly, without any noise of its own."""

from dataclasses import dataclass
from typing import Final

from airmixml.errors import PrivacyError
from airmixml.privacy.adversaries import Adversary, heard_separately, hidden_in_words
from airmixml.privacy.design import Design
from airmixml.privacy.mechanism import GaussianSlots

_NOTHING_HIDES: Final = (
    "privacy.adversary = 'everyone': nothing hides a worker from somebody who hears it alone and without noise; use "
    'privacy.noise = "masked" or "workers"'
)


@dataclass(frozen=True, kw_only=True)
class Everyone(Adversary):
    """Everybody who hears everything: the server, all eavesdroppers and the colluding workers together.

    No receiver noise, no hidden schedule and no secret position is assumed: only what workers themselves add hides
    them. Where masks are drawn from keys, that holds as long as nobody breaks the cipher.
    """

    name = "everyone"
    about = "everybody together, who hear every worker separately and without any noise"
    knows_schedule = True

    @property
    def knows(self) -> str:
        """What it knows and receives."""
        helped = f", with the keys and samples of {self.colluders:,} colluding workers" if self.colluders else ""
        return f"what every worker sends, separately and without noise, the schedule and the ratios{helped}"

    def why(self, design: Design) -> str:
        """Why its epsilon follows."""
        return hidden_in_words(design)

    def noise_watts(self, design: Design) -> float:
        """What hides a worker, as noise at the server."""
        return design.hidden_noise_watts

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        """The worst worker's own slots, one Gaussian mechanism."""
        if not design.hidden_noise_watts:
            raise PrivacyError(_NOTHING_HIDES)
        return heard_separately(design, adjacency)
