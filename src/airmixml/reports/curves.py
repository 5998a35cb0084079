"""Learning curves of run folders, and several of them in one picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airmixml.errors import RunFolderError
from airmixml.output.figures import figure_bytes, finish_axis, new_figure
from airmixml.output.page import Picture
from airmixml.reading import Read, read_regular
from airmixml.storage.files import corrupt_file
from airmixml.wording import reason

_MOST_STEPS: Final = 10**12
# What a curve may count, and where that begins: the first model of a run with rounds is that before them.
_FIRST: Final = {"epoch": 1, "round": 0}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learning curve: per column of the CSV file (training_loss, test_accuracy, ...) the steps and values."""

    columns: dict[str, tuple[tuple[int, float], ...]]
    step: str  # what is counted; see ``_FIRST``


def read_curve(folder: Path, read: Read = read_regular) -> Curve | None:
    """Return the learning curve of a run folder, one point without epochs or rounds; None where there is no curve."""
    path = folder / "learning_curve.csv"
    columns: dict[str, tuple[tuple[int, float], ...]] = {}
    try:
        rows = list(csv.DictReader(io.StringIO(read(path).decode("utf-8-sig"), newline="")))
        step = next((step for step in _FIRST if rows and step in rows[0]), "epoch")
        for name in rows[0] if rows else ():
            points = [(int(row[step]), float(row[name])) for row in rows if name != step and row[name]]
            if not all(_FIRST[step] <= at <= _MOST_STEPS for at, _ in points):
                raise ValueError(f"{step}s must be from {_FIRST[step]} to {_MOST_STEPS}")
            if points:
                columns[name] = tuple((at, value) for at, value in points if math.isfinite(value))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise RunFolderError(f"{path}: cannot be read ({reason(problem)})") from None
    except (ValueError, KeyError, TypeError, csv.Error) as problem:
        raise corrupt_file(path, problem, delete=f"the folder {folder}") from None
    return Curve(columns=columns, step=step) if columns else None


def draw_curves(folders: Mapping[str, Path]) -> Sequence[Picture]:
    """Return the scores of runs over each other: one picture, or none where no run has epochs or rounds."""
    curves = {name: curve for name, folder in folders.items() if (curve := read_curve(folder)) is not None}
    scores = [name for curve in curves.values() for name, points in curve.columns.items() if len(points) > 1]
    score = next((name for name in scores if name.startswith("test_")), None)
    if score is None:
        return ()
    drawn = {name: curve for name, curve in curves.items() if curve.columns.get(score)}
    percent = 1.0 if score == "test_r2" else 100.0
    figure = new_figure(8, 4.2)
    axis, said = figure.subplots(), []
    for name, curve in drawn.items():
        steps, values = zip(*curve.columns[score], strict=True)
        axis.plot(steps, [percent * value for value in values], marker="." if len(steps) < 40 else "", label=name)
        said.append(f"{name}: {percent * values[0]:.3g} after {curve.step} {steps[0]}, {percent * values[-1]:.3g} last")
    what = score.replace("_", " ") + " (%)" * (percent > 1.0)
    axis.set(xlabel=" or ".join(dict.fromkeys(curve.step for curve in drawn.values())), ylabel=what)
    finish_axis(axis, legend=8)
    shows = f"Learning curves, {what}. {'; '.join(said)}."
    return (Picture(caption="Learning curves", shows=shows, content=figure_bytes(figure, "png")),)
