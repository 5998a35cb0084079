from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import nn

from airmixml.edge.adam import Adam
from airmixml.edge.learners import build_model, initialise
from airmixml.messages import ScenarioError
from airmixml.registries import LEARNERS
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


class FrozenMlp(LEARNERS.load("mlp")):  # type: ignore[misc]
    """Another package's learner, whose first layer is not trained."""

    def build(self, *arguments: Any) -> nn.Sequential:
        model: nn.Sequential = super().build(*arguments)
        model[0].requires_grad_(False)
        return model


def test_what_a_learner_froze_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="frozen", value=f"{__name__}:FrozenMlp", group=LEARNERS.group)
    monkeypatch.setitem(vars(LEARNERS), "plugins", {"frozen": point})
    learner = Learner(model="frozen", hidden_units=(5,))
    model = build_model(learner, 4, 3, None)
    initialise(model, torch.Generator().manual_seed(0))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    assert [parameter.requires_grad for parameter in model.parameters()] == [False, False, True, True]
    optimiser = Adam(model, learner)
    optimiser.step(torch.autograd.grad(model(torch.ones(2, 4)).square().sum(), optimiser.parameters))
    moved = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert moved == [False, False, True, True]
