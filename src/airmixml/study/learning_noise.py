"""How much noise a learner in closed form is left with, from numbers alone: the score by which designs are compared.

Such a learner solves (second moments) W = (moments with the label). Both arrive with noise. What counts of a noise
matrix is its edge, the largest eigenvalue or singular value that it makes by itself: directions in which the data vary
less than that are lost. The edges of Gaussian noise are known without data (Wigner, Marchenko and Pastur), so designs
can be compared before anything is sent. benchmarks/check_plan.py tells how well the order agrees with measured errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from airmixml.units import ratio_to_db
from airmixml.workers import Signal

__all__ = ["LearningNoise", "SlotQuality", "learning_noise", "varying_share"]


@dataclass(frozen=True, kw_only=True)
class SlotQuality:
    """What matters of the slots.

    Attributes:
        slots: T.
        noise_variance: s^2 on a received symbol, in units of a worker's own symbol when all shares add up to 1.
        varying_share: sum_i q_i^2, less what is the same in every slot.
    """

    slots: int
    noise_variance: float
    varying_share: float


@dataclass(frozen=True, kw_only=True)
class LearningNoise:
    """Edges of the noise, in units of the squared norm of an input.

    Attributes:
        second_edge: of the second moments (their largest eigenvalue by noise alone).
        cross_edge: of the moments with the label (largest singular value).
    """

    second_edge: float
    cross_edge: float

    @property
    def total(self) -> float:
        """Both together: independent noises, so their squares add up."""
        return math.hypot(self.second_edge, self.cross_edge)

    @property
    def total_db(self) -> float:
        """The same in dB; edges are powers, as eigenvalues of second moments are."""
        return float(ratio_to_db(self.total))


def varying_share(square_share: float, scheduled: int, workers: int, *, poisson: bool) -> float:
    """Return how much of a worker's variation a slot carries: the variance of the mixture over that of the samples.

    Of N workers drawn without replacement with shares that add up to 1 it is (sum_i q_i^2 - 1 / N) N / (N - 1): where
    everybody sends the same share, every slot is the same. With a coin of rate r each it is (1 - r) / |N_t|.

    Args:
        square_share: mean of sum_i q_i^2.
        scheduled: |N_t|.
        workers: N.
        poisson: whether each worker tosses its own coin.
    """
    if poisson:
        return (1.0 - scheduled / workers) / scheduled
    if workers == 1:
        return 0.0
    # Equal shares of all leave nothing but rounding.
    left = (square_share - 1.0 / workers) * workers / (workers - 1)
    return left if left > 1e-9 * square_share else 0.0


def learning_noise(signal: Signal, squared_norm: float, quality: SlotQuality) -> LearningNoise:
    """Return the edges of the noise that is left after all slots.

    Received moments are averaged. Their symmetric noise has variance s^2 / (2 T) off the diagonal, so its eigenvalues
    fill a half circle of radius s sqrt(2 d / T) (Wigner); d x K independent entries of deviation s / (w sqrt(T)) have
    singular values up to that times sqrt(d) + sqrt(K). Where not everybody sends in a slot, which workers were drawn
    adds to both as it does below.

    Of samples the server takes covariances. T slots of level v = s^2 + v_q ||x||^2 / d in each of d directions give
    eigenvalues up to v (1 + sqrt(d / T))^2 (Marchenko and Pastur), and their cross-covariance with label symbols of
    level u = s^2 / w^2 + v_q / K entries of deviation sqrt(v u / T); both over v_q, the share that varies.

    Args:
        signal: d, K, w, and whether moments are sent.
        squared_norm: ||x||^2 of an encoded input.
        quality: of the slots.
    """
    features, classes, slots, share = signal.features, signal.classes, quality.slots, quality.varying_share
    rectangle = math.sqrt(features) + math.sqrt(classes)
    label_noise = quality.noise_variance / signal.label_weight**2
    per_feature = squared_norm / features
    if signal.moments:
        drawn_second = 4.0 * share * squared_norm * per_feature / slots
        drawn_cross = share * per_feature / classes / slots
        second = math.sqrt(2.0 * features * quality.noise_variance / slots + drawn_second)
        cross = math.sqrt(label_noise / slots + drawn_cross) * rectangle
        return LearningNoise(second_edge=second / squared_norm, cross_edge=cross / squared_norm)
    if share == 0.0:
        return LearningNoise(second_edge=math.inf, cross_edge=math.inf)
    level = quality.noise_variance + share * per_feature
    label_level = label_noise + share / classes
    aspect = features / slots
    second = level * (2.0 * math.sqrt(aspect) + aspect) / share
    cross = math.sqrt(level * label_level / slots) * rectangle / share
    return LearningNoise(second_edge=second / squared_norm, cross_edge=cross / squared_norm)
