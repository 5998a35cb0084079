"""What a score is worth: beside guessing, and beside the same linear learner without noise.

Nothing here may see private rows of a protected run: a model without noise is a function of the rows that no statement
covers, and so is its accuracy. Such a run learns the model without noise on other folds of its public test rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.data import DataSet, LabelCode
from airmixml.data.labels import OneHot
from airmixml.edge import Learned
from airmixml.edge.closed_form import ReceivedMoments, solve
from airmixml.messages import plural
from airmixml.runs.results import MOST_CLASSES_LISTED, Baselines
from airmixml.scenario import Learner

_MULTIPLICATIONS: Final = 3.2e10  # about half a second; of larger tables every second row is used, or every third, ...
_ENOUGH_ROWS: Final = 20  # for each input: least squares then need no help
_EDGES: Final = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # what eigenvalues are mended by, as a share of all variance
_FOLDS, _FEW_FOLDS, _MANY_INPUTS = 5, 2, 256
_FEWEST_PUBLIC_ROWS: Final = 20
_Model = tuple[torch.Tensor, torch.Tensor]


def baselines_of(learned: Learned, *, protected: bool) -> Baselines | None:
    """Return what a learner's score on the clean test set stands beside; None without a test set."""
    dataset, predicted = learned.transmission.dataset, learned.trained.history.predicted
    if predicted is None:
        return None
    truth, own = dataset.test_labels, learned.transmission.scenario.learner
    # The learner itself, without what it does about noise, or least squares where it is a network.
    learner = replace(own, shrinkage=1.0, model=own.model if own.closed_form else "ridge")
    reached, guessed = right_and_guessed(dataset, predicted)
    gain = reached - guessed
    found = _on_public_rows(learner, dataset) if protected else _on_all_rows(learner, dataset)
    centred = learned.transmission.scenario.workers.centre_on_air  # and so by epsilon, even where nothing else is
    noisy = ", about the centre that was received with noise" if centred else ""
    kind = f"{learner.model} in closed form" if own.closed_form else "ridge, a linear model in closed form"
    confusion = np.zeros((0, 0), dtype=np.int64)
    if dataset.task == "classification" and dataset.label_dim <= MOST_CLASSES_LISTED:
        confusion = np.zeros((dataset.label_dim,) * 2, dtype=np.int64)
        np.add.at(confusion, (truth, predicted), 1)
    return Baselines(
        guess=float(guessed.mean()),
        without_privacy=None if found is None else float(_row_scores(dataset, found[0], truth).mean()),
        how="" if found is None else f"{kind}, no noise, {found[1]}{noisy}",
        gain=float(gain.mean()),
        gain_error=float(gain.std() / np.sqrt(len(gain))),
        classes=dataset.class_names[: len(confusion)],
        confusion=tuple(map(tuple, confusion.tolist())),
    )


