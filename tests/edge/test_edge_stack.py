"""Networks in a stack compute and learn what each would alone."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from airmixml import AirMixError, Scenario, ScenarioError, Speed, simulate, train
from airmixml.data import DataSet
from airmixml.edge import stack as stacks
from airmixml.edge.fitting import train_model, train_stack
from airmixml.edge.learners import build_model, class_scores, start_network
from airmixml.edge.stack import NetworkStack
from airmixml.edge.training import TrainingHistory
from airmixml.radio.transmission import simulate_family
from airmixml.runs.model_files import FileCheckpoint
from airmixml.scenario import Learner

MLP = Learner(hidden_units=(8, 5), epochs=5, batch_size=10)
CNN = Learner(model="cnn", hidden_units=(6,), filters=(3, 4), kernel_size=2, pool_size=2, epochs=5, batch_size=10)
ONE = Speed(threads=1)
LEARNERS = pytest.mark.parametrize("learner", [MLP, CNN], ids=["mlp", "cnn"])


@pytest.fixture
def images() -> DataSet:
    """Three classes of 7 x 9 images: the row that is bright tells them apart."""
    rng = np.random.default_rng(1)
    labels = np.arange(85) % 3
    inputs = 0.5 * rng.random((85, 7, 9)).astype(np.float32)
    inputs[np.arange(85), 2 * labels + 1] += 0.5
    return DataSet(
        name="rows",
        train_inputs=inputs.reshape(85, 63),
        train_labels=labels,
        test_inputs=inputs.reshape(85, 63)[:40],
        test_labels=labels[:40],
        class_names=("top", "middle", "bottom"),
        image_shape=(7, 9),
        clipped_values=0,
    )


def sets_of_mixtures(dataset: DataSet, networks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The clean samples with another noise for each network."""
    generator = torch.Generator().manual_seed(7)
    inputs = torch.from_numpy(dataset.train_inputs).expand(networks, -1, -1)
    labels = torch.eye(dataset.label_dim)[torch.from_numpy(dataset.train_labels)].expand(networks, -1, -1)
    return (
        inputs + 0.1 * torch.randn(inputs.shape, generator=generator),
        labels + 0.1 * torch.randn(labels.shape, generator=generator),
    )


def networks_and_stack(
    learner: Learner, inputs: int, classes: int, shape: tuple[int, int] | None, count: int
) -> tuple[list[nn.Sequential], NetworkStack]:
    """Networks of one shape with values of their own, biases included, and the stack of the same values."""
    generator = torch.Generator().manual_seed(count)
    networks = []
    for _ in range(count):
        network = build_model(learner, inputs, classes, shape).double()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(generator=generator)
        networks.append(network)
    stack = NetworkStack([networks[0]] * count)
    with torch.no_grad():
        for stacked, *alone in zip(stack.parameters(), *(network.parameters() for network in networks), strict=True):
            stacked.copy_(torch.stack(alone))
    return networks, stack


def assert_same_outputs_and_gradients(networks: list[nn.Sequential], stack: NetworkStack, inputs: torch.Tensor) -> None:
    """Compare with each network of torch's own layers, for scores that all count differently."""
    together = inputs.clone().requires_grad_()
    scores = stack(together)
    weights = torch.randn(scores.shape, generator=torch.Generator().manual_seed(3), dtype=scores.dtype)
    (scores * weights).sum().backward()
    assert together.grad is not None
    for number, network in enumerate(networks):
        alone = inputs[number].clone().requires_grad_()
        expected = network(alone)
        (expected * weights[number]).sum().backward()
        torch.testing.assert_close(scores[number], expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.grad[number], alone.grad, rtol=1e-9, atol=1e-9)
        for stacked, parameter in zip(stack.parameters(), network.parameters(), strict=True):
            assert stacked.grad is not None
            torch.testing.assert_close(stacked.grad[number], parameter.grad, rtol=1e-9, atol=1e-9)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(11), dtype=torch.float64)


