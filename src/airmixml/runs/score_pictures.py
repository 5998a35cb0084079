"""Pictures of what is learned where a label is no class: predictions beside the truth, labels right, score by epoch.

They show test rows one by one, so they are drawn in simulations alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airmixml.edge import TrainingHistory
from airmixml.output.figures import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {"r2": "R²", "labels_right": "labels right"}
_POINTS_SHOWN = 2000
_FEWEST_EPOCHS = 2


def final_score(history: TrainingHistory) -> str:
    """Return the final accuracy, or the leading score of another task, in words."""
    if not history.scores:
        return f"final accuracy {100 * history.final_accuracy:.1f} %"
    value = history.scores[history.score_name]
    shown = f"{value:.3f}" if history.score_name == "r2" else f"{100 * value:.1f} %"
    return f"{_NAMES[history.score_name]} {shown}"


def draw_scores(axis: Axes, history: TrainingHistory, truth: NDArray[Any]) -> None:
    """Draw what a regression predicts of the test set, or how often each label is right; truth is samples x outputs."""
    if history.score_name == "r2":
        _predicted_and_true(axis, history, truth)
    elif len(history.test_score) >= _FEWEST_EPOCHS:
        _curve(axis, history)
    else:
        _label_bars(axis, history, truth)


def _predicted_and_true(axis: Axes, history: TrainingHistory, truth: NDArray[Any]) -> None:
    """Each test row a point; several targets in units of their own are scaled to their range in the test set."""
    assert history.predicted is not None
    predicted, several = history.predicted[:_POINTS_SHOWN], truth.shape[1] > 1
    shown = truth[:_POINTS_SHOWN]
    if several:
        low, width = truth.min(axis=0), np.maximum(np.ptp(truth, axis=0), 1e-300)
        predicted, shown = (predicted - low) / width, (shown - low) / width
    for target in range(truth.shape[1]):
        colour = BLUE if target == 0 else None
        name = history.class_names[target] if history.class_names else f"target {target + 1}"
        axis.plot(shown[:, target], predicted[:, target], ".", color=colour, alpha=0.6, label=name, clip_on=False)
    ends = [float(min(shown.min(), predicted.min())), float(max(shown.max(), predicted.max()))]
    axis.plot(ends, ends, color=ORANGE, linewidth=1, label="perfect")
    unit = " (share of its range)" if several else ""
    axis.set(xlabel=f"true{unit}", ylabel=f"predicted{unit}", title=f"Test set: {final_score(history)}")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _label_bars(axis: Axes, history: TrainingHistory, truth: NDArray[Any]) -> None:
    """How often each label is right, beside the share that always the more frequent answer would have."""
    assert history.predicted is not None
    places = np.arange(truth.shape[1])
    right = 100 * (history.predicted == truth).mean(axis=0)
    constant = 100 * np.maximum(truth.mean(axis=0), 1.0 - truth.mean(axis=0))
    axis.bar(places, right, color=BLUE, label="right")
    axis.plot(places, constant, "_", color=ORANGE, markersize=18, label="always the frequent answer")
    axis.set(xlabel="label", ylabel="right on clean test set (%)", ylim=(0, 102), title="Each label")
    axis.set_xticks(places, history.class_names or [str(place + 1) for place in places])
    axis.legend(loc="lower right", fontsize=8)


def _curve(axis: Axes, history: TrainingHistory) -> None:
    percent = 100 * np.asarray(history.test_score)
    axis.plot(np.arange(1, len(percent) + 1), percent, color=BLUE, marker="." if len(percent) < 40 else "")
    axis.locator_params(axis="x", integer=True)
    axis.set(xlabel="epoch", ylabel="labels right on clean test set (%)", ylim=(0, 102), title="Learning curve")
    axis.grid(alpha=0.3)
