"""How much noise a learner in closed form is left with, from numbers alone: the score by which designs are compared.

Such a learner solves (second moments) W = (moments with the label). Both arrive with noise. What counts of a noise
matrix is its edge, the largest eigenvalue or singular value that it makes by itself: directions in which the data vary
less than that are lost. The edges of Gaussian noise are known without data (Wigner, Marchenko and Pastur), so designs
can be compared before anything is sent. benchmarks/check_plan.py tells how well the order agrees with measured errors.
"""

import math
from dataclasses import dataclass
from typing import Final

from airmixml.workers import Signal

# ||W||^2 of one class, in units of 1 / ||x||^2, is about this over the root of the second moments' noise edge: the less
# noise, the more directions are resolved, and small ones need large weights. Fitted to errors measured on digits.
_WEIGHT_FACTOR: Final = 0.2
# Share of a label's variance that inputs leave unexplained. Fitted likewise.
_UNEXPLAINED: Final = 0.2


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
    """Edges of the noise, over what the same moments of one sample are.

    Attributes:
        quality: of the slots.
        second_edge: of the second moments (their largest eigenvalue by noise alone), over ||x||^2.
        cross_edge: of the moments with the label (largest singular value), over ||x||.
        total: of (moments with the label) - (second moments) W, what is wrong with the equation that is solved. Edges
            are products of two amplitudes, so powers.
    """

    quality: SlotQuality
    second_edge: float
    cross_edge: float
    total: float


def learning_noise(signal: Signal, squared_norm: float, quality: SlotQuality) -> LearningNoise:
    """Return the noise that is left after all slots.

    Received moments are averaged. Their symmetric noise has variance s^2 / (2 T) off the diagonal, so its eigenvalues
    fill a half circle of radius s sqrt(2 d / T) (Wigner); d x K independent entries of deviation s / (w sqrt(T)) have
    singular values up to that times sqrt(d) + sqrt(K). Where not everybody sends in a slot, which workers were drawn
    adds to both as it does below.

    Of samples the server takes covariances. T slots of level v = s^2 + v_q ||x||^2 / d in each of d directions give
    eigenvalues up to v (1 + sqrt(d / T))^2 (Marchenko and Pastur), and their cross-covariance with label symbols of
    level u = s^2 / w^2 + v_q / K entries of deviation sqrt(v u / T); both over v_q, the share that varies.

    The total is the edge of what the true weights leave over: the channel's noise on the label, its noise on the inputs
    times the weights, and of the samples that happened to be drawn only what their inputs do not explain of their
    labels, since both moments are of the same samples.

    Args:
        signal: d, K, w, and whether moments are sent.
        squared_norm: ||x||^2 of an encoded input.
        quality: of the slots.
    """
    if not signal.moments and quality.varying_share == 0.0:
        return LearningNoise(quality=quality, second_edge=math.inf, cross_edge=math.inf, total=math.inf)
    features, classes, slots, share = signal.features, signal.classes, quality.slots, quality.varying_share
    rectangle = math.sqrt(features) + math.sqrt(classes)
    noise, label_noise = quality.noise_variance, quality.noise_variance / signal.label_weight**2
    per_feature, aspect = squared_norm / features, features / slots
    if signal.moments:
        second = math.sqrt(2.0 * aspect * noise + 4.0 * share * squared_norm * per_feature / slots)
        cross_variance = (label_noise + share * per_feature / classes) / slots
        left_over = (label_noise + share * per_feature * _UNEXPLAINED / classes) / slots
        weighted_input_noise = noise / 2.0 / slots
    else:
        level = noise + share * per_feature
        # Fewer slots than features: the edge of Marchenko and Pastur grows beyond the root.
        few_slots = 1.0 + math.sqrt(aspect) / 2.0
        second = 2.0 * level * math.sqrt(aspect) * few_slots / share
        per_slot = level / slots / share**2
        cross_variance = per_slot * (label_noise + share / classes)
        left_over = per_slot * few_slots**2 * (label_noise + share * _UNEXPLAINED / classes)
        weighted_input_noise = per_slot * few_slots**2 * noise
    squared_weights = _WEIGHT_FACTOR / math.sqrt(second / squared_norm) / squared_norm
    return LearningNoise(
        quality=quality,
        second_edge=second / squared_norm,
        cross_edge=rectangle * math.sqrt(cross_variance / squared_norm),
        total=rectangle * math.sqrt((left_over + squared_weights * weighted_input_noise) / squared_norm),
    )
