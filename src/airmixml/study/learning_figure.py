"""The picture of a recommendation: learning noise against the workers per slot, and against the label's weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from airmixml.study.learning_search import LearningOption, Recommendation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_by_scheduled", "draw_by_weight"]

_COLOURS: Final = {"samples": "#3d7dd1", "moments": "#4a9d5b"}
_MARKED: Final = "#d1603d"


def draw_by_scheduled(axis: Axes, found: Recommendation) -> None:
    """Draw the best that each |N_t| gives, whatever the other choices, for samples and for moments."""
    for sends, colour in _COLOURS.items():
        line = [option for option in found.by_scheduled if option.spending.sends == sends]
        if line:
            sizes = [option.spending.scheduled for option in line]
            axis.plot(sizes, [option.learning_noise_db for option in line], ".-", color=colour, label=f"best {sends}")
    _mark(axis, found.own, found.own.spending.scheduled, "this scenario", "o")
    _mark(axis, found.best, found.best.spending.scheduled, "recommended", "*")
    axis.set(xscale="log", xlabel="workers per slot", ylabel="learning noise (dB)")
    axis.set_title("Noise in the learner's moments, by |N_t|")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def draw_by_weight(axis: Axes, found: Recommendation) -> None:
    """Draw what other label weights would make of the recommended design."""
    line = found.by_weight
    weights = [option.spending.label_weight for option in line]
    colour = _COLOURS[found.best.spending.sends]
    axis.plot(weights, [option.learning_noise_db for option in line], ".-", color=colour, label="recommended design")
    _mark(axis, found.own, found.own.spending.label_weight, "this scenario", "o")
    _mark(axis, found.best, found.best.spending.label_weight, "recommended", "*")
    axis.set(xlabel="label weight w", ylabel="learning noise (dB)")
    axis.set_title("Power for inputs against labels")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _mark(axis: Axes, option: LearningOption, place: float, label: str, marker: str) -> None:
    if not math.isfinite(option.learning_noise_db):
        return  # no signal at all: it has no place in the picture
    size = 16 if marker == "*" else 9
    axis.plot(
        [place],
        [option.learning_noise_db],
        marker,
        markersize=size,
        color=_MARKED,
        markeredgecolor="black",
        label=label,
    )
