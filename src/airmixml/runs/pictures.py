"""Pictures of a run: mixtures beside what was sent, the learning curve, power and SNR, the privacy ledger."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airmixml.doors import ACCOUNTANTS, ADVERSARIES
from airmixml.edge import TrainingHistory
from airmixml.output.figures import BLUE, GREEN, ORANGE, accountant_colour, save_figure
from airmixml.privacy import PrivacyStatement
from airmixml.radio import AirReport
from airmixml.radio.mixtures import Transmission
from airmixml.radio.senders import unpack_symmetric
from airmixml.radio.tally import DecibelHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_SENT, _RECEIVED, _ACCENT = BLUE, ORANGE, GREEN
_COLUMNS = 8
_SYMBOLS_SHOWN = 40
_MATRIX_SIDE = 60


def draw_run(mixtures: Transmission, history: TrainingHistory, folder: Path) -> None:
    """Draw all pictures into ``folder``: the overview, which holds them all, and each by itself."""
    from matplotlib.figure import Figure

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a name in another script
        overview = Figure(figsize=(13, 8), layout="constrained")
        top, bottom = overview.subfigures(2, 1, height_ratios=(1.15, 1), squeeze=False)[:, 0]
        _mixtures(top, mixtures)
        _curve_and_histograms(bottom, mixtures.report, history)
        overview.suptitle(_title(mixtures, history), fontsize=13)
        save_figure(overview, folder / "overview.png")

        grid = Figure(figsize=(12, 4.6), layout="constrained")
        _mixtures(grid, mixtures)
        save_figure(grid, folder / "mixtures.png")

        curve = Figure(figsize=(6, 4), layout="constrained")
        _learning_curve(curve.subplots(), history)
        save_figure(curve, folder / "learning_curve.png")

        histograms = Figure(figsize=(10, 3.8), layout="constrained")
        left, right = histograms.subplots(1, 2)
        _power(left, mixtures.report)
        _snr(right, mixtures.report)
        save_figure(histograms, folder / "power_and_snr.png")


def _title(mixtures: Transmission, history: TrainingHistory) -> str:
    scenario, privacy = mixtures.scenario, mixtures.report.privacy
    name = scenario.name.replace("$", r"\$")  # not the beginning of a formula
    slots = "1 slot" if scenario.radio.slots == 1 else f"{scenario.radio.slots:,} slots"
    return (
        f"{name}: {scenario.workers.count:,} workers, {slots} of {scenario.radio.scheduled:,}  ·  "
        f"final accuracy {100 * history.final_accuracy:.1f} %  ·  "
        f"ε = {privacy.epsilon:.4g}, δ = {privacy.delta:g} ({privacy.accountant}, {privacy.adversary})"
    )


def _mixtures(figure: Figure | SubFigure, mixtures: Transmission) -> None:
    if mixtures.report.signal.moments:
        _moment_grid(figure, mixtures)
    elif mixtures.dataset.image_shape is not None:
        _image_grid(figure, mixtures)
    else:
        _symbol_grid(figure, mixtures)


def _image_grid(figure: Figure | SubFigure, mixtures: Transmission) -> None:
    """Rows: the sample with the largest ratio, the mixture without noise, the mixture as received."""
    examples, dataset, shape = mixtures.examples, mixtures.dataset, mixtures.dataset.image_shape
    assert shape is not None
    columns = min(_COLUMNS, examples.slots)
    strongest = examples.ratios.argmax(axis=1)
    workers = examples.draws.scheduled_workers[np.arange(examples.slots), strongest]
    samples = dataset.train_inputs[mixtures.population.sample_index[workers]]
    rows = (
        ("largest share", samples),
        ("sent: sum of all", examples.clean_inputs.cpu().numpy()),
        ("received", examples.inputs.cpu().numpy()),
    )
    axes = figure.subplots(3, columns, squeeze=False)
    for (name, images), line in zip(rows, axes, strict=True):
        for slot, axis in enumerate(line):
            axis.imshow(images[slot].reshape(shape), cmap="gray_r")
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=9)
    for slot, axis in enumerate(axes[0]):
        axis.set_title(f"slot {slot + 1}: top share {examples.ratios[slot].max():.0%}", fontsize=9)


def _moment_grid(figure: Figure | SubFigure, mixtures: Transmission) -> None:
    """The first slot as matrices: products of inputs, and of inputs with labels, as sent and as received."""
    import torch

    examples, signal = mixtures.examples, mixtures.report.signal
    axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1))
    for place, (title, inputs, labels) in enumerate(
        (
            ("sent: sum of all", examples.clean_inputs, examples.clean_labels),
            ("received", examples.inputs, examples.labels),
        )
    ):
        products = unpack_symmetric(inputs[:1].cpu(), signal.features)[0]
        shown = min(signal.features, _MATRIX_SIDE)
        part = products[:shown, :shown].clone()
        limit = float(torch.quantile(part.abs().flatten()[: shown * shown], 0.98)) or 1.0
        axes[place].imshow(part, cmap="coolwarm", vmin=-limit, vmax=limit)
        axes[place].set_title(f"inputs x inputs, {title}", fontsize=9)
        with_labels = labels[0].cpu().reshape(signal.features, signal.classes)[:shown]
        limit = float(torch.quantile(with_labels.abs().flatten(), 0.98)) or 1.0
        axes[2 + place].imshow(with_labels, cmap="coolwarm", vmin=-limit, vmax=limit, aspect="auto")
        axes[2 + place].set_title(f"inputs x labels, {title}", fontsize=9)
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    axes[0].set_ylabel(f"first {min(signal.features, _MATRIX_SIDE)} of {signal.features} inputs", fontsize=9)


def _symbol_grid(figure: Figure | SubFigure, mixtures: Transmission) -> None:
    """One panel a slot: every symbol as sent (without noise) and as received."""
    examples, dataset = mixtures.examples, mixtures.dataset
    inputs = min(dataset.input_dim, _SYMBOLS_SHOWN)
    clean, received = (
        np.hstack([values.cpu().numpy()[:, :inputs], labels.cpu().numpy()])
        for values, labels in (
            (examples.clean_inputs, examples.clean_labels),
            (examples.inputs, examples.labels),
        )
    )
    columns = min(_COLUMNS, examples.slots)
    axes = figure.subplots(1, columns, squeeze=False, sharey=True)[0]
    places = np.arange(clean.shape[1])
    for slot, axis in enumerate(axes):
        axis.vlines(places, clean[slot], received[slot], color="0.8", linewidth=1.5)
        axis.plot(places, clean[slot], "o", color=_SENT, label="sent: sum of all")
        axis.plot(places, received[slot], "x", color=_RECEIVED, label="received", markeredgewidth=2)
        axis.axvline(inputs - 0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set_title(f"slot {slot + 1}: top share {examples.ratios[slot].max():.0%}", fontsize=9)
        axis.set_xlabel(
            ("inputs" if inputs == dataset.input_dim else f"first {inputs} inputs") + " ⋮ labels", fontsize=9
        )
        axis.set_xticks([])
    axes[0].set_ylabel("value of symbol")
    axes[0].legend(fontsize=8)


def _curve_and_histograms(figure: Figure | SubFigure, report: AirReport, history: TrainingHistory) -> None:
    curve, power, snr = figure.subplots(1, 3)
    _learning_curve(curve, history)
    _power(power, report)
    _snr(snr, report)


def _class_bars(axis: Axes, history: TrainingHistory) -> None:
    """What a learner without epochs has instead of a curve: how well it tells each class."""
    percent = 100 * np.asarray(history.class_accuracy)
    axis.bar(np.arange(len(percent)), percent, color=_SENT)
    final = 100 * history.final_accuracy
    axis.axhline(final, color=_RECEIVED, label=f"all classes {final:.1f} %")
    low = max(0.0, 5.0 * np.floor(np.nanmin(percent) / 5.0) - 5.0)
    axis.set(xlabel="class", ylabel="accuracy on clean test set (%)", ylim=(low, 100.5), title="Accuracy of each class")
    axis.set_xticks(np.arange(len(percent)), history.class_names)
    axis.legend(loc="lower right", fontsize=8)


def _learning_curve(axis: Axes, history: TrainingHistory) -> None:
    if history.class_accuracy:
        _class_bars(axis, history)
        return
    from matplotlib.ticker import MaxNLocator

    epochs = np.arange(1, len(history.test_accuracy) + 1)
    axis.plot(epochs, 100 * np.asarray(history.test_accuracy), color=_SENT, marker="." if len(epochs) < 40 else "")
    axis.plot(
        history.best_epoch,
        100 * history.best_accuracy,
        "^",
        color=_ACCENT,
        label=f"best epoch {100 * history.best_accuracy:.1f} %",
    )
    axis.plot(
        epochs[-1],
        100 * history.final_accuracy,
        "o",
        color=_RECEIVED,
        label=f"final {100 * history.final_accuracy:.1f} %",
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlabel="epoch", ylabel="accuracy on clean test set (%)", ylim=(0, 102), title="Learning curve")
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right", fontsize=8)


def _power(axis: Axes, report: AirReport) -> None:
    limit_dbm = report.scenario.radio.max_power_dbm
    # The step that begins at the limit holds the workers that send with exactly that power.
    _histogram(axis, report.power_dbm, _SENT, "transmit power", edge_db=limit_dbm + DecibelHistogram.STEP_DB)
    axis.axvline(limit_dbm, color="0.3", linestyle="--", label="limit")
    axis.set(xlabel="dBm", ylabel="share of transmissions (%)", title="Power of each worker and slot")
    axis.legend(fontsize=8)


def _snr(axis: Axes, report: AirReport) -> None:
    _histogram(axis, report.input_snr_db, _SENT, "inputs")
    _histogram(axis, report.label_snr_db, _RECEIVED, "labels")
    axis.set(xlabel="dB", ylabel="share of slots (%)", title="Received signal-to-noise ratio")
    axis.legend(fontsize=8)


def _histogram(axis: Axes, histogram: DecibelHistogram, colour: str, label: str, *, edge_db: float = 0.0) -> None:
    """Draw the counts between the 0.1 % and 99.9 % quantiles in about forty bars, one of their edges at ``edge_db``."""
    low, high = histogram.quantile_db(0.001), histogram.quantile_db(0.999)
    steps_per_bar = max(1, round((high - low) / 40 / histogram.STEP_DB))
    width = steps_per_bar * histogram.STEP_DB
    first = round((edge_db - histogram.LOWEST_DB) / histogram.STEP_DB) % steps_per_bar
    starts = np.arange(first, len(histogram.counts), steps_per_bar)
    shares = 100 * np.add.reduceat(histogram.counts, starts) / max(histogram.counts.sum(), 1)
    left = histogram.edges_db[starts]
    shown = (left > low - 3 * width) & (left < high + 2 * width)
    axis.bar(left[shown], shares[shown], width=width, align="edge", color=colour, alpha=0.65, label=label)


def draw_ledger(epsilons: NDArray[np.float64], statements: list[PrivacyStatement], path: Path) -> None:
    """Draw what the server can learn of each worker, and what every accountant certifies against every adversary."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    own = statements[0]
    _worker_epsilons(left, epsilons, own.target_epsilon if own.adversary == "server" else None)
    _statements(right, statements)
    save_figure(figure, path)


