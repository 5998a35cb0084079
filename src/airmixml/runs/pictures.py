"""Pictures of a run: the overview, and epsilons by accountant and adversary.

The overview may show test rows one by one, so it is drawn in simulations alone.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import is_series
from airmixml.messages import epsilon_text
from airmixml.output.figures import (
    BLUE,
    GREEN,
    ORANGE,
    accountant_colour,
    as_picture,
    chance_line,
    finish_axis,
    new_figure,
    save_figure,
)
from airmixml.registries import ACCOUNTANTS, ADVERSARIES
from airmixml.runs.baselines import right_and_guessed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from airmixml.edge import TrainingHistory
    from airmixml.privacy import PrivacyStatement
    from airmixml.radio.draws import MixtureBlock
    from airmixml.radio.transmission import Transmission

_SCORE_NAMES: Final = {"r2": "R²", "labels_right": "labels right"}
_SENT, _RECEIVED = "sent: sum of all", "received"
_COLUMNS: Final = 8
_SYMBOLS_SHOWN: Final = 40
_POINTS_SHOWN: Final = 2000
_LABELLED_BARS, _CROWDED_LETTERS, _LONGEST_NAME = 12, 40, 12
# Shares of the figure, so that no layout is searched for: that would take as long as drawing.
_ABOVE: Final = {"left": 0.06, "right": 0.985, "bottom": 0.08, "top": 0.81, "wspace": 0.08}
_BELOW: Final = {"left": 0.055, "right": 0.9, "bottom": 0.16, "top": 0.9, "wspace": 0.3}


def draw_run(mixtures: Transmission, history: TrainingHistory, folder: Path) -> None:
    """Draw the overview into ``folder``."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a name in another script
        save_figure(run_figure(mixtures, history), folder / "overview.png")


def run_figure(mixtures: Transmission, history: TrainingHistory) -> Figure:
    """Return the overview of a simulation: what was sent and received, learning, and what accountants certify."""
    scenario, privacy = mixtures.scenario, mixtures.report.privacy
    sent_in = f"{scenario.radio.scheduled:,} at a time in {scenario.slots_in_words}"
    stated = f"ε = {epsilon_text(privacy.epsilon)}, δ = {privacy.delta:.3g} ({privacy.accountant}, {privacy.adversary})"
    title = f"{scenario.title}: {scenario.workers.count:,} workers, {sent_in}\n{_final_score(history)}  ·  {stated}"
    overview = new_figure(13, 8, title, size=12, layout=None, linespacing=1.4)
    top, bottom = overview.subfigures(2, 1, height_ratios=(1.15, 1), squeeze=False)[:, 0]
    is_image = mixtures.dataset.image_shape is not None and not is_series(mixtures.dataset.image_shape)
    (_image_grid if is_image and not mixtures.report.signal.moments else _symbol_grid)(top, mixtures)
    learned, certified = bottom.subplots(1, 2, gridspec_kw=_BELOW)
    percent = 100 * np.asarray(history.test_score if history.scores else history.test_accuracy)
    if history.score_name == "r2":
        _predicted_and_true(learned, history, mixtures.dataset.test_labels)
    else:
        if len(percent) == 1 and (history.class_accuracy or history.scores):
            _bars(learned, history, percent[0], mixtures.dataset.test_labels)
        else:
            _learning_curve(learned, history, percent)
        if history.predicted is not None and not history.in_rounds:
            chance_line(learned, 100.0 * right_and_guessed(mixtures.dataset, history.predicted)[1].mean())
        finish_axis(learned, legend=8, loc="best", ncols=2)
    _draw_certified(certified, mixtures.report.statements)
    return overview


def _image_grid(figure: Figure | SubFigure, mixtures: Transmission) -> None:
    """Rows: the sample with the largest ratio, the mixture without noise, the mixture as received."""
    examples, dataset, shape = mixtures.examples, mixtures.dataset, mixtures.dataset.image_shape
    assert shape is not None
    strongest = examples.ratios.argmax(axis=1)
    workers = examples.draws.scheduled_workers[np.arange(examples.slots), strongest]
    samples = dataset.train_inputs[mixtures.population.sample_index[workers]]
    rows = {
        "largest share": samples,
        _SENT: examples.clean_inputs.cpu().numpy(),
        _RECEIVED: examples.inputs.cpu().numpy(),
    }
    axes = figure.subplots(3, min(_COLUMNS, examples.slots), squeeze=False, gridspec_kw={**_ABOVE, "hspace": 0.05})
    for (name, images), line in zip(rows.items(), axes, strict=True):
        for slot, axis in enumerate(line):
            axis.imshow(as_picture(images[slot], shape), cmap="gray_r")
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=9)
    _name_slots(axes[0], examples)


