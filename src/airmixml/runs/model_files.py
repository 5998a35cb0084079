"""The network in a run folder: as it was trained, and half-way, where its training was interrupted."""

import io
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.data import DataSet
from airmixml.edge import build_model
from airmixml.errors import AirMixError, RunFolderError
from airmixml.runs.results import ProtectedResult, SeedsResult, load_result
from airmixml.scenario import Scenario
from airmixml.storage.files import write_bytes
from airmixml.storage.results import ResultStore
from airmixml.storage.run_folder import SCENARIO

CHECKPOINT: Final = "checkpoint.npz"
_MODEL: Final = "model.pt"
_TABLES: Final = ("loss", "test_accuracy")


class FileCheckpoint:
    """Keeps the state of a training in the folder being filled, at most once in a few seconds.

    ``made_with`` says on what it was made (device, versions); a training on something else does not resume from it,
    since it would then end elsewhere than an uninterrupted one.
    """

    def __init__(self, folder: Path, *, made_with: str = "", every_seconds: float = 5.0) -> None:
        self._store = ResultStore(folder, made_with)
        self._every_seconds = every_seconds
        self._last_save = time.monotonic()
        self.resumed_epoch = 0

    def load(self, like: dict[str, Any]) -> dict[str, Any] | None:
        """Return the last state, or None if there is none to resume from.

        It must have the names, shapes and number of epochs of the state before the first epoch, which ``like`` is.
        """
        state = self._store.load(CHECKPOINT, lambda values, arrays: _restored(like, values, arrays))
        self.resumed_epoch = 0 if state is None else state["epoch"]
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state, unless the last one is only seconds old."""
        if time.monotonic() - self._last_save < self._every_seconds:
            return
        arrays = {name: value.cpu().numpy() for name, value in _tensors(state).items()}
        arrays |= {name: np.array(state[name], dtype=np.float64) for name in _TABLES}
        self._store.save(CHECKPOINT, {"epoch": state["epoch"], "epochs": state["epochs"]}, arrays)
        self._last_save = time.monotonic()


def _groups(state: dict[str, Any]) -> dict[str, dict[str, torch.Tensor]]:
    """Return the tensors of a state: the network's values, and Adam's moments of each."""
    return {"model": state["model"], **{f"moments/{place}": each for place, each in enumerate(state["moments"])}}


def _tensors(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {f"{group}/{name}": value for group, each in _groups(state).items() for name, value in each.items()}


def _restored(like: dict[str, Any], values: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return a state like the given one; a ValueError says what is odd about what was saved."""
    wanted, epoch = _tensors(like), values["epoch"]
    if set(arrays) != {*wanted, *_TABLES}:
        raise ValueError("it is of another network")
    for name, value in wanted.items():
        if torch.from_numpy(arrays[name]).dtype != value.dtype or arrays[name].shape != value.shape:
            raise ValueError(f"{name} is {arrays[name].dtype} {arrays[name].shape}, not {tuple(value.shape)}")
    loss, accuracy = (arrays[name] for name in _TABLES)
    if type(epoch) is not int or values["epochs"] != like["epochs"] or not 1 <= epoch <= like["epochs"]:
        raise ValueError(f"epoch {epoch} of {values['epochs']}, not of {like['epochs']}")
    if loss.ndim != 2 or len(loss) != epoch or (accuracy.size and accuracy.shape != loss.shape):
        raise ValueError("loss and test_accuracy must be epochs x networks")
    # A network of a stack may have gone astray; then its loss has, too.
    straight = np.isfinite(loss[-1])
    finite = all(np.isfinite(arrays[name]).all() for name in wanted) or not straight.all()
    if not finite or not straight.any() or not ((accuracy >= like.get("lowest_score", 0.0)) & (accuracy <= 1.0)).all():
        raise ValueError("it holds values that no training leaves")
    model, *moments = (
        {name: torch.from_numpy(arrays[f"{group}/{name}"]) for name in each} for group, each in _groups(like).items()
    )
    tables = {name: arrays[name].tolist() for name in _TABLES}
    return {"epoch": epoch, "model": model, "moments": moments, **tables}


def save_model(model: torch.nn.Module, dataset: DataSet, folder: Path) -> None:
    """Write the parameters, with the dimensions and class names that go with them."""
    buffer = io.BytesIO()
    content = {
        "parameters": {name: value.cpu() for name, value in model.state_dict().items()},
        "input_dim": dataset.input_dim,
        "label_dim": dataset.label_dim,
        "image_shape": list(dataset.image_shape) if dataset.image_shape else None,
        "class_names": list(dataset.class_names),
        "private_mean": None if dataset.private_mean is None else torch.from_numpy(dataset.private_mean),
    }
    torch.save(content, buffer)
    write_bytes(folder / _MODEL, buffer.getvalue())


def load_model(folder: Path | str) -> torch.nn.Sequential:
    """Return the trained model of a finished run folder of one seed, on the CPU.

    It takes inputs as they leave the workers' encoder (``airmixml.workers.encode`` with the run's seed), which by
    default scales them to [0, 1]. Where a mean was estimated over the air it is in ``model.pt`` as ``private_mean``:
    subtract it from what ``encode`` gives and call ``airmixml.workers.encode_centred``.
    """
    folder = Path(folder)
    result = load_result(folder)
    if isinstance(result, SeedsResult) or (isinstance(result, ProtectedResult) and result.releases > 1):
        raise RunFolderError(f"{folder}: holds several seeds; give one of them, such as {folder}/seed-{result.seed}")
    learner = Scenario.load(folder / SCENARIO).learner
    try:
        saved = torch.load(folder / _MODEL, map_location="cpu", weights_only=True)
        shape = saved["image_shape"]
        model = build_model(learner, saved["input_dim"], saved["label_dim"], tuple(shape) if shape else None)
        model.load_state_dict(saved["parameters"])
    except AirMixError:
        raise
    except Exception as problem:  # torch, zip and pickle fail in many ways on a damaged file
        raise RunFolderError(
            f"{folder / _MODEL}: not the model of that run ({type(problem).__name__}); run the scenario again"
        ) from problem
    return model
