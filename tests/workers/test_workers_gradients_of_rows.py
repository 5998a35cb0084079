"""How far one of a worker's rows can move what it sends in a round."""

from typing import Any

import numpy as np
import pytest

from airmixml.scenario.score_links import IDENTITY, SOFTMAX
from airmixml.workers.gradients import Gradients
from airmixml.workers.payloads import Broadcast
from airmixml.workers.signal import Signal

FEATURES, ROWS_BOUND, CLIP = 4, 10.0, 0.2


def sums(
    inputs: Any, labels: Any, *, rows_bound: float, biases: float = 0.0, classes: bool = True
) -> tuple[Any, float]:
    """Return what a worker with all rows sends, and one without the last of them; and the declared norm."""
    rows = np.arange(len(inputs))[None].repeat(2, axis=0)
    present = np.ones(rows.shape, dtype=np.float32)
    present[1, -1] = 0.0
    outputs = labels.shape[1]
    payload = Gradients(
        signal=Signal(features=FEATURES, classes=outputs, several_rows=True, signed=not classes, payload="gradients"),
        norm=1.0,
        inputs=inputs.astype(np.float32),
        labels=labels.astype(np.float32),
        rows=rows,
        present=present,
        rows_bound=rows_bound,
    )
    link = SOFTMAX if classes else IDENTITY
    told = Broadcast(weights=np.zeros((FEATURES, outputs)), biases=np.full(outputs, biases), clip=CLIP, link=link)
    payload.broadcast(told)
    return payload.vectors(np.arange(2)), payload.largest_norm


def test_a_row_moves_a_round_by_its_part_of_the_sum() -> None:
    """As ``row_amplitude`` states it: 1 / rows_bound of what all rows may move."""
    inputs, labels = np.eye(FEATURES)[[0, 1]], np.eye(2)[[0, 1]]
    sent, declared = sums(inputs, labels, rows_bound=ROWS_BOUND)
    assert np.linalg.norm(sent[0] - sent[1]) <= declared / ROWS_BOUND


@pytest.mark.parametrize("score", [1e6, 1e7, 1e8])
def test_long_gradients_that_cancel_are_shortened(score: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        one = rng.normal(size=FEATURES)
        inputs = np.stack([one, -one]) / np.linalg.norm(one)
        sent, declared = sums(inputs, rng.uniform(-1.0, 1.0, (2, 2)), rows_bound=1.0, biases=score, classes=False)
        assert np.linalg.norm(sent, axis=1).max() <= declared