def _name_slots(axes: NDArray[np.object_], examples: MixtureBlock) -> None:
    for slot, axis in enumerate(axes):
        ratios = examples.ratios[slot]
        shares = "equal shares" if np.ptp(ratios) < 1e-6 * ratios.max() else f"top share {100 * ratios.max():.2g} %"
        axis.set_title(f"slot {slot + 1}: {shares}", fontsize=9)


def _symbol_grid(figure: Figure | SubFigure, mixtures: Transmission) -> None:
    """One panel a slot: every symbol as sent (without noise) and as received."""
    examples = mixtures.examples
    inputs, labels = (min(part.shape[1], _SYMBOLS_SHOWN) for part in (examples.clean_inputs, examples.clean_labels))
    every = inputs == examples.clean_inputs.shape[1]
    clean, noisy = (examples.clean_inputs, examples.clean_labels), (examples.inputs, examples.labels)
    sent, received = (np.hstack([each.cpu()[:, :inputs], last.cpu()[:, :labels]]) for each, last in (clean, noisy))
    places = np.arange(inputs + labels)
    axes = figure.subplots(1, min(_COLUMNS, examples.slots), squeeze=False, sharey=True, gridspec_kw=_ABOVE)[0]
    for slot, axis in enumerate(axes):
        axis.vlines(places, sent[slot], received[slot], color="0.8", linewidth=1.5)
        axis.plot(places, sent[slot], "o", color=BLUE, label=_SENT)
        axis.plot(places, received[slot], "x", color=ORANGE, label=_RECEIVED, markeredgewidth=2)
        axis.axvline(inputs - 0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set_xlabel(("inputs" if every else f"first {inputs} inputs") + " ⋮ labels", fontsize=9)
        axis.set(xticks=[], xlim=(-0.7, sent.shape[1] - 0.3))  # no marker is cut
    _name_slots(axes, examples)
    axes[0].set_ylabel("value of symbol", labelpad=2)
    axes[0].margins(y=0.08)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(low, high + 0.2 * (high - low))  # room for the legend
    axes[0].legend(fontsize=8, loc="upper left")


def _final_score(history: TrainingHistory) -> str:
    """Return the final accuracy, or the leading score of another task, in words."""
    if not history.scores:
        return f"final accuracy {100 * history.final_accuracy:.1f} %"
    value = history.scores[history.score_name]
    shown = f"{value:.3f}" if history.score_name == "r2" else f"{100 * value:.1f} %"
    return f"{_SCORE_NAMES[history.score_name]} {shown}"


def _learning_curve(axis: Axes, history: TrainingHistory, percent: NDArray[Any]) -> None:
    rounds = history.in_rounds
    steps = np.arange(len(percent)) + (0 if rounds else 1)
    axis.plot(steps, percent, color=BLUE, marker="." if len(percent) < 40 else "")
    if rounds:
        axis.plot(0, percent[0], "^", color=GREEN, label=f"before the rounds {percent[0]:.1f} %")
        axis.plot(steps[-1], percent[-1], "o", color=ORANGE, label=f"final {percent[-1]:.1f} %")
        low, high = axis.get_ylim()
        axis.set_ylim(low - 0.15 * (high - low), high)  # room for the legend
    elif not history.scores:
        best, final = 100 * history.best_accuracy, 100 * history.final_accuracy
        axis.plot(history.best_epoch, best, "^", color=GREEN, label=f"best epoch {best:.1f} %")
        axis.plot(len(percent), final, "o", color=ORANGE, label=f"final {final:.1f} %")
    axis.locator_params(axis="x", integer=True)
    name, unit = _SCORE_NAMES.get(history.score_name, history.score_name), "round" if rounds else "epoch"
    limits = {} if rounds else {"ylim": (0, 104)}
    axis.set(xlabel=unit, ylabel=f"{name} on clean test set (%)", title="Learning curve", **limits)


def _bars(axis: Axes, history: TrainingHistory, final: float, truth: NDArray[Any]) -> None:
    """What a learner without epochs has instead of a curve: how well it tells each class or label."""
    what, names, percent = "class", history.class_names, 100 * np.asarray(history.class_accuracy)
    if not history.class_accuracy:
        what, percent = "label", 100 * np.mean(history.predicted == truth, axis=0)
        often, label = truth.mean(axis=0), "always the frequent answer"
        axis.plot(
            range(len(percent)), 100 * np.maximum(often, 1 - often), "_", color=ORANGE, markersize=18, label=label
        )
    axis.axhline(final, color=ORANGE, label=f"all {'labels' if what == 'label' else 'classes'} {final:.1f} %")
    places = np.arange(len(percent))
    bars = axis.bar(places, np.nan_to_num(percent), color=BLUE, alpha=0.75)
    if len(percent) <= _LABELLED_BARS:
        axis.bar_label(bars, ["" if np.isnan(each) else f"{each:.0f}" for each in percent], fontsize=8)
    axis.set(xlabel=what, ylabel="right on clean test set (%)", ylim=(0, 122), title=f"Accuracy of each {what}")
    axis.set_yticks(range(0, 101, 20))
    crowded = sum(map(len, names)) > _CROWDED_LETTERS
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names]
    labels = (shown if crowded else names) or [str(place + 1) for place in places]
    axis.set_xticks(places, labels, rotation=90 if crowded else 0, fontsize=7 if crowded else None)


