from typing import Any

import numpy as np
import pytest
import torch

from airmixml import Scenario, Speed, simulate, train
from airmixml.data import DataSet
from airmixml.edge.fitting import repeatable_kernels, train_model
from airmixml.edge.training import TrainingHistory, class_scores
from airmixml.scenario import Learner

SMALL = Learner(hidden_units=(8,), epochs=4, batch_size=10)


@pytest.fixture
def two_clouds() -> DataSet:
    """Two classes that one coordinate tells apart."""
    rng = np.random.default_rng(1)
    labels = np.arange(205) % 2
    inputs = rng.random((205, 3)).astype(np.float32)
    inputs[:, 0] = 0.6 * labels + 0.4 * inputs[:, 0]
    return DataSet(
        name="clouds",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:50],
        test_labels=labels[:50],
        class_names=("low", "high"),
        image_shape=None,
        clipped_values=0,
    )


def mixtures_of(dataset: DataSet) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(dataset.train_inputs), torch.eye(2)[torch.from_numpy(dataset.train_labels)]


def test_it_learns_and_the_history_tells_final_from_best(two_clouds: DataSet) -> None:
    learner = Learner(hidden_units=(8,), epochs=60, batch_size=10, learning_rate=0.01)
    trained = train_model(learner, two_clouds, *mixtures_of(two_clouds), seed=1)
    history = trained.history
    assert len(history.loss) == len(history.test_accuracy) == 60
    assert history.loss[-1] < 0.2 < history.loss[0]
    assert history.final_accuracy >= 0.98
    right = class_scores(trained.model, torch.from_numpy(two_clouds.test_inputs)).argmax(dim=1).numpy()
    assert (right == two_clouds.test_labels).mean() == history.final_accuracy


def test_final_and_best_epoch_are_kept_apart() -> None:
    history = TrainingHistory(loss=[3.0, 2.0, 1.0, 0.5], test_accuracy=[0.5, 0.9, 0.9, 0.7])
    assert (history.final_accuracy, history.best_accuracy, history.best_epoch) == (0.7, 0.9, 2)


def test_equal_seeds_give_equal_models_and_others_do_not(two_clouds: DataSet) -> None:
    def final_weights(seed: int, threads: int = 1) -> torch.Tensor:
        speed = Speed(threads=threads)
        model = train_model(SMALL, two_clouds, *mixtures_of(two_clouds), seed=seed, speed=speed).model
        return torch.cat([parameter.detach().ravel() for parameter in model.parameters()])

    assert torch.equal(final_weights(3), final_weights(3))
    assert torch.allclose(final_weights(3), final_weights(3, threads=2), atol=1e-5)
    assert not torch.allclose(final_weights(3), final_weights(4), atol=1e-2)


def test_the_steps_are_those_of_plain_adam(two_clouds: DataSet) -> None:
    """Replay the batches with torch's unfused Adam, its own state, and the loss written out."""
    inputs, labels = mixtures_of(two_clouds)
    batches: list[tuple[torch.Tensor, torch.Tensor]] = []
    from airmixml.edge import fitting

    true_make_epoch = fitting.make_epoch

    def recording(*arguments: Any) -> Any:
        train_epoch, order = true_make_epoch(*arguments), arguments[-1]

        def both() -> None:
            batches.extend((inputs[numbers], labels[numbers]) for numbers in order.split(10))
            train_epoch()

        return both

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "make_epoch", recording)
        trained = train_model(SMALL, two_clouds, inputs, labels, seed=5)
    start = train_model(Learner(hidden_units=(8,), epochs=1, learning_rate=1e-30), two_clouds, inputs, labels, seed=5)
    optimiser = torch.optim.Adam(start.model.parameters(), lr=1e-3, betas=(0.9, 0.999), foreach=False)
    for batch_inputs, batch_labels in batches:
        optimiser.zero_grad()
        (-(batch_labels * torch.log_softmax(start.model(batch_inputs), 1)).sum(1).mean()).backward()
        optimiser.step()
    assert [len(batch) for batch, _ in batches[:21]] == [10] * 20 + [5]
    first_epoch = torch.cat([batch for batch, _ in batches[:21]])
    assert torch.equal(first_epoch.sort(dim=0).values, inputs.sort(dim=0).values)
    for ours, theirs in zip(trained.model.parameters(), start.model.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_without_a_test_set_it_trains_and_scores_nothing(two_clouds: DataSet) -> None:
    blind = DataSet(
        **{**vars(two_clouds), "test_inputs": two_clouds.test_inputs[:0], "test_labels": two_clouds.test_labels[:0]}
    )
    assert train_model(SMALL, blind, *mixtures_of(two_clouds), seed=1).history.test_accuracy == []


def test_threads_and_random_state_of_torch_are_left_as_they_were(two_clouds: DataSet) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    train_model(SMALL, two_clouds, *mixtures_of(two_clouds), seed=1)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.long
def test_iris_at_maximum_power_is_learnt_from_mixtures() -> None:
    """The paper prints 100.0 % for |N_t| = 4, alpha = 1 at maximum power; 20 of its 500 epochs suffice for 90 %."""
    scenario = Scenario.preset("paper-iris").with_overrides(
        "radio.scheduled=4", "mixing.alpha=1", "mixing.power=max", "learner.epochs=60", "learner.learning_rate=0.005"
    )
    accuracies = [train(simulate(scenario.with_seed(seed))).history.final_accuracy for seed in range(2)]
    assert np.mean(accuracies) >= 0.9


def test_images_are_learnt_from_mixtures() -> None:
    scenario = Scenario.preset("digits").with_overrides("radio.slots=2000", "learner.epochs=6")
    assert train(simulate(scenario)).history.final_accuracy > 0.85


def test_very_noisy_labels_leave_training_finite() -> None:
    scenario = Scenario.preset("paper-iris").with_overrides(
        "mixing.power=fixed", "mixing.power_scale_watts=1e-22", "learner.epochs=3"
    )
    assert np.isfinite(train(simulate(scenario)).history.loss).all()


@pytest.mark.filterwarnings("error")
def test_repeatable_kernels_of_a_gpu_are_in_full_precision_and_undone_without_a_warning() -> None:
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark, cudnn.conv.fp32_precision
    with repeatable_kernels(torch.device("cuda")):  # options of the process, on machines without a GPU too
        assert (cudnn.deterministic, cudnn.benchmark, cudnn.conv.fp32_precision) == (True, False, "ieee")
    assert (cudnn.deterministic, cudnn.benchmark, cudnn.conv.fp32_precision) == before