@settings(max_examples=25, deadline=None)
@given(
    hidden=st.lists(st.integers(1, 7), max_size=3),
    inputs=st.integers(1, 9),
    classes=st.integers(1, 5),
    batch=st.integers(1, 17),
    count=st.integers(1, 4),
)
def test_dense_networks_of_any_shape(hidden: list[int], inputs: int, classes: int, batch: int, count: int) -> None:
    learner = Learner(hidden_units=tuple(hidden))
    networks, stack = networks_and_stack(learner, inputs, classes, None, count)
    assert_same_outputs_and_gradients(networks, stack, noise(count, batch, inputs))


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    filters=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    kernel=st.integers(1, 4),
    pool=st.integers(1, 3),
    batch=st.integers(1, 17),
    count=st.integers(1, 3),
)
def test_convolutions_of_any_shape(
    shape: tuple[int, int], filters: list[int], kernel: int, pool: int, batch: int, count: int
) -> None:
    learner = Learner(model="cnn", hidden_units=(5,), filters=tuple(filters), kernel_size=kernel, pool_size=pool)
    rows, columns = shape
    try:
        networks, stack = networks_and_stack(learner, rows * columns, 3, shape, count)
    except ScenarioError:  # the image is used up
        assume(False)
    assert_same_outputs_and_gradients(networks, stack, noise(count, batch, rows * columns))


@pytest.mark.parametrize("batch", [1, 2, 4, 6, 7, 8, 12, 16])
def test_pools_that_leave_a_remainder_for_every_split_of_the_batch(batch: int) -> None:
    """11 x 13 images: 8 x 10 after filters of side 4, of which pools of 3 leave two rows and one column over."""
    learner = Learner(model="cnn", hidden_units=(), filters=(3,), kernel_size=4, pool_size=3)
    networks, stack = networks_and_stack(learner, 143, 4, (11, 13), 3)
    assert_same_outputs_and_gradients(networks, stack, noise(3, batch, 143))


