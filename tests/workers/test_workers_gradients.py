"""Gradients that workers send: those that automatic differentiation finds, clipped, and never longer than declared."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.data import Centred, Signs
from airmixml.messages import ScenarioError
from airmixml.scenario.score_links import IDENTITY, LOGISTIC
from airmixml.workers import Signal
from airmixml.workers.gradients import Gradients
from airmixml.workers.payloads import Broadcast

RNG = np.random.default_rng(5)
INPUTS = RNG.standard_normal((12, 5)).astype(np.float32) / 4
CLASS = RNG.integers(0, 3, 12)
ONE_HOT = np.eye(3, dtype=np.float32)[CLASS]
WEIGHTS, BIASES = RNG.standard_normal((5, 3)), RNG.standard_normal(3)
SIGNAL = Signal(features=5, classes=3, label_weight=0.5, payload="gradients")
LONGEST = math.sqrt(1.0 + 0.25)  # ||x||^4 + w^2 ||x||^2 for ||x|| = 1


def gradients(clip: float, **changed: object) -> Gradients:
    payload = Gradients(**{"signal": SIGNAL, "norm": 1.0, "inputs": INPUTS, "labels": ONE_HOT, **changed})  # type: ignore[arg-type]
    payload.broadcast(Broadcast(weights=WEIGHTS, biases=BIASES, clip=clip))
    return payload


def differentiated(row: int) -> np.ndarray:
    weights = torch.tensor(WEIGHTS, requires_grad=True)
    scores = torch.from_numpy(INPUTS[row]).double() @ weights + torch.from_numpy(BIASES)
    torch.nn.functional.cross_entropy(scores[None], torch.tensor([CLASS[row]])).backward()
    return weights.grad.numpy().T.ravel()  # type: ignore[union-attr]


def test_a_short_gradient_is_sent_as_it_is_in_units_of_the_clip() -> None:
    for row, vector in enumerate(gradients(100.0).vectors(np.arange(12))):
        assert vector == pytest.approx(LONGEST / 100.0 * differentiated(row), rel=1e-5, abs=1e-9)


def test_a_long_gradient_is_shortened_to_the_clip() -> None:
    for row, vector in enumerate(gradients(1e-3).vectors(np.arange(12))):
        whole = differentiated(row)
        assert vector == pytest.approx(LONGEST * whole / np.linalg.norm(whole), rel=1e-5)


def test_centred_labels_are_those_of_their_class() -> None:
    labels = Centred(3).coded(CLASS)
    signal = Signal(features=5, classes=3, label_weight=0.5, payload="gradients", signed=True, centred_labels=True)
    centred = gradients(100.0, signal=signal, labels=labels)
    assert centred.vectors(np.arange(12)) == pytest.approx(gradients(100.0).vectors(np.arange(12)), abs=1e-12)


def test_numbers_are_learnt_by_least_squares() -> None:
    payload = gradients(1.0)
    payload.broadcast(Broadcast(weights=WEIGHTS, biases=BIASES, clip=100.0, link=IDENTITY))
    error = INPUTS[3].astype(float) @ WEIGHTS + BIASES - ONE_HOT[3]
    assert payload.vectors(np.array([3]))[0] == pytest.approx(
        LONGEST / 100.0 * np.outer(error, INPUTS[3]).ravel(), rel=1e-5
    )


HOLDS = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]])


def logistic(clip: float) -> Gradients:
    signal = Signal(features=5, classes=3, label_weight=0.5, payload="gradients", signed=True)
    payload = gradients(clip, signal=signal, inputs=INPUTS[:3], labels=Signs(3).coded(HOLDS))
    payload.broadcast(Broadcast(weights=WEIGHTS, biases=BIASES, clip=clip, link=LOGISTIC))
    return payload


def label_loss(weights: np.ndarray, row: int) -> float:
    """Minus the logarithm of the likelihood of all labels of a row."""
    scores = INPUTS[row].astype(float) @ weights + BIASES
    return float(np.log1p(np.exp(np.where(HOLDS[row] == 1, -scores, scores))).sum())


def test_several_labels_send_the_slope_of_the_logistic_loss() -> None:
    """By finite differences of the loss, number by number."""
    step = 1e-5
    for row, vector in enumerate(logistic(100.0).vectors(np.arange(3))):
        slope = np.empty((3, 5))
        for label, feature in np.ndindex(3, 5):
            moved = np.zeros_like(WEIGHTS)
            moved[feature, label] = step
            higher, lower = (label_loss(WEIGHTS + sign * moved, row) for sign in (1.0, -1.0))
            slope[label, feature] = (higher - lower) / (2.0 * step)
        assert vector == pytest.approx(LONGEST / 100.0 * slope.ravel(), rel=1e-4, abs=1e-8)


def test_the_logistic_gradient_by_hand() -> None:
    """Logit ln 3 is probability 3 / 4: an error of -1 / 4 where the label holds, 3 / 4 where it does not."""
    payload = logistic(1.0)
    told = Broadcast(weights=np.zeros((5, 3)), biases=np.full(3, math.log(3.0)), clip=100.0, link=LOGISTIC)
    payload.broadcast(told)
    errors = np.array([-0.25, 0.75, -0.25])
    assert payload.vectors(np.array([0]))[0] == pytest.approx(
        LONGEST / 100.0 * np.outer(errors, INPUTS[0]).ravel(), rel=1e-5
    )


def test_all_labels_of_a_row_are_shortened_together() -> None:
    lengths = np.linalg.norm(logistic(1e-3).vectors(np.arange(3)), axis=1)
    assert lengths == pytest.approx(np.full(3, LONGEST), rel=1e-5)


def test_several_rows_send_the_clipped_sum() -> None:
    rows, present = np.array([[0, 1, 2], [3, 4, 0]]), np.array([[1, 1, 1], [1, 1, 0]], dtype=np.float32)
    held = {"rows": rows, "present": present, "rows_bound": 2.0}
    unclipped, clipped = gradients(100.0, **held), gradients(1e-3, **held)
    for holding, some in enumerate(((0, 1, 2), (3, 4))):
        index, whole = np.array([holding]), sum(differentiated(row) for row in some)
        assert unclipped.vectors(index)[0] == pytest.approx(LONGEST / 100.0 * whole / 2.0, rel=1e-5, abs=1e-9)
        units = sum(differentiated(row) / np.linalg.norm(differentiated(row)) for row in some)
        shorter = units * min(1.0, 2.0 / np.linalg.norm(units)) / 2.0
        assert clipped.vectors(index)[0] == pytest.approx(LONGEST * shorter, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(scale=st.floats(-30.0, 30.0), clip=st.floats(1e-6, 1e3), seed=st.integers(0, 2**32 - 1))
def test_no_vector_is_longer_than_declared(scale: float, clip: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((8, 5))
    inputs = (inputs / np.linalg.norm(inputs, axis=1, keepdims=True)).astype(np.float32)
    payload = gradients(clip, inputs=inputs, labels=ONE_HOT[:8])
    payload.broadcast(Broadcast(weights=scale * WEIGHTS, biases=BIASES, clip=clip))
    lengths = np.linalg.norm(payload.vectors(np.arange(8)), axis=1)
    assert (lengths <= LONGEST).all()
    assert Gradients.largest_squared_norm(SIGNAL, 1.0) == pytest.approx(LONGEST**2)
    assert Gradients.largest_squared_distance(SIGNAL, 1.0, 4.0) == pytest.approx(4.0 * LONGEST**2)


def test_nothing_is_sent_before_a_broadcast() -> None:
    payload = Gradients(signal=SIGNAL, norm=1.0, inputs=INPUTS, labels=ONE_HOT)
    with pytest.raises(ScenarioError, match="no model was broadcast"):
        payload.vectors(np.array([0]))