def _predicted_and_true(axis: Axes, history: TrainingHistory, truth: NDArray[Any]) -> None:
    """Each test row a point; of several targets the first."""
    assert history.predicted is not None
    shown, predicted = (each[:_POINTS_SHOWN, 0] for each in (truth, history.predicted))
    name = history.class_names[0] if history.class_names else "target 1"
    axis.plot(shown, predicted, ".", color=BLUE, alpha=0.6, label=name, clip_on=False)
    ends = [float(min(shown.min(), predicted.min())), float(max(shown.max(), predicted.max()))]
    axis.plot(ends, ends, color=ORANGE, linewidth=1, label="perfect")
    axis.set(xlabel="true", ylabel="predicted", title=f"Test set: {_final_score(history)}")
    finish_axis(axis, legend=8)


def draw_statements(statements: Sequence[PrivacyStatement], path: Path | None = None) -> Figure:
    """Draw what every accountant certifies against every adversary, for the neighbours of the first statement."""
    own = statements[0]
    figure = new_figure(7, 4.2, f"δ = {own.delta:g}, {own.adjacency} neighbours", size=10)
    _draw_certified(figure.subplots(), statements)
    return save_figure(figure, path)


def _draw_certified(axis: Axes, statements: Sequence[PrivacyStatement]) -> None:
    from matplotlib.ticker import NullFormatter

    statements = [each for each in statements if each.adjacency == statements[0].adjacency]
    found = {each.adversary for each in statements}
    adversaries = [*filter(found.__contains__, ADVERSARIES.names), *sorted(found - set(ADVERSARIES.names))]
    accountants = [*dict.fromkeys((*ACCOUNTANTS.names, *(each.accountant for each in statements)))]
    for place, name in enumerate(accountants):
        beside = 0.1 * (place - len(accountants) // 2)  # so that equal epsilons do not hide each other
        stated = [each for each in statements if each.accountant == name]
        rows = [adversaries.index(each.adversary) - beside for each in stated]
        values = [max(each.epsilon, 1e-6) for each in stated]
        axis.plot(values, rows, "o", color=accountant_colour(name), alpha=0.8, label=name)
    axis.set(xscale="log", xlabel="ε (log)", title="What accountants certify", ylim=(-0.5, len(adversaries) - 0.5))
    axis.set_yticks(range(len(adversaries)), adversaries)
    axis.margins(x=0.1)
    axis.xaxis.set_major_formatter("{x:g}")  # formulas take a quarter of a second
    axis.xaxis.set_minor_formatter(NullFormatter())
    low, high = axis.get_xlim()
    if high < 20.0 * low:  # else the axis might show no number at all
        axis.set_xlim(low / 3.0, 3.0 * high)
    finish_axis(axis, legend=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
