"""Canaries: samples that are the farthest apart that the encoder's declared bounds allow.

They are made as *encoded* samples and go through the end of the encoder, where norms are bounded, and through the real
sender. So an encoder that bounds no norms, or a sender that sends too much, shows in the audit. Features are not
computed: that some picture has exactly these features is more than can be said.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.audit.faults import SOUND, Fault
from airmixml.data import Bounded, Centred, DataSet, LabelCode
from airmixml.radio.transmission import make_sender
from airmixml.scenario import Scenario, Workers
from airmixml.scenario.score_links import SOFTMAX
from airmixml.workers import Signal, declared_bounds, encoder_of, finish_encoding
from airmixml.workers.payloads import Broadcast

_CERTAIN: Final = 30.0  # of a score beside others of 0
_NO_CLIP: Final = 1e6


def _encoded(workers: Workers, features: Singles, labels: Integers, classes: int) -> DataSet:
    """Return samples as the encoder's last step leaves them, without a test set; features are samples x features.

    Labels that are no classes are targets in [-1, 1]: all at the upper end for even numbers, at the lower one for odd.
    """
    inputs = finish_encoding(workers, features)[0] if encoder_of(workers).bounds_norm else features
    code: LabelCode | None = None
    if workers.task != "classification":
        code = Bounded((-1.0,) * classes, (1.0,) * classes)
        labels = np.repeat(1 - 2 * (labels[:, None] % 2), classes, axis=1)
    elif workers.label_code == "centred":
        code = Centred(classes)
    return DataSet(
        name="canaries",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:0],
        test_labels=labels[:0],
        class_names=tuple(map(str, range(classes))),
        image_shape=None,
        clipped_values=0,
        code=code,
    )


def worst_samples(scenario: Scenario, features: int, classes: int) -> DataSet:
    """Return a data set of three encoded samples: the canary, the one farthest from it, and one far from both.

    The first has the largest norm too, so that it is also the canary that is removed. Scaled inputs are all ones and
    all zeros with different labels: squared distance d_X + 2, where the paper's bound d_X + d_Y is never reached.
    Bounded norms are C e_1 and -C e_1, or C e_2 where no number is negative. Moments point apart by the angle that
    makes their products differ most (``Signal.largest_squared_distance``). The constant is one of the features. Where
    there are rounds, the first two have one input and different labels: their gradients point to opposite sides.
    """
    workers, rounds = scenario.workers, scenario.has_rounds
    opposite = Signal.of(workers, features, classes).signed
    labels = np.arange(3, dtype=np.int64) % (2 if opposite else classes)
    encoder, changed = encoder_of(workers), workers.centre != "none" or workers.constant or workers.sends == "moments"
    if not encoder.bounds_norm or (encoder.keeps_inputs and not changed):  # inputs in [0, 1]^d: only norms are bounded
        corners = _cube_corners(workers, features)
        corners[1] = corners[0 if rounds else 1]
        return _encoded(workers, corners, labels, classes)
    squared_norm, squared_distance = declared_bounds(workers, features)
    # Features but for the constant, and whether any may be negative.
    body, signed = features - (1 if workers.constant else 0), squared_distance > 3.0 * squared_norm
    cosine = 1.0 if rounds else _worst_cosine(workers, Signal.of(workers, features, classes), signed=signed)
    directions = np.zeros((3, body), dtype=np.float64)
    directions[0, 0] = 1.0
    directions[1, 0] = cosine if body > 1 else math.copysign(1.0, cosine) if signed else 0.0
    directions[1, 1:2] = math.sqrt(1.0 - cosine**2)
    directions[2, min(2, body - 1)] = 1.0
    if workers.sends == "moments" and signed and not opposite and not rounds:
        labels[1] = labels[0]  # then their products with the label point apart too
    # Twice as long as allowed: the encoder is to shorten them.
    return _encoded(workers, (2.0 * workers.clip_norm * directions).astype(np.float32), labels, classes)


def sent_of(scenario: Scenario, samples: DataSet, fault: Fault = SOUND) -> Doubles:
    """Return what each sample is really sent as, alone and with a share of 1; samples x symbols."""
    send, count = faulty_sender(scenario, samples, fault), samples.train_samples
    alone = send(torch.arange(count)[:, None], torch.ones((count, 1), dtype=torch.float64))
    return np.asarray(alone.numpy(), dtype=np.float64)


def faulty_sender(
    scenario: Scenario, samples: DataSet, fault: Fault
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the weighted sums of what workers with these samples really send; gradients of a model in between."""
    sender = make_sender(scenario, samples, torch.device("cpu"))
    factor = fault.sent_factor * fault.gain_factor
    if scenario.workers.sends == "gradients":
        told = _model_in_between(scenario, samples)
        if fault.unclipped:  # as with a clip that nothing exceeds
            factor, told = factor * _NO_CLIP / told.clip, replace(told, clip=_NO_CLIP)
        sender.broadcast(told)
    return lambda index, weights: factor * sender.weighted_sum(index, weights)


def _model_in_between(scenario: Scenario, samples: DataSet) -> Broadcast:
    """Return a model that is undecided between the labels of the first two samples, which have one input.

    So both are equally wrong, and far enough for their gradients to be clipped.
    """
    canary, link = samples.train_inputs[0].astype(np.float64), scenario.score_link
    scores = np.zeros(samples.label_dim)
    if link is SOFTMAX:
        scores[samples.train_labels[:2]] = _CERTAIN
    return Broadcast(
        weights=np.outer(canary / (canary @ canary), scores),
        biases=np.zeros_like(scores),
        clip=scenario.learner.gradient_clip * scenario.workers.clip_norm * link.length(samples.label_dim),
        link=link,
    )


def _cube_corners(workers: Workers, features: int) -> Singles:
    """Return corners of the cube: as many ones as the norm allows, ones elsewhere, and ones elsewhere still."""
    most = workers.clip_norm**2 if encoder_of(workers).bounds_norm else float(features)
    ones = min(features, max(1, math.ceil(most)))
    corners = np.zeros((3, features), dtype=np.float32)
    for number, corner in enumerate(corners):
        corner[number * ones : (number + 1) * ones] = 1.0
    return corners


def _worst_cosine(workers: Workers, signal: Signal, *, signed: bool) -> float:
    """Return the cosine between the two samples, the constant left aside, that sets them farthest apart."""
    lowest = -1.0 if signed else 0.0
    if not signal.moments:
        return lowest
    square, share = workers.clip_norm**2, 1.0 - workers.constant**2
    if signal.signed:  # with opposite labels products differ most at a positive product, whatever signs inputs have
        product = min(signal.label_weight**2 / 2.0, square)
    else:
        product = -(signal.label_weight**2) / 2.0 if signed else 0.0
    return float(np.clip((product - workers.constant**2 * square) / (share * square), lowest, 1.0))
