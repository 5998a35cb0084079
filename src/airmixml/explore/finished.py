"""What a run folder tells: its learning curve, half-way or whole, and what came out."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from airmixml.errors import AirMixError
from airmixml.explore.asked import finite
from airmixml.output.numbers import duration, joules
from airmixml.reading import read_regular
from airmixml.reports.folders import find_folder, read_curve
from airmixml.runs.model_files import CHECKPOINT
from airmixml.runs.results import load_result
from airmixml.storage.results import odd_content


@dataclass(frozen=True)
class Curve:
    """Loss on the mixtures and score on the clean test set after each epoch; empty where there is none (yet)."""

    loss: tuple[float, ...] = ()
    score: tuple[float, ...] = ()
    name: str = "accuracy"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"loss": finite(self.loss), "score": finite(self.score), "name": self.name}


def curve_so_far(partial: Path) -> Curve:
    """Return the curve up to the last checkpoint of a training that is not finished."""
    path = partial / CHECKPOINT
    try:
        with np.load(io.BytesIO(read_regular(path)), allow_pickle=False) as kept:
            loss, score = (kept[name] for name in ("loss", "test_accuracy"))
        if any(each.dtype.kind != "f" or each.ndim != 2 for each in (loss, score) if each.size):
            raise ValueError("loss and test_accuracy must be epochs x networks")
        return Curve(tuple(loss[:, 0].tolist()), tuple(score[:, 0].tolist()) if score.size else ())
    except FileNotFoundError:  # none yet, or it was just taken away
        return Curve()
    except Exception as problem:  # whatever a damaged file makes NumPy say
        raise odd_content(path, problem) from problem


def curve_of(folder: Path) -> Curve:
    """Return the curve of a finished run; a protected one keeps none."""
    found = read_curve(folder, "")
    columns = (
        {} if found is None else {name: tuple(value for _, value in points) for name, points in found.columns.items()}
    )
    score = next((name for name in columns if name.startswith("test_")), "test_accuracy")
    return Curve(columns.get("training_loss", ()), columns.get(score, ()), score.removeprefix("test_"))


def facts_of_run(folder: Path) -> dict[str, Any]:
    """Return what a table of finished runs has of one; else a line on what it holds, or what is odd about it."""
    try:
        kind = find_folder(folder).kind
        if kind != "run":
            return {"line": f"results of airmix {kind}"}
        result = load_result(folder)
    except AirMixError as problem:
        return {"line": str(problem)}
    own, accuracy, energy = result.privacy[0], result.accuracy, getattr(result, "energy_joules", None)
    server = next((each for each in result.privacy if (each.adversary, each.accountant) == ("server", "gdp")), None)
    of_rows = result.row_statements if result.row_copies > 1 else ()
    row = next((each for each in of_rows if each.adversary == own.adversary), None)
    facts = {
        "data": result.dataset.name,
        "mode": result.mode,
        "epsilon": own.epsilon,
        "delta": own.delta,
        "adversary": own.adversary,
        "accountant": own.accountant,
        "server_epsilon": None if server is None else server.epsilon,
        "row_epsilon": None if row is None else row.epsilon,
        "row_copies": result.row_copies,
        "air_time": duration(result.air_seconds),
        "energy": None if energy is None else joules(energy),
        "seconds": result.seconds,
        "snr_db": getattr(result, "snr_inputs_db", None),
        "accuracy": None if accuracy is None else accuracy.final,
        "best": None if accuracy is None else accuracy.best,
        "scores": dict(result.scores),
    }
    return {"facts": finite(facts)}
