"""The trained model in a run folder."""

from __future__ import annotations

import io
from pathlib import Path

import torch

from airmixml.data import DataSet
from airmixml.edge import build_model
from airmixml.errors import AirMixError, RunFolderError
from airmixml.scenario import Scenario
from airmixml.storage.files import write_bytes
from airmixml.storage.run_folder import SCENARIO, load_metrics

_MODEL = "model.pt"


def save_model(model: torch.nn.Module, dataset: DataSet, folder: Path) -> None:
    """Write the parameters, with the dimensions and class names that go with them."""
    buffer = io.BytesIO()
    torch.save(
        {
            "parameters": {name: value.cpu() for name, value in model.state_dict().items()},
            "input_dim": dataset.input_dim,
            "label_dim": dataset.label_dim,
            "image_shape": list(dataset.image_shape) if dataset.image_shape else None,
            "class_names": list(dataset.class_names),
            "private_mean": None if dataset.private_mean is None else torch.from_numpy(dataset.private_mean),
        },
        buffer,
    )
    write_bytes(folder / _MODEL, buffer.getvalue())


def load_model(folder: Path | str) -> torch.nn.Sequential:
    """Return the trained model of a finished run folder of one seed, on the CPU.

    It takes inputs as they leave the workers' encoder (``airmixml.workers.encode`` with the run's seed), which by
    default scales them to [0, 1]. Where a mean was estimated over the air it is in ``model.pt`` as ``private_mean``:
    subtract it from what ``encode`` gives and call ``airmixml.workers.finish_encoding``.
    """
    folder = Path(folder)
    runs = load_metrics(folder).get("runs")
    if runs:
        raise RunFolderError(
            f"{folder}: holds several seeds; give one of them, such as {folder}/seed-{runs[0]['seed']}"
        )
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
