"""The network in a run folder: as it was trained, and half-way, where its training was interrupted."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Singles
from airmixml.data import Bounded, DataSet, LabelCode, RowFormat, Signs
from airmixml.devices import torch_is_missing
from airmixml.errors import AirMixError, RunFolderError
from airmixml.reading import open_regular
from airmixml.registries import ENCODERS, add_given
from airmixml.runs.results import DEPLOYMENT, ProtectedResult, SeedsResult, is_deployed, load_result
from airmixml.scenario import Learner, Scenario
from airmixml.scenario.automatic import LINKS, ScoreLink
from airmixml.storage.files import ResultStore, write_bytes, write_text
from airmixml.storage.run_folder import METRICS, SCENARIO, encoder_digest

if TYPE_CHECKING:
    import torch

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
    import torch

    kinds = {name: (value.dtype, value.shape) for name, value in _tensors(like).items()}
    saved = {name: torch.from_numpy(array) for name, array in arrays.items() if name not in _TABLES}
    if {name: (value.dtype, value.shape) for name, value in saved.items()} != kinds:
        raise ValueError("it is of another network")
    if values["epochs"] != like["epochs"] or len(arrays["loss"]) != values["epoch"]:
        raise ValueError(f"epoch {values['epoch']} of {values['epochs']}, not of {like['epochs']}")
    model, *moments = ({name: saved[f"{group}/{name}"] for name in each} for group, each in _groups(like).items())
    tables = {name: arrays[name].tolist() for name in _TABLES}
    return {"epoch": values["epoch"], "model": model, "moments": moments, **tables}


def save_model(model: torch.nn.Module, dataset: DataSet, folder: Path, scenario: Scenario) -> None:
    """Write the parameters, with the dimensions and class names that go with them."""
    import torch

    buffer = io.BytesIO()
    content = {
        "parameters": {name: value.cpu() for name, value in model.state_dict().items()},
        "input_dim": dataset.input_dim,
        "label_dim": dataset.label_dim,
        "image_shape": list(dataset.image_shape) if dataset.image_shape else None,
        "class_names": list(dataset.class_names),
        "private_mean": None if dataset.private_mean is None else torch.from_numpy(dataset.private_mean),
        "rows": _with_bounds(asdict(dataset.row_format), lambda bounds: bounds.tolist())
        if dataset.row_format
        else None,
        "targets": [list(code.lower), list(code.upper)] if isinstance(code := dataset.code, Bounded) else None,
        "encoder_digest": encoder_digest(scenario),
        "link": scenario.score_link.name,
    }
    torch.save(content, buffer)
    write_bytes(folder / _MODEL, buffer.getvalue())


def save_deployed(
    model: torch.nn.Module, dataset: DataSet, folder: Path, scenario: Scenario, result: dict[str, Any]
) -> None:
    """Write the model of a deployment into the server's folder, so that it is read as that of a run is."""
    save_model(model, dataset, folder, scenario)
    write_text(folder / SCENARIO, scenario.to_toml())
    write_text(folder / METRICS, json.dumps({"mode": DEPLOYMENT, **result}, indent=2, allow_nan=False) + "\n")


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredModel:
    """What is in a run folder of one seed: the scenario, the network, and what goes with it."""

    scenario: Scenario
    network: Any  # a torch.nn.Sequential; a LinearNetwork where torch is not installed
    class_names: tuple[str, ...]
    private_mean: Singles | None
    row_format: RowFormat
    code: LabelCode | None  # None: classes
    link: ScoreLink  # what scores stand for


def load_network(folder: Path | str) -> torch.nn.Sequential:
    """Return the bare network of a finished run folder of one seed, on the CPU.

    It takes inputs as they leave the workers' encoder; ``load_model`` gives a classifier for raw rows.
    """

    network: torch.nn.Sequential = read_stored(Path(folder)).network
    return network


def read_stored(folder: Path, encoder: Any = None, objects: Iterable[Any] = ()) -> StoredModel:
    """Read a finished run folder of one seed; refuse one that is unfinished, damaged, or had another encoder.

    ``encoder`` and ``objects`` are what the run was given in Python, where it was given any.
    """
    if encoder is not None:
        ENCODERS.add(encoder)
    for given in objects:
        add_given(given)
    result = None if is_deployed(folder) else load_result(folder)
    if isinstance(result, SeedsResult) or (isinstance(result, ProtectedResult) and result.releases > 1):
        raise RunFolderError(f"{folder}: holds several seeds; give one of them, such as {folder}/seed-{result.seed}")
    scenario = Scenario.load(folder / SCENARIO)
    try:
        saved, model = _loaded(folder / _MODEL, scenario.learner)
        mean = saved["private_mean"]
        _check_encoder(scenario, saved["encoder_digest"], folder)
        return StoredModel(
            scenario=scenario,
            network=model,
            class_names=tuple(saved["class_names"]),
            private_mean=None if mean is None else np.asarray(mean),
            row_format=_format_of(saved["rows"]),
            code=_code_of(scenario.workers.task, len(saved["class_names"]), saved["targets"]),
            link=LINKS[saved["link"]],
        )
    except AirMixError:
        raise
    except Exception as problem:  # torch, zip and pickle fail in many ways on a damaged file
        raise RunFolderError(f"{folder / _MODEL}: not the model of that run; run the scenario again") from problem


def _loaded(path: Path, learner: Learner) -> tuple[dict[str, Any], Any]:
    """Return what the file of a model holds, and its network; where torch is not installed, that of a linear model."""
    with open_regular(path) as file:
        if torch_is_missing():
            from airmixml.runs.without_torch import LinearNetwork, read_archive

            saved = read_archive(file)
            return saved, LinearNetwork(saved["parameters"])
        import torch

        from airmixml.edge import build_model

        saved = torch.load(file, map_location="cpu", weights_only=True)
    shape = saved["image_shape"]
    model = build_model(learner, saved["input_dim"], saved["label_dim"], tuple(shape) if shape else None)
    model.load_state_dict(saved["parameters"])
    return saved, model


def _check_encoder(scenario: Scenario, digest: str, folder: Path) -> None:
    """Refuse another file than the one that the run's encoder was made of: it would give other features."""
    found = encoder_digest(scenario)
    if digest and found != digest:
        is_there = "is another file than the one that the run used" if found else "is not there"
        raise RunFolderError(
            f'{folder}: its workers.encoder = "{scenario.workers.encoder}" {is_there}; put the same file there again '
            "(paths are relative to the current directory)"
        )


def _code_of(task: str, outputs: int, targets: Any) -> LabelCode | None:
    if task == Signs.task:
        return Signs(outputs)
    return Bounded(*map(tuple, targets)) if task == Bounded.task else None


def _format_of(rows: dict[str, Any]) -> RowFormat:
    from airmixml.data.columns import Column  # here: most runs write a model and read none

    columns = tuple(Column(**column) for column in rows["columns"])
    return RowFormat(**{**_with_bounds(rows, np.asarray), "columns": columns})


def _with_bounds(rows: dict[str, Any], make: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what a raw row looks like with its bounds as lists, which are safe to load, or as arrays again."""
    return {**rows, **{name: None if rows[name] is None else make(rows[name]) for name in ("lower", "upper")}}