def _worker_epsilons(axis: Axes, epsilons: NDArray[np.float64], target_epsilon: float | None) -> None:
    from matplotlib.ticker import MaxNLocator

    highest = max(float(epsilons.max()), 1e-6)  # the last bar ends at the worst worker, not beyond it
    axis.hist(epsilons, bins=40, range=(0.0, highest), color=BLUE, alpha=0.75)
    axis.axvline(float(np.median(epsilons)), color="0.3", label=f"median {np.median(epsilons):.3g}")
    axis.axvline(float(epsilons.max()), color=ORANGE, label=f"worst {epsilons.max():.3g}")
    if target_epsilon is not None:
        axis.axvline(target_epsilon, color=GREEN, linestyle="--", label=f"target {target_epsilon:g}")
    axis.set(xlabel="ε of a worker against the server", ylabel="workers", title="Privacy ledger")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.legend(fontsize=8)


def _statements(axis: Axes, statements: list[PrivacyStatement]) -> None:
    accountants, adversaries = ACCOUNTANTS.names, ADVERSARIES.names
    for statement in statements:
        # Side by side, so that equal figures do not hide each other.
        beside = 0.1 * (accountants.index(statement.accountant) - len(accountants) // 2)
        axis.plot(
            max(statement.epsilon, 1e-6),
            adversaries.index(statement.adversary) - beside,
            "o",
            color=accountant_colour(statement.accountant),
            alpha=0.8,
        )
    for name in accountants:
        axis.plot([], [], "o", color=accountant_colour(name), label=name)
    axis.set(xscale="log", xlabel="ε (log)", title="What accountants certify", yticks=range(len(adversaries)))
    axis.set_yticklabels(adversaries)
    axis.set_ylim(-0.5, len(adversaries) - 0.5)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
