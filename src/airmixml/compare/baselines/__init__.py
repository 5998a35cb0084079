"""Alternatives to mixing over the air: central learning, local privacy, no privacy; and what they share.

That is the pool as tensors, scores on the test set, and gains of workers that send on their own.
"""

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from airmixml.arrays import Doubles, db_to_ratio
from airmixml.compare.methods import RightRows
from airmixml.data import DataSet
from airmixml.edge.learners import class_scores
from airmixml.impairments.fading import worker_path_gain
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario
from airmixml.streams import Streams

RECEIVER_NOISE_SHARE: Final = db_to_ratio(-20.0)
"""Receiver noise over what limits a method whose power no privacy target sets: more power would gain nothing."""


def pool_tensors(dataset: DataSet, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pool's inputs, samples x d, and one-hot labels, samples x classes, on the device."""
    inputs = torch.from_numpy(dataset.train_inputs).to(device)
    labels = nn.functional.one_hot(torch.from_numpy(dataset.train_labels), dataset.label_dim)
    return inputs, labels.to(inputs)


def score(model: nn.Module, dataset: DataSet) -> dict[str, Any]:
    """Return what an outcome says of the clean test set."""
    inputs = torch.from_numpy(dataset.test_inputs).to(next(model.parameters()).device)
    return scored(dataset, class_scores(model, inputs).argmax(dim=1).cpu().numpy())


def scored(dataset: DataSet, predicted: NDArray[np.int64]) -> dict[str, Any]:
    """Return the same of the classes predicted for it."""
    return {"accuracy": float((predicted == dataset.test_labels).mean()), "tested": RightRows.of(dataset, predicted)}


def power_gains(scenario: Scenario, distance_metres: Doubles, slots: int) -> Doubles:
    """Return |h|^2 of all workers in so many slots; slots x workers, or 1 x workers where all slots are alike."""
    radio, gains = scenario.radio, worker_path_gain(scenario, distance_metres)[None] ** 2
    if radio.fading == "none":
        return np.asarray(gains)
    fading = radio.fading_kind.draw(radio, range(slots), gains.shape[1], slot_words(Streams(scenario.seed), "fading"))
    return np.asarray(gains * fading.numpy() ** 2)
