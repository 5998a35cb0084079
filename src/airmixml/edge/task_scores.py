"""How good predictions of a regression or of several labels are; without torch, as predictions of linear models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
