import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, softmax

from airmixml.data import DataSet
from airmixml.edge import train_model
from airmixml.edge.adam import LOSSES, SMALLEST_PROBABILITY, brier_loss, soft_cross_entropy, squared_loss
from airmixml.scenario import Learner

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
@settings(max_examples=25, deadline=None)
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


@given(
    scores=arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
    labels=arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
)
@settings(max_examples=40, deadline=None)
def test_squared_losses_against_numpy(scores: np.ndarray, labels: np.ndarray) -> None:
    """Sums over the classes, means over the slots; of probabilities for Brier's."""
    tensors = torch.from_numpy(scores), torch.from_numpy(labels)
    assert squared_loss(*tensors).item() == pytest.approx(((scores - labels) ** 2).sum(axis=1).mean(), rel=1e-9)
    by_numpy = ((softmax(scores, axis=1) - labels) ** 2).sum(axis=1).mean()
    assert brier_loss(*tensors).item() == pytest.approx(by_numpy, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["cross-entropy", "squared", "brier"])
def test_a_stack_has_one_loss_for_each_network(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    scores, labels = (torch.randn((5, 7, 3), generator=generator) for _ in range(2))
    loss = LOSSES[name]
    together = loss(scores, labels)
    assert together.tolist() == pytest.approx(
        [loss(*each).item() for each in zip(scores, labels, strict=True)], rel=1e-6
    )
    assert together.shape == (5,)


def test_losses_by_name() -> None:
    named = [LOSSES[name] for name in ("cross-entropy", "squared", "brier")]
    assert named == [soft_cross_entropy, squared_loss, brier_loss]


def test_label_noise_moves_no_minimum_of_the_squared_loss() -> None:
    """The constant score that minimises it is the mean label: over 40 000 slots of noise 2, within 5 x 2 / 200.

    Noise on the inputs' labels that is not of mean zero would move it, so the test can fail.
    """
    generator = torch.Generator().manual_seed(1)
    truth = torch.tensor([0.5, 0.3, 0.2])
    labels = truth + 2.0 * torch.randn((40_000, 3), generator=generator)
    scores = torch.zeros(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(squared_loss(scores.expand_as(labels), labels), scores)
    minimum = -gradient / 2.0  # from zero one step of Newton's method is all the way
    assert minimum.tolist() == pytest.approx(truth.tolist(), abs=0.05)
    (moved,) = torch.autograd.grad(squared_loss(scores.expand_as(labels), labels + 0.2), scores)
    assert (-moved / 2.0 - truth).abs().min() > 0.1


def test_label_noise_leaves_brier_s_best_probabilities_alone() -> None:
    """The gradient at softmax(s) = E[y] is zero but for the mean noise, 2 / 200, and is not for other scores."""
    generator = torch.Generator().manual_seed(2)
    truth = torch.tensor([0.5, 0.3, 0.2])
    labels = truth + 2.0 * torch.randn((40_000, 3), generator=generator)
    gradients = []
    for place in (truth, torch.tensor([0.2, 0.3, 0.5])):
        scores = place.log().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(brier_loss(scores.expand_as(labels), labels), scores)
        gradients.append(float(gradient.abs().max()))
    assert gradients[0] < 0.05
    assert gradients[1] > 0.1


@pytest.mark.parametrize("name", ["squared", "brier"])
def test_networks_learn_with_it_from_noisy_labels(name: str) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.random((600, 2)).astype(np.float32)
    classes = (inputs[:, 0] > inputs[:, 1]).astype(np.int64)
    noisy = np.eye(2)[classes] + 0.5 * rng.standard_normal((600, 2))
    dataset = DataSet(
        name="halves",
        train_inputs=inputs,
        train_labels=classes,
        test_inputs=inputs,
        test_labels=classes,
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )
    learner = Learner(hidden_units=(8,), loss=name, epochs=30, learning_rate=0.01)
    trained = train_model(learner, dataset, torch.from_numpy(inputs), torch.from_numpy(noisy).float(), seed=0)
    assert trained.history.final_accuracy > 0.9
    # What is reported is that loss: noise of 0.25 on each of two labels cannot be learnt away.
    assert 0.4 < trained.history.loss[-1] < trained.history.loss[0]
