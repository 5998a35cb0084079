import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax

from airmixml.edge.loss import SMALLEST_PROBABILITY, soft_cross_entropy

FLOOR = math.log(1e-7)


def by_hand(scores: np.ndarray, labels: np.ndarray) -> float:
    return float(-(labels * np.maximum(log_softmax(scores, axis=1), FLOOR)).sum(axis=1).mean())


def test_on_one_hot_labels_it_is_the_usual_cross_entropy() -> None:
    scores = torch.tensor([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])
    classes = torch.tensor([1, 2])
    usual = torch.nn.functional.cross_entropy(scores, classes)
    assert soft_cross_entropy(scores, torch.eye(3)[classes]).item() == pytest.approx(usual.item(), rel=1e-6)


@given(
    scores=arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
    labels=arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
)
@settings(max_examples=200, deadline=None)
def test_any_real_labels_give_the_documented_value_within_its_bounds(scores: np.ndarray, labels: np.ndarray) -> None:
    loss = soft_cross_entropy(torch.from_numpy(scores), torch.from_numpy(labels)).item()
    assert loss == pytest.approx(by_hand(scores, labels), rel=1e-9, abs=1e-9)
    limit = -FLOOR * np.abs(labels).sum(axis=1).mean()
    assert -limit - 1e-9 <= loss <= limit + 1e-9


def test_a_negative_label_pulls_only_down_to_the_floor() -> None:
    labels = torch.tensor([[-1.0, 1.0]])

    def gradient(score: float) -> float:
        scores = torch.tensor([[score, 0.0]], requires_grad=True)
        soft_cross_entropy(scores, labels).backward()
        assert scores.grad is not None
        return float(scores.grad[0, 0])

    assert gradient(0.0) == pytest.approx(1.0)  # d/ds (ln p_1 - ln p_2) = 1
    beyond = math.log(SMALLEST_PROBABILITY) - 1
    assert gradient(beyond) == pytest.approx(math.exp(beyond), rel=1e-3)  # what is left is -ln p_2


def test_it_is_linear_in_the_labels_so_that_noise_averages_out() -> None:
    scores = torch.randn(1, 5, generator=torch.Generator().manual_seed(1)).repeat(200_000, 1)
    clean = torch.tensor([0.5, 0.2, 0.3, 0.0, 0.0])
    noise = 2.0 * torch.randn(200_000, 5, generator=torch.Generator().manual_seed(2))
    noisy = soft_cross_entropy(scores, clean + noise).item()
    exact = soft_cross_entropy(scores[:1], clean[None]).item()
    error = 2.0 * torch.log_softmax(scores[0], 0).norm().item() / math.sqrt(200_000)
    assert noisy == pytest.approx(exact, abs=5 * error)