def right_and_guessed(dataset: DataSet, predicted: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """Return what each test row adds to the score of the predictions, and to that of the best constant guess."""
    truth = dataset.test_labels
    guess = np.broadcast_to(_constant_guess(dataset, truth), truth.shape)
    return _row_scores(dataset, predicted, truth), _row_scores(dataset, guess, truth)


def _constant_guess(dataset: DataSet, truth: NDArray[Any]) -> NDArray[Any]:
    """Return the best that one answer for all test rows can be: it needs the test rows alone."""
    if dataset.task == "classification":
        return np.asarray(np.bincount(truth, minlength=dataset.label_dim).argmax())
    mean = truth.mean(axis=0)
    return np.asarray(mean > 0.5, dtype=np.int64) if dataset.task == "multi-label" else np.asarray(mean)


def _row_scores(dataset: DataSet, predicted: NDArray[Any], truth: NDArray[Any]) -> Doubles:
    """Return what each test row adds: their mean is the task's leading score; rows."""
    if dataset.task == "classification":
        return np.asarray(predicted == truth, dtype=np.float64)
    if dataset.task == "multi-label":
        right = (np.asarray(predicted) > 0.5) == (truth > 0.5)
        return np.asarray(right.mean(axis=1), dtype=np.float64)
    spread = np.square(truth - truth.mean(axis=0)).mean(axis=0)
    squares = np.square(np.asarray(predicted, dtype=np.float64) - truth)
    shares = np.where(spread > 0.0, squares / np.where(spread > 0.0, spread, 1.0), squares > 0.0)
    return np.asarray(1.0 - shares.mean(axis=1))


def _on_all_rows(learner: Learner, dataset: DataSet) -> tuple[NDArray[Any], str] | None:
    """Return what the model of the training rows predicts for the test rows, and which rows it saw."""
    here = np.flatnonzero(~dataset.absent) if dataset.absent.any() else slice(None)
    inputs, labels = dataset.train_inputs[here], dataset.train_labels[here]
    if len(labels) < 2:
        return None
    every = int(-(-len(inputs) * inputs.shape[1] ** 2 // _MULTIPLICATIONS)) or 1
    inputs, labels = inputs[::every], labels[::every]
    predicted = _predicted(_fitted(learner, dataset, inputs, labels), dataset, dataset.test_inputs)
    return predicted, f"the same encoded rows ({len(labels):,}{' of them' if every > 1 else ''})"


def _on_public_rows(learner: Learner, dataset: DataSet) -> tuple[NDArray[Any], str] | None:
    """Return what models predict for each fold of the test rows that were learnt on the other folds."""
    inputs, labels = dataset.test_inputs, dataset.test_labels
    if len(labels) < _FEWEST_PUBLIC_ROWS:
        return None
    folds = _FOLDS if inputs.shape[1] <= _MANY_INPUTS else _FEW_FOLDS
    predicted = np.zeros(labels.shape, dtype=np.float64 if dataset.task == "regression" else np.int64)
    for fold in range(folds):
        tested = np.arange(len(labels)) % folds == fold
        model = _fitted(learner, dataset, inputs[~tested], labels[~tested])
        predicted[tested] = _predicted(model, dataset, inputs[tested])
    return predicted, f"learnt on the public test rows themselves, {plural(folds, 'fold')} of {len(labels):,}"


def _fitted(learner: Learner, dataset: DataSet, inputs: NDArray[Any], labels: NDArray[Any]) -> _Model:
    """Return the linear model of these rows; where they are few, a fifth of them says how much it is restrained."""
    edge = 0.0
    if len(inputs) < _ENOUGH_ROWS * inputs.shape[1] and len(inputs) >= _FOLDS:
        held = np.arange(len(inputs)) % _FOLDS == 0
        tried = _models(learner, dataset, inputs[~held], labels[~held], _EDGES)
        scores = [_row_scores(dataset, _predicted(each, dataset, inputs[held]), labels[held]).mean() for each in tried]
        edge = _EDGES[int(np.argmax(scores))]
    return next(_models(learner, dataset, inputs, labels, (edge,)))


def _models(
    learner: Learner, dataset: DataSet, inputs: NDArray[Any], labels: NDArray[Any], edges: tuple[float, ...]
) -> Iterator[_Model]:
    """Yield the linear model of these rows, mended by each of the edges."""
    rows, coded = torch.from_numpy(inputs), torch.from_numpy(_code(dataset).coded(labels)).double()
    mean, label_mean = rows.mean(dim=0, dtype=torch.float64), coded.mean(dim=0)
    second = (rows.mT @ rows).double() / len(rows) - torch.outer(mean, mean)
    moments = ReceivedMoments(
        second=second,
        cross=(rows.mT @ coded.float()).double() / len(rows) - torch.outer(mean, label_mean),
        input_mean=mean,
        label_mean=label_mean,
        noise_edge=0.0,
        signed=dataset.task != "classification",
    )
    spectrum = moments.spectrum
    for edge in edges:
        restrained = replace(moments, noise_edge=edge * float(second.trace()))
        vars(restrained)["spectrum"] = spectrum
        yield solve(learner, restrained)


def _code(dataset: DataSet) -> LabelCode:
    """Return how labels are written for the linear model: classes as one-hot vectors, however they were sent."""
    return OneHot(dataset.label_dim) if dataset.task == "classification" else dataset.label_code


def _predicted(model: _Model, dataset: DataSet, inputs: NDArray[Any]) -> NDArray[Any]:
    weights, biases = (part.numpy() for part in model)
    return _code(dataset).decoded(inputs @ weights.astype(np.float32) + biases)