@pytest.mark.parametrize("pool", [1, 2, 4])
@pytest.mark.parametrize(("kernel", "shape"), [(5, (28, 28)), (5, (12, 16)), (3, (10, 6)), (4, (11, 15))])
def test_convolutions_over_tiles(
    kernel: int, shape: tuple[int, int], pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sides for which Winograd's tiles fit; with few channels it is used only because this test asks for it."""
    used = []
    tiled = stacks._OverTiles
    monkeypatch.setattr(stacks, "_FEWEST_CHANNELS", 1)
    monkeypatch.setattr(tiled, "apply", lambda *values, apply=tiled.apply: used.append(1) or apply(*values))
    learner = Learner(model="cnn", hidden_units=(), filters=(3,), kernel_size=kernel, pool_size=pool)
    networks, stack = networks_and_stack(learner, shape[0] * shape[1], 4, shape, 2)
    assert_same_outputs_and_gradients(networks, stack, noise(2, 3, shape[0] * shape[1]))
    assert used


@pytest.mark.parametrize("least", [1, 99])
def test_of_equal_values_in_a_pool_the_first_counts(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Black images give pools of equal values; torch's own pool takes the first of them."""
    monkeypatch.setattr(stacks, "_FEWEST_CHANNELS", least)
    learner = Learner(model="cnn", hidden_units=(), filters=(3,), kernel_size=5, pool_size=2)
    networks, stack = networks_and_stack(learner, 144, 4, (12, 12), 2)
    assert_same_outputs_and_gradients(networks, stack, torch.zeros(2, 3, 144, dtype=torch.float64))


def test_rounding_errors_over_tiles_are_small() -> None:
    """In float32, against torch's own layers in float64, at the sizes of the paper's network."""
    learner = Learner(model="cnn", hidden_units=(), filters=(32, 48), kernel_size=5, pool_size=2)
    (network,), _ = networks_and_stack(learner, 784, 4, (28, 28), 1)
    inputs = noise(4, 784)
    expected = torch.autograd.grad(network(inputs).square().sum(), list(network.parameters()))
    stack = NetworkStack([network.float()])
    found = torch.autograd.grad(stack(inputs.float()).square().sum(), list(stack.parameters()))
    for one, other in zip(found, expected, strict=True):
        assert float((one[0] - other).norm() / other.norm()) < 1e-5


@LEARNERS
def test_a_stack_starts_as_so_many_copies_that_share_nothing(learner: Learner, images: DataSet) -> None:
    network = start_network(learner, images, seed=4)
    stack = NetworkStack([network] * 3)
    inputs = torch.from_numpy(images.test_inputs)
    expected = network(inputs)
    for scores in class_scores(stack, inputs):
        torch.testing.assert_close(scores, expected)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter[1] += 1.0
    first, second, third = class_scores(stack, inputs)
    assert torch.equal(first, third)
    assert not torch.allclose(first, second)
    torch.testing.assert_close(network(inputs), expected)


def test_many_clean_samples_are_scored_some_at_a_time() -> None:
    """1203 samples are more than a stack takes at once; no row is lost or swapped."""
    networks, stack = networks_and_stack(Learner(hidden_units=(4,)), 3, 2, None, 5)
    samples = noise(1203, 3)
    scores = class_scores(stack, samples)
    assert scores.shape == (5, 1203, 2)
    for number, network in enumerate(networks):
        torch.testing.assert_close(scores[number], network(samples).detach())


def test_an_unknown_layer_is_refused() -> None:
    stack = NetworkStack([nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())] * 2)
    with pytest.raises(TypeError, match="a stack has no layer Sigmoid"):
        stack(torch.zeros(2, 1, 2))


@LEARNERS
def test_each_network_learns_as_if_it_were_alone(learner: Learner, images: DataSet) -> None:
    """85 mixtures in batches of 10: the last batch of an epoch is short."""
    inputs, labels = sets_of_mixtures(images, 3)
    together = train_stack(learner, images, inputs, labels, seed=2, speed=ONE)
    assert len(together) == 3
    for history, own_inputs, own_labels in zip(together, inputs, labels, strict=True):
        alone = train_model(learner, images, own_inputs, own_labels, seed=2, speed=ONE).history
        assert len(history.loss) == len(history.test_accuracy) == 5
        assert history.loss == pytest.approx(alone.loss, rel=1e-4)
        assert history.test_accuracy == pytest.approx(alone.test_accuracy, abs=1.01 / 40)
    assert together[0].loss != together[1].loss


def test_the_steps_of_a_stack_are_those_of_plain_adam(images: DataSet) -> None:
    """One epoch of full batches: only one step, so that the order of the mixtures does not matter."""
    learner = Learner(hidden_units=(4,), epochs=1, batch_size=85, learning_rate=0.01)
    inputs, labels = sets_of_mixtures(images, 2)
    kept = Kept()
    train_stack(learner, images, inputs, labels, seed=6, checkpoint=kept)
    for number in range(2):
        network = start_network(learner, images, seed=6)
        optimiser = torch.optim.Adam(network.parameters(), lr=0.01, betas=(0.9, 0.999), foreach=False)
        (-(labels[number] * torch.log_softmax(network(inputs[number]), 1)).sum(1).mean()).backward()
        optimiser.step()
        for stacked, parameter in zip(kept.states[1]["model"].values(), network.parameters(), strict=True):
            torch.testing.assert_close(stacked[number], parameter.detach(), atol=1e-5, rtol=1e-5)


def test_the_loss_of_each_network_is_its_mean_over_all_mixtures(images: DataSet) -> None:
    """Without learning the network stays where it starts, however the mixtures are cut into batches."""
    learner = Learner(hidden_units=(4,), epochs=1, batch_size=10, learning_rate=1e-30)
    inputs, labels = sets_of_mixtures(images, 2)
    network = start_network(learner, images, seed=6)
    expected = -(labels * torch.log_softmax(network(inputs), 2)).sum(2).mean(1)
    histories = train_stack(learner, images, inputs, labels, seed=6)
    assert [history.loss[0] for history in histories] == pytest.approx(expected.tolist(), rel=1e-5)


class Kept:
    """Keeps the state after every epoch, and hands out the one of ``resume_from``."""

    def __init__(self, states: dict[int, dict[str, Any]] | None = None, resume_from: int = 0) -> None:
        self.states = states or {}
        self.resume_from = resume_from

    def load(self, _like: dict[str, Any]) -> dict[str, Any] | None:
        return copy.deepcopy(self.states.get(self.resume_from))

    def save(self, state: dict[str, Any]) -> None:
        self.states[state["epoch"]] = copy.deepcopy(state)


def trained(
    learner: Learner, dataset: DataSet, inputs: torch.Tensor, labels: torch.Tensor
) -> tuple[list[TrainingHistory], dict[str, torch.Tensor]]:
    kept = Kept()
    histories = train_stack(learner, dataset, inputs, labels, seed=2, speed=ONE, checkpoint=kept)
    return histories, kept.states[learner.epochs]["model"]


@LEARNERS
@pytest.mark.parametrize(
    "astray", [math.nan, *(pytest.param(each, marks=pytest.mark.long) for each in (math.inf, 1e38))]
)
def test_a_network_whose_loss_stops_being_a_number_disturbs_no_other(
    learner: Learner, images: DataSet, astray: float
) -> None:
    """Not by one bit of any weight."""
    inputs, labels = sets_of_mixtures(images, 3)
    inputs[1] = 0.0
    labels[1] = 0.0
    quiet, quiet_weights = trained(learner, images, inputs, labels)
    inputs[1, 5], labels[1, 5] = astray, astray
    disturbed, disturbed_weights = trained(learner, images, inputs, labels)
    assert not all(map(math.isfinite, disturbed[1].loss))
    for other in (0, 2):
        assert disturbed[other] == quiet[other]
        for name, weight in quiet_weights.items():
            assert torch.equal(disturbed_weights[name][other], weight[other]), name


def test_when_every_network_goes_astray_training_ends(images: DataSet) -> None:
    inputs, labels = sets_of_mixtures(images, 2)
    labels[:, 3] = math.nan
    with pytest.raises(AirMixError, match=r"^training: the loss is nan in epoch 1; the mixtures are too noisy or .*$"):
        train_stack(MLP, images, inputs, labels, seed=1)


@LEARNERS
@pytest.mark.parametrize("done", [3, 5])
def test_a_resumed_stack_ends_like_one_never_stopped(learner: Learner, images: DataSet, done: int) -> None:
    inputs, labels = sets_of_mixtures(images, 3)
    whole = Kept()
    histories = train_stack(learner, images, inputs, labels, seed=2, speed=ONE, checkpoint=whole)
    rest = Kept(whole.states, resume_from=done)
    epochs: list[int] = []
    resumed = train_stack(
        learner,
        images,
        inputs,
        labels,
        seed=2,
        speed=ONE,
        checkpoint=rest,
        progress=lambda _stage, epoch, _total: epochs.append(epoch),
    )
    assert resumed == histories
    assert epochs == list(range(done, 6))
    assert all(torch.equal(rest.states[5]["model"][name], value) for name, value in whole.states[5]["model"].items())


def test_a_stopped_stack_goes_on_from_its_file(images: DataSet, tmp_path: Path) -> None:
    inputs, labels = sets_of_mixtures(images, 3)

    def stop(_stage: str, epoch: int, _total: int) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_stack(
            CNN,
            images,
            inputs,
            labels,
            seed=2,
            speed=ONE,
            progress=stop,
            checkpoint=FileCheckpoint(tmp_path, made_with="here", every_seconds=0),
        )
    checkpoint = FileCheckpoint(tmp_path, made_with="here", every_seconds=0)
    resumed = train_stack(CNN, images, inputs, labels, seed=2, speed=ONE, checkpoint=checkpoint)
    assert checkpoint.resumed_epoch == 3
    assert resumed == train_stack(CNN, images, inputs, labels, seed=2, speed=ONE)


def test_without_a_test_set_a_stack_scores_nothing(images: DataSet) -> None:
    blind = DataSet(**{**vars(images), "test_inputs": images.test_inputs[:0], "test_labels": images.test_labels[:0]})
    histories = train_stack(MLP, blind, *sets_of_mixtures(images, 2), seed=1)
    assert [history.test_accuracy for history in histories] == [[], []]
    assert [len(history.loss) for history in histories] == [5, 5]


def test_threads_and_random_state_of_torch_are_left_as_they_were(images: DataSet) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    train_stack(CNN, images, *sets_of_mixtures(images, 2), seed=1, speed=ONE)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.long
def test_accuracies_on_iris_are_spread_as_those_of_single_trainings() -> None:
    """18 pairs at three powers: rounding may part the two of a pair by a few of 50 test samples, but favours neither.

    Between seeds and powers the accuracies differ by 0.1; were the pairs unrelated, the mean of their differences
    would have a standard error of 0.1 sqrt(2 / 18) = 0.03.
    """
    base = Scenario.preset("paper-iris").with_overrides(
        "radio.slots=300", "mixing.power=max", "learner.epochs=15", "learner.learning_rate=0.005"
    )
    stacked, single = [], []
    for seed in range(6):
        powers = [
            base.with_seed(seed).with_overrides(*change)
            for change in ((), ("mixing.power=dp",), ("mixing.power=dp", "privacy.epsilon=100"))
        ]
        family = simulate_family(powers)
        histories = train_stack(
            base.learner,
            family[0].dataset,
            torch.stack([mixtures.inputs for mixtures in family]),
            torch.stack([mixtures.labels for mixtures in family]),
            seed=seed,
        )
        stacked += [history.final_accuracy for history in histories]
        single += [train(simulate(scenario)).history.final_accuracy for scenario in powers]
    difference = np.subtract(stacked, single)
    assert np.std(single) > 0.05
    assert abs(difference.mean()) < 0.01
    assert np.abs(difference).max() < 0.07
