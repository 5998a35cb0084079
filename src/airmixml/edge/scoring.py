"""What the scores of a network predict, and how good that is on the clean test set.

Quality is by the task: shares that are right, or errors in a target's own units.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from airmixml.data import Bounded, DataSet, LabelCode, Signs
from airmixml.scenario.score_links import LOGISTIC, NEVER_CERTAIN, SOFTMAX, ScoreLink

LEADING: Final = {"classification": "accuracy", "regression": "r2", "multi-label": "labels_right"}
"""The one score of a task that learning curves show; larger is better, and 1 is perfect."""


def predicted(scores: torch.Tensor, link: ScoreLink, code: LabelCode | None = None) -> torch.Tensor:
    """Return what scores (samples x outputs) say, by their link and the code in which labels were sent; same shape.

    The probability of each class or label, or targets in their own units, within their bounds. What least squares
    learns of a sign is its mean, (2 p - 1) / sqrt(labels).
    """
    if link is LOGISTIC:
        return torch.sigmoid(scores).clamp(NEVER_CERTAIN, 1.0 - NEVER_CERTAIN)
    if link is SOFTMAX:
        return torch.softmax(scores, dim=1)
    if isinstance(code, Signs):
        return ((1.0 + scores * math.sqrt(code.count)) / 2.0).clamp(NEVER_CERTAIN, 1.0 - NEVER_CERTAIN)
    assert isinstance(code, Bounded)
    lower, upper = (scores.new_tensor(bounds) for bounds in (code.lower, code.upper))
    unit = (scores * math.sqrt(len(code.lower))).clamp(-1.0, 1.0)
    return lower + (unit + 1.0) / 2.0 * (upper - lower)


def leading_score(dataset: DataSet, outputs: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return the leading score of (networks x) samples x outputs; shape networks, float64."""
    if dataset.task == "classification":
        return (outputs.argmax(dim=-1) == truth).double().mean(dim=-1).reshape(-1)
    code, name = dataset.label_code, LEADING[dataset.task]
    networks = outputs.double().cpu().numpy().reshape(-1, *outputs.shape[-2:])
    true = np.broadcast_to(truth.cpu().numpy(), (len(networks), *truth.shape[-2:]))
    return torch.tensor(
        [
            test_scores(dataset.task, code.decoded(each), correct, dataset.class_names)[name]
            for each, correct in zip(networks, true, strict=True)
        ],
        dtype=torch.float64,
    )


def test_scores(task: str, predicted: ArrayLike, truth: ArrayLike, names: Sequence[str]) -> dict[str, float]:
    """Return all scores of a regression or of several labels; predictions and truth are samples x outputs."""
    if task == "regression":
        return _regression_scores(np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64), names)
    return _label_scores(np.asarray(predicted) > 0.5, np.asarray(truth) > 0.5)


def _regression_scores(predicted: NDArray[Any], truth: NDArray[Any], names: Sequence[str]) -> dict[str, float]:
    """Return R^2 (the mean over the targets), and root mean square and mean absolute error in the target's own units.

    Several targets have units of their own: their errors are listed by name, as ``rmse.NAME``.
    """
    errors = predicted - truth
    squares = np.square(errors).mean(axis=0)
    spread = np.square(truth - truth.mean(axis=0)).mean(axis=0)
    # A target that does not vary leaves nothing to explain: 1 where it is hit, else 0.
    explained = np.where(spread > 0.0, 1.0 - squares / np.where(spread > 0.0, spread, 1.0), squares == 0.0)
    rmse, mae = np.sqrt(squares), np.abs(errors).mean(axis=0)
    scores = {"r2": float(explained.mean())}
    if len(names) == 1:
        return {**scores, "rmse": float(rmse[0]), "mae": float(mae[0])}
    for kind, values in (("r2", explained), ("rmse", rmse), ("mae", mae)):
        scores |= {f"{kind}.{name}": float(value) for name, value in zip(names, values, strict=True)}
    return scores


def _label_scores(predicted: NDArray[np.bool_], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return the share of labels that are right, of samples with all labels right, and the mean F1 of the labels.

    F1 of a label that neither occurs nor is predicted is 0, as scikit-learn has it.
    """
    right = predicted == truth
    hits = (predicted & truth).sum(axis=0)
    wanted = predicted.sum(axis=0) + truth.sum(axis=0)
    return {
        "labels_right": float(right.mean()),
        "exact_match": float(right.all(axis=1).mean()),
        "macro_f1": float((2.0 * hits / np.maximum(wanted, 1)).mean()),
    }
