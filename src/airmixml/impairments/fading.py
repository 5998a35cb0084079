"""Small-scale fading: the law of abs(g), one class for each kind, behind the registry ``FADINGS``.

A law is the same for every worker, antenna and slot, and draws are independent. So statements about a hidden schedule
hold whatever the law is: who is in a fade says nothing about who is scheduled. Bounds on errors that are relative to a
channel follow from the Rician K alone; a fading that has none is refused where they are needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from airmixml.arrays import Doubles, own_numbers
from airmixml.errors import PluginError

if TYPE_CHECKING:
    import torch

    from airmixml.randomness.slot_words import SlotWords
    from airmixml.scenario import Radio

_HALVINGS: Final = 60
_TRIED: Final[Doubles] = np.asarray((np.arange(1000) + 0.5) / 1000.0, dtype=np.float64)


class Fading:
    """A law of the power abs(g)^2, of mean 1, given by its quantiles."""

    about: str

    def quantile(self, chances: Doubles) -> Doubles:
        """Return the powers below which abs(g)^2 lies with these probabilities, all above 0 and below 1; same shape."""
        raise NotImplementedError

    def rician_k(self, radio: Radio) -> float | None:
        """Return K where abs(g) has a Rician law: 0 is Rayleigh fading, infinity none. None: it has another law."""
        return None

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        """Draw abs(g) to one of the server's antennas; slots x scheduled."""
        import torch

        from airmixml.randomness.slot_words import uniforms

        chances = uniforms(source.words(slots, scheduled, antenna))
        given: Doubles = chances.cpu().numpy().astype(np.float64, copy=False)
        return torch.from_numpy(np.sqrt(self._powers(given))).to(chances.device)

    def share_below(self, radio: Radio, power: float) -> float:
        """Return how often abs(g)^2 is below a power."""
        if np.any(np.diff(self._powers(_TRIED)) < 0.0):
            raise PluginError(f"radio.fading = {type(self).__name__}: its quantile falls; must rise with the chances")
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            below = middle < 1.0 and float(self.quantile(np.array([middle]))[0]) < power
            low, high = (middle, high) if below else (low, middle)
        return low

    def _powers(self, chances: Doubles) -> Doubles:
        """Return the quantiles; a power that no channel can have is refused."""
        return own_numbers(
            lambda: self.quantile(chances),
            chances.shape,
            lambda powers: (powers > 0.0) & (powers < math.inf),
            f"radio.fading = {type(self).__name__}: its quantile must return one power for each chance, finite and "
            "above 0",
        )


class RicianFading(Fading):
    """abs(sqrt(K / (K + 1)) + CN(0, 1 / (K + 1))): K = 0 is Rayleigh, K = infinity is none."""

    about = "a direct path and scattered ones"

    def rician_k(self, radio: Radio) -> float:
        """Return the scenario's."""
        return radio.rician_k

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        """Draw both parts of the scattered paths."""
        from airmixml.randomness.slot_words import normal_pairs

        scattered_share = 1.0 / (1.0 + radio.rician_k)
        pairs = normal_pairs(source.words(slots, scheduled, antenna))
        along, across = (math.sqrt(scattered_share / 2.0) * part for part in pairs)
        # Not by hypot, which rounds differently at the end of a row of numbers.
        return (math.sqrt(1.0 - scattered_share) + along).square_().add_(across.square_()).sqrt_()

    def share_below(self, radio: Radio, power: float) -> float:
        """2 (K + 1) abs(g)^2 is noncentral chi-square with two degrees of freedom and noncentrality 2 K."""
        from scipy.special import chndtr  # here: it takes a while to import

        direct = self.rician_k(radio)
        return float(chndtr(2.0 * (direct + 1.0) * power, 2, 2.0 * direct))


class RayleighFading(RicianFading):
    """abs(CN(0, 1)), whose square is exponential."""

    about = "scattered paths alone"

    def rician_k(self, radio: Radio) -> float:
        """There is no direct path."""
        return 0.0

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        """Draw the root of an exponential variable."""
        from airmixml.randomness.slot_words import exponentials

        return exponentials(source.words(slots, scheduled, antenna)).sqrt_()


class NoFading(RicianFading):
    """abs(g) = 1."""

    about = "none: every channel has its mean"

    def rician_k(self, radio: Radio) -> float:
        """Nothing is scattered."""
        return math.inf

    def draw(self, radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
        """Return ones."""
        import torch

        return torch.ones((len(slots), scheduled), dtype=torch.float64, device=source.device)


NONE: Final = NoFading()
RAYLEIGH: Final = RayleighFading()
RICIAN: Final = RicianFading()
