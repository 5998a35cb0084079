"""How much signal a mixture is expected to carry, from a mean and a deviation of inputs.

Before any data are seen, the energy of a slot's mixture is an expectation. Of an encoded input x = (a u, c C) the
features u are taken as uncorrelated and equally spread, and c C is the constant that the encoder appends;
a^2 = 1 - c^2. A slot adds up q_i v_i of independent workers, so its expected energy is
((sum q)^2 - sum q^2) ||E v||^2 + (sum q^2) E ||v||^2. Real features are correlated: of moments that makes the true
energy larger than this, never smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from airmixml.arrays import Doubles
from airmixml.scenario import Workers
from airmixml.workers import Signal, encoder_of


@dataclass(frozen=True, kw_only=True)
class InputMoments:
    """Mean and deviation of an input symbol, assumed or known, for the SNR of mixtures of them."""

    mean: float
    deviation: float

    def encoded(self, workers: Workers, features: int) -> InputMoments:
        """Return about what the encoder leaves of them; features other than inputs count as centred, of full norm."""
        encoder = encoder_of(workers)
        if not encoder.bounds_norm:
            return self
        if not encoder.keeps_inputs:
            return InputMoments(mean=0.0, deviation=workers.clip_norm / math.sqrt(features))
        # The public centre is the middle of the bounds; an image's is about its own mean.
        mean = {"none": self.mean, "public": self.mean - 0.5}.get(workers.centre, 0.0)
        length = math.sqrt(features * (mean**2 + self.deviation**2))  # all are taken as equally long
        share = workers.clip_norm / length if workers.norm == "unit" else min(1.0, workers.clip_norm / length)
        return InputMoments(mean=share * mean, deviation=share * self.deviation)


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """Energies per symbol of what one worker sends, and of its mean over all workers."""

    input_energy: float  # E ||v||^2 of the input symbols, over their number
    input_mean_energy: float  # ||E v||^2 of the input symbols, over their number
    label_energy: float  # the same for the label symbols
    label_mean_energy: float  # likewise, for balanced classes that say nothing about the inputs

    @classmethod
    def of(cls, workers: Workers, signal: Signal, moments: InputMoments) -> ExpectedSignal:
        """Return the energies for inputs in [0, 1] of that mean and deviation, as the workers encode and send them."""
        numbers = signal.features - (1 if workers.constant else 0)
        encoded = moments.encoded(workers, numbers)
        mean, deviation = encoded.mean, encoded.deviation
        share, constant = 1.0 - workers.constant**2, (workers.constant * workers.clip_norm) ** 2
        squared_mean = share * numbers * mean**2 + constant
        variance = share * deviation**2  # of one feature
        squared_norm = squared_mean + numbers * variance
        weight, mean_share = signal.label_weight**2, 0.0 if signal.centred_labels else 1.0 / signal.classes
        if not signal.moments:
            return cls(
                input_energy=squared_norm / signal.input_symbols,
                input_mean_energy=squared_mean / signal.input_symbols,
                label_energy=weight / signal.classes,
                label_mean_energy=weight * mean_share / signal.classes,
            )
        # tr M^2 of M = E x x^T: the mean's own product, what it shares with the features, and the features' spread.
        spread = numbers * variance**2 + 2.0 * variance * share * numbers * mean**2
        return cls(
            input_energy=squared_norm**2 / signal.input_symbols,
            input_mean_energy=(squared_mean**2 + spread) / signal.input_symbols,
            label_energy=weight * squared_norm / signal.label_symbols,
            label_mean_energy=weight * squared_mean * mean_share / signal.label_symbols,
        )

    def of_inputs(self, ratios: Doubles) -> Doubles:
        """Return the expected square of an input symbol of each slot's mixture; ratios are slots x scheduled."""
        return self._mixed(ratios, self.input_energy, self.input_mean_energy)

    def of_labels(self, ratios: Doubles) -> Doubles:
        """Return the expected square of a label symbol of each slot's mixture; ratios are slots x scheduled."""
        return self._mixed(ratios, self.label_energy, self.label_mean_energy)

    def _mixed(self, ratios: Doubles, energy: float, mean_energy: float) -> Doubles:
        """Return the energy of sum q_i v_i of independent workers."""
        total, squares = ratios.sum(axis=1) ** 2, (ratios**2).sum(axis=1)
        return np.asarray((total - squares) * mean_energy + squares * energy)
