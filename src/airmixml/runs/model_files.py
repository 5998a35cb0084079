"""The network in a run folder: as it was trained, and half-way, where its training was interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import ImageShape
from airmixml.data import Bounded, DataSet, LabelCode, RowFormat, Signs
from airmixml.files import ResultStore, corrupt_file, from_plain
from airmixml.messages import AirMixError, RunFolderError
from airmixml.registries import ENCODERS
from airmixml.registry import add_given
from airmixml.runs.results import DEPLOYMENT, DeployedError, ProtectedResult, SeedsResult, load_result
from airmixml.scenario import Scenario
from airmixml.scenario.scenario import encoder_digest
from airmixml.scenario.score_links import LINKS, ScoreLink
from airmixml.storage.folders import SCENARIO, is_protected, write_result
from airmixml.workers import RowEncoder

if TYPE_CHECKING:
    import torch

CHECKPOINT: Final = "checkpoint.npz"
_MODEL: Final = "model.npz"
_MEAN: Final = "private_mean"
_BOUNDS: Final = ("lower", "upper")  # of raw rows
_PARAMETER: Final = "parameter/"  # before the names of the network's values, which may be any
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
        arrays = _arrays(state)
        arrays |= {name: np.array(state[name], dtype=np.float64) for name in _TABLES}
        self._store.save(CHECKPOINT, {"epoch": state["epoch"], "epochs": state["epochs"]}, arrays)
        self._last_save = time.monotonic()


def _groups(state: dict[str, Any]) -> dict[str, dict[str, torch.Tensor]]:
    """Return the tensors of a state: the network's values, and Adam's moments of each."""
    return {"model": state["model"], **{f"moments/{place}": each for place, each in enumerate(state["moments"])}}


def _arrays(state: dict[str, Any]) -> dict[str, NDArray[Any]]:
    return {f"{group}/{name}": _array(value) for group, each in _groups(state).items() for name, value in each.items()}


def _array(value: torch.Tensor) -> NDArray[Any]:
    """Return a tensor for NumPy, which has no bfloat16: its values are kept as float32, which has all of them."""
    import torch

    array: NDArray[Any] = (value.float() if value.dtype is torch.bfloat16 else value).cpu().numpy()
    return array


def _restored(like: dict[str, Any], values: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return a state like the given one; a ValueError says what is odd about what was saved."""
    import torch

    kinds = {name: (array.dtype, array.shape) for name, array in _arrays(like).items()}
    saved = {name: array for name, array in arrays.items() if name not in _TABLES}
    if {name: (array.dtype, array.shape) for name, array in saved.items()} != kinds:
        raise ValueError("it is of another network")
    if values["epochs"] != like["epochs"] or len(arrays["loss"]) != values["epoch"]:
        raise ValueError(f"epoch {values['epoch']} of {values['epochs']}, not of {like['epochs']}")
    model, *moments = (
        {name: torch.from_numpy(saved[f"{group}/{name}"]) for name in each} for group, each in _groups(like).items()
    )
    tables = {name: arrays[name].tolist() for name in _TABLES}
    return {"epoch": values["epoch"], "model": model, "moments": moments, **tables}


def save_model(model: torch.nn.Module, dataset: DataSet, folder: Path, scenario: Scenario) -> None:
    """Write the parameters, with the dimensions and class names that go with them."""
    code, rows = dataset.code, None if dataset.row_format is None else asdict(dataset.row_format)
    arrays = {f"{_PARAMETER}{name}": _array(value) for name, value in model.state_dict().items()}
    if dataset.private_mean is not None:
        arrays[_MEAN] = dataset.private_mean
    if rows is not None:
        arrays |= {name: bound for name in _BOUNDS if (bound := rows.pop(name)) is not None}
    about = {
        "input_dim": dataset.input_dim,
        "label_dim": dataset.label_dim,
        "image_shape": dataset.image_shape,
        "class_names": dataset.class_names,
        "rows": rows,
        "targets": (code.lower, code.upper) if isinstance(code, Bounded) else None,
        "encoder_digest": encoder_digest(scenario),
        "link": scenario.score_link.name,
    }
    ResultStore(folder).save(_MODEL, about, arrays)


def save_deployed(
    model: torch.nn.Module, dataset: DataSet, folder: Path, scenario: Scenario, result: dict[str, Any]
) -> None:
    """Write the model of a deployment into the server's folder, so that it is read as that of a run is."""
    save_model(model, dataset, folder, scenario)
    write_result(folder, scenario, {"mode": DEPLOYMENT, **result})


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredModel:
    """What is in a run folder of one seed: the scenario, the network, and what goes with it."""

    scenario: Scenario
    network: torch.nn.Sequential
    class_names: tuple[str, ...]
    encoder: RowEncoder  # from raw rows to what the network takes
    code: LabelCode | None  # None: classes
    link: ScoreLink  # what scores stand for


