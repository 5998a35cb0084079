import pytest
import torch
from torch import nn

from airmixml.edge.fitting import build_model, initialise
from airmixml.errors import ScenarioError
from airmixml.scenario import Learner, Scenario


def parameters(model: nn.Module) -> list[int]:
    return [parameter.numel() for parameter in model.parameters()]


def test_the_papers_iris_network() -> None:
    model = build_model(Scenario.preset("paper-iris").learner, 4, 3, None)
    assert parameters(model) == [4 * 32, 32, 32 * 16, 16, 16 * 3, 3]
    assert model(torch.zeros(5, 4)).shape == (5, 3)


def test_the_papers_mnist_network() -> None:
    """28 -> 24 -> 12 -> 8 -> 4: 48 maps of 4 x 4 enter the dense layers."""
    model = build_model(Scenario.preset("paper-mnist").learner, 784, 10, (28, 28))
    assert parameters(model) == [
        *(32 * 25, 32, 48 * 32 * 25, 48),
        *(48 * 16 * 100, 100, 100 * 100, 100, 100 * 10, 10),
    ]
    assert model(torch.zeros(2, 784)).shape == (2, 10)
    pools = [module for module in model if isinstance(module, nn.MaxPool2d)]
    convolutions = [module for module in model if isinstance(module, nn.Conv2d)]
    assert [(pool.kernel_size, pool.stride) for pool in pools] == [(2, 2), (2, 2)]
    assert [(layer.kernel_size, layer.stride) for layer in convolutions] == [((5, 5), (1, 1))] * 2


def test_a_cnn_needs_images_that_are_large_enough() -> None:
    learner = Learner(model="cnn")
    with pytest.raises(ScenarioError, match="needs images"):
        build_model(learner, 4, 3, None)
    with pytest.raises(ScenarioError, match="8 x 8"):
        build_model(learner, 64, 10, (8, 8))


def test_initial_values_follow_the_generator_and_glorot() -> None:
    first, second, other = (build_model(Learner(hidden_units=(400,)), 600, 3, None) for _ in range(3))
    for model, seed in ((first, 1), (second, 1), (other, 2)):
        initialise(model, torch.Generator().manual_seed(seed))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first[0].weight, other[0].weight)
    bound = (6 / (600 + 400)) ** 0.5
    weight = first[0].weight
    assert weight.abs().max().item() == pytest.approx(bound, rel=1e-3)
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)
    assert first[0].bias.abs().max() == 0
