"""How much energy a slot's mixture is expected to have, before any data are seen: of samples, and of their products.

Of an encoded input x = (a u, c C) the features u are taken as uncorrelated and equally spread, and c C is the constant
that the encoder appends; a^2 = 1 - c^2. A slot adds up q_i v_i of independent workers, so its expected energy is
((sum q)^2 - sum q^2) ||E v||^2 + (sum q^2) E ||v||^2. Real features are correlated: of moments that makes the true
energy larger than this, never smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.planning.alternatives import InputMoments
from airmixml.scenario import Workers
from airmixml.workers import Signal, encoder_of


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """Energies per symbol of what one worker sends, and of its mean over all workers.

    Attributes:
        input_energy: E ||v||^2 of the input symbols, over their number.
        input_mean_energy: ||E v||^2 of the input symbols, over their number.
        label_energy: the same for the label symbols.
        label_mean_energy: likewise, for balanced classes that say nothing about the inputs.
    """

    input_energy: float
    input_mean_energy: float
    label_energy: float
    label_mean_energy: float

    @classmethod
    def of(cls, workers: Workers, signal: Signal, moments: InputMoments) -> ExpectedSignal:
        """Return the energies for inputs in [0, 1] of that mean and deviation, as the workers encode and send them."""
        numbers = signal.features - (1 if workers.constant else 0)
        mean, deviation = _encoded(workers, numbers, moments)
        share, constant = 1.0 - workers.constant**2, (workers.constant * workers.clip_norm) ** 2
        squared_mean = share * numbers * mean**2 + constant
        variance = share * deviation**2  # of one feature
        squared_norm = squared_mean + numbers * variance
        weight = signal.label_weight**2
        if not signal.moments:
            return cls(
                input_energy=squared_norm / signal.input_symbols,
                input_mean_energy=squared_mean / signal.input_symbols,
                label_energy=weight / signal.classes,
                label_mean_energy=weight / signal.classes**2,
            )
        # tr M^2 of M = E x x^T: the mean's own product, what it shares with the features, and the features' spread.
        spread = numbers * variance**2 + 2.0 * variance * share * numbers * mean**2
        return cls(
            input_energy=squared_norm**2 / signal.input_symbols,
            input_mean_energy=(squared_mean**2 + spread) / signal.input_symbols,
            label_energy=weight * squared_norm / signal.label_symbols,
            label_mean_energy=weight * squared_mean / signal.classes / signal.label_symbols,
        )

    def of_inputs(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected square of an input symbol of each slot's mixture; ratios are slots x scheduled."""
        return _mixed(ratios, self.input_energy, self.input_mean_energy)

    def of_labels(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected square of a label symbol of each slot's mixture; ratios are slots x scheduled."""
        return _mixed(ratios, self.label_energy, self.label_mean_energy)


def _mixed(ratios: NDArray[np.float64], energy: float, mean_energy: float) -> NDArray[np.float64]:
    squares = (ratios**2).sum(axis=1)
    return np.asarray((ratios.sum(axis=1) ** 2 - squares) * mean_energy + squares * energy)


def _encoded(workers: Workers, numbers: int, moments: InputMoments) -> tuple[float, float]:
    """Return mean and deviation of a feature; features other than inputs count as centred, of full norm."""
    encoder = encoder_of(workers)
    if not encoder.bounds_norm:
        return moments.mean, moments.deviation
    if not encoder.keeps_inputs:
        return 0.0, workers.clip_norm / math.sqrt(numbers)
    # The public centre is the middle of the bounds; an image's is about its own mean.
    mean = {"none": moments.mean, "public": moments.mean - 0.5}.get(workers.centre, 0.0)
    length = math.sqrt(numbers * (mean**2 + moments.deviation**2))  # all are taken as equally long
    share = workers.clip_norm / length if workers.norm == "unit" else min(1.0, workers.clip_norm / length)
    return share * mean, share * moments.deviation