def load_network(folder: Path | str) -> torch.nn.Sequential:
    """Return the bare network of a finished run folder of one seed, on the CPU.

    It takes inputs as they leave the workers' encoder; ``load_model`` gives a classifier for raw rows.
    """
    return read_stored(Path(folder)).network


def read_stored(folder: Path, encoder: Any = None, objects: Iterable[Any] = ()) -> StoredModel:
    """Read a finished run folder of one seed; refuse one that is unfinished, damaged, or had another encoder.

    ``encoder`` and ``objects`` are what the run was given in Python, where it was given any. Of a protected run
    that ended once its model was written, that can be read too.
    """
    if encoder is not None:
        ENCODERS.add(encoder)
    for given in objects:
        add_given(given)
    protected = left = is_protected(folder) and (folder / SCENARIO).is_file()
    with suppress(DeployedError):
        result = None if left else load_result(folder)
        protected = left or isinstance(result, ProtectedResult)
        if isinstance(result, SeedsResult) or (isinstance(result, ProtectedResult) and result.releases > 1):
            raise RunFolderError(
                f"{folder}: holds several seeds; give one of them, such as {folder}/seed-{result.seed}"
            )
    return read_model(folder, protected=protected)


def read_model(folder: Path, *, protected: bool = False) -> StoredModel:
    """Read what ``save_model`` wrote beside a scenario; refuse what is damaged, or had another encoder."""
    if not (folder / SCENARIO).is_file():
        raise corrupt_file(folder, KeyError(SCENARIO), f"the folder {folder}")
    scenario = Scenario.load(folder / SCENARIO)
    try:
        saved, arrays = ResultStore(folder).load(_MODEL, lambda *found: found) or ({}, {})
        model = _stored_model(scenario, saved, arrays)
        _check_encoder(scenario, saved["encoder_digest"], folder)
    except (AirMixError, ModuleNotFoundError):
        raise
    except Exception as problem:  # missing, damaged, or of another scenario
        then = "run the scenario again" + (", which sends once more and spends epsilon again" if protected else "")
        raise RunFolderError(f"{folder / _MODEL}: not the model of that run; {then}") from problem
    return model


def _stored_model(scenario: Scenario, saved: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> StoredModel:
    """Return the model of a scenario from what ``save_model`` kept."""
    import torch

    from airmixml.data.dataset import Column  # here: most runs write a model and read none
    from airmixml.edge import build_model

    def shape(numbers: list[int] | None) -> ImageShape:
        return None if numbers is None else tuple(numbers)

    rows, names, targets, task = saved["rows"], tuple(saved["class_names"]), saved["targets"], scenario.workers.task
    code = Bounded(*map(tuple, targets)) if task == Bounded.task else Signs(len(names)) if task == Signs.task else None
    rows |= {"feature_names": tuple(rows["feature_names"]), "image_shape": shape(rows["image_shape"])}
    rows |= {"columns": tuple(from_plain(Column, each) for each in rows["columns"])}
    rows |= {name: arrays.get(name) for name in _BOUNDS}
    network = build_model(scenario.learner, saved["input_dim"], saved["label_dim"], shape(saved["image_shape"]))
    of_network = (name for name in arrays if name.startswith(_PARAMETER))
    network.load_state_dict({name.removeprefix(_PARAMETER): torch.from_numpy(arrays[name]) for name in of_network})
    format_and_mean: dict[str, Any] = {"row_format": RowFormat(**rows), "private_mean": arrays.get(_MEAN)}
    encoder = RowEncoder(workers=scenario.workers, seed=scenario.seed, **format_and_mean)
    link = LINKS[saved["link"]]
    return StoredModel(scenario=scenario, network=network, class_names=names, encoder=encoder, code=code, link=link)


def _check_encoder(scenario: Scenario, digest: str, folder: Path) -> None:
    """Refuse another file than the one that the run's encoder was made of: it would give other features."""
    found = encoder_digest(scenario)
    if digest and found != digest:
        is_there = "is another file than the one that the run used" if found else "is not there"
        raise RunFolderError(
            f'{folder}: its workers.encoder = "{scenario.workers.encoder}" {is_there}; put the same file there again '
            "(paths are relative to the current directory)"
        )
