"""What a run folder tells: its learning curve, half-way or whole, and what came out."""

import errno
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.errors import AirMixError, RunFolderError
from airmixml.reading import read_within
from airmixml.reports.folders import find_folder, read_curve
from airmixml.runs.model_files import CHECKPOINT
from airmixml.runs.results import load_result
from airmixml.scenario.toml import finite
from airmixml.storage.files import corrupt_file
from airmixml.wording import duration, joules, reason

# Of a result, and of the arrays of a checkpoint: hundreds of seeds, or half a million epochs.
_MOST_BYTES: Final = 4_000_000
_MOST_CHECKPOINT_BYTES: Final = 12_000_000
_CURVE: Final = ("loss", "test_accuracy")  # arrays of a checkpoint, epochs x networks
_MOST_CURVE_BYTES: Final = 1_000_000  # of text, which takes longer to read: some ten thousand epochs


def plain_curve(
    loss: Sequence[float] = (), score: Sequence[float] = (), name: str = "accuracy", step: str = "epoch", first: int = 1
) -> dict[str, Any]:
    """Return loss on the mixtures and score on the clean test set after each step, for JSON; empty without a curve.

    Steps are epochs, or rounds from the first model on; ``first`` is the number of the first.
    """
    return {"loss": finite(list(loss)), "score": finite(list(score)), "name": name, "step": step, "first": first}


def curve_so_far(root: Path, partial: Path) -> dict[str, Any]:
    """Return the curve up to the last checkpoint of a training that is not finished; of a large file, no more."""
    path = partial / CHECKPOINT
    try:
        with np.load(io.BytesIO(read_within(root, path, _MOST_CHECKPOINT_BYTES)), allow_pickle=False) as arrays:
            if any(arrays.zip.getinfo(f"{name}.npy").file_size > _MOST_BYTES for name in _CURVE):
                raise OSError(errno.EFBIG, f"its curve is larger than {_MOST_BYTES:,} bytes")
            loss, score = (np.asarray(arrays[name], dtype=np.float64) for name in _CURVE)
        return plain_curve(loss[:, 0].tolist(), score[:, 0].tolist() if score.size else ())
    except FileNotFoundError:  # none yet, or it was just taken away
        return plain_curve()
    except OSError as problem:
        raise RunFolderError(f"{path}: cannot be read ({reason(problem)})") from None
    except Exception as problem:  # whatever a damaged file makes NumPy say
        raise corrupt_file(path, problem) from problem


def curve_of(root: Path, folder: Path) -> dict[str, Any]:
    """Return the curve of a finished run; a protected one keeps none."""
    found = read_curve(folder, lambda path: read_within(root, path, _MOST_CURVE_BYTES))
    if found is None:
        return plain_curve()
    columns = {name: [value for _, value in each] for name, each in found.columns.items()}
    score = next((name for name in columns if name.startswith("test_")), "test_accuracy")
    first = min((each[0][0] for each in found.columns.values() if each), default=1)
    scores = columns.get(score, ()), score.removeprefix("test_")
    return plain_curve(columns.get("training_loss", ()), *scores, found.step, first)


def facts_of_run(root: Path, folder: Path) -> dict[str, Any]:
    """Return what a table of finished runs has of one; else a line on what it holds, or what is odd about it."""

    def read(path: Path) -> bytes:
        return read_within(root, path, _MOST_BYTES)

    try:
        kind = find_folder(folder, read=read).kind
        if kind != "run":
            return {"line": f"results of airmix {kind}"}
        result = load_result(folder, read)
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
        "row_before_the_draw": None if row is None else row.before_the_draw,
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
