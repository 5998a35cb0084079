"""A whole run: simulate, train, write the run folder; one seed or several, resumable."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import statistics
import sys
import time
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from airmixml.edge import TrainedModel, build_model, train
from airmixml.errors import RunFolderError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio import Mixtures, check_privacy_target, simulate
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.study.figures import draw_run
from airmixml.study.run_folder import (
    METRICS,
    FileCheckpoint,
    RunFolder,
    claim_folder,
    claim_free_folder,
    load_metrics,
    write_file,
)
from airmixml.version import __version__
from airmixml.workers import load_dataset

__all__ = ["load_model", "run"]

RUNS_FOLDER = Path("runs")
SCENARIO = "scenario.toml"


def run(
    scenario: Scenario,
    *,
    seeds: int = 1,
    out: Path | str | None = None,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run a scenario, write its folder, and return its metrics (those of the folder's ``metrics.json``).

    Args:
        scenario: what to run.
        seeds: how many runs, with the scenario's seed and those after it.
        out: folder to make (default: a free name below ``runs``).
        force: replace ``out`` where it exists.
        speed: device, block size and threads.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
    """
    speed = speed or Speed()
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
    check_privacy_target(scenario)
    identity = {**_identity(scenario), "seeds": seeds}
    claim: AbstractContextManager[RunFolder]
    if out is None:
        name = f"{scenario.name}-seed{scenario.seed}" + (f"-x{seeds}" if seeds > 1 else "")
        claim = claim_free_folder(RUNS_FOLDER, name, identity)
    else:
        claim = claim_folder(Path(out), identity, force=force)
    try:
        with claim as folder:
            if seeds == 1:
                metrics = _run_one(scenario, folder.work, speed, data_dir, progress)
            else:
                metrics = _run_seeds(scenario, seeds, folder.work, speed, data_dir, progress)
            metrics["run_dir"] = str(folder.final)
            for each in metrics.get("runs", []):
                each["run_dir"] = str(folder.final / f"seed-{each['seed']}")
            write_file(folder.work / SCENARIO, scenario.to_toml())
            write_file(folder.work / METRICS, json.dumps(metrics, indent=2, allow_nan=False) + "\n")
            folder.publish(replace=force)
    except OSError as problem:
        place = problem.filename or out or RUNS_FOLDER
        raise RunFolderError(
            f"{place}: cannot be written ({problem.strerror}); free space or choose another --out"
        ) from problem
    return metrics


def load_model(folder: Path | str) -> torch.nn.Sequential:
    """Return the trained model of a finished run folder of one seed, on the CPU."""
    folder = Path(folder)
    if "runs" in load_metrics(folder):
        raise RunFolderError(f"{folder}: holds several seeds; give the folder of one, such as {folder}/seed-0")
    saved = torch.load(folder / "model.pt", map_location="cpu", weights_only=True)
    scenario = Scenario.load(folder / SCENARIO)
    shape = saved["image_shape"]
    model = build_model(scenario.learner, saved["input_dim"], saved["label_dim"], tuple(shape) if shape else None)
    model.load_state_dict(saved["parameters"])
    return model


def _run_one(scenario: Scenario, work: Path, speed: Speed, data_dir: Path | None, progress: Progress) -> dict[str, Any]:
    """Run one seed inside ``work`` and return its metrics."""
    started = time.perf_counter()
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
    build_model(
        scenario.learner, dataset.input_dim, dataset.label_dim, dataset.image_shape
    )  # refuses before the slots run
    mixtures = simulate(scenario, dataset=dataset, speed=speed, progress=progress)
    simulated = time.perf_counter()
    checkpoint = FileCheckpoint(work, made_with=f"{speed.device} torch {torch.__version__}")
    trained = train(mixtures, speed=speed, progress=progress, checkpoint=checkpoint)
    finished = time.perf_counter()
    write_file(work / "learning_curve.csv", _curve_table(trained))
    _save_model(mixtures, trained, work / "model.pt")
    draw_run(mixtures, trained.history, work / "figures")
    history = trained.history
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "accuracy": {
            "final": history.final_accuracy,
            "best": history.best_accuracy,
            "best_epoch": history.best_epoch,
        },
        **mixtures.report.to_dict(),
        "clipped_values": dataset.clipped_values,
        "dataset": {
            "name": dataset.name,
            "train_samples": dataset.train_samples,
            "test_samples": len(dataset.test_labels),
            "input_dim": dataset.input_dim,
            "label_dim": dataset.label_dim,
        },
        "seconds": finished - started,
        "seconds_by_stage": {"over_the_air": simulated - started, "training": finished - simulated},
        "resumed_from_epoch": checkpoint.resumed_epoch,
        "device": speed.device,
        "versions": _versions(),
    }


def _run_seeds(
    scenario: Scenario, seeds: int, work: Path, speed: Speed, data_dir: Path | None, progress: Progress
) -> dict[str, Any]:
    """Run each seed in a folder of its own; those already finished are kept."""
    runs = []
    for number in range(seeds):
        single = scenario.with_seed(scenario.seed + number)
        progress("seeds", number, seeds)
        final = work / f"seed-{single.seed}"
        if final.exists():
            runs.append(load_metrics(final))
            continue
        with claim_folder(final, _identity(single)) as folder:
            metrics = _run_one(single, folder.work, speed, data_dir, progress)
            write_file(folder.work / SCENARIO, single.to_toml())
            write_file(folder.work / METRICS, json.dumps(metrics, indent=2, allow_nan=False) + "\n")
            folder.publish()
        runs.append(metrics)
    progress("seeds", seeds, seeds)
    return _summary(scenario, runs)


def _summary(scenario: Scenario, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the seeds, the spread of the accuracy, and the worst of what has limits."""

    def mean(*path: str) -> Any:
        return statistics.fmean(_at(each, path) for each in runs)

    def largest(*path: str) -> Any:
        return max(_at(each, path) for each in runs)

    def deviation(*path: str) -> Any:
        return statistics.stdev(_at(each, path) for each in runs)

    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "accuracy": {
            "final": mean("accuracy", "final"),
            "final_deviation": deviation("accuracy", "final"),
            "best": mean("accuracy", "best"),
            "best_deviation": deviation("accuracy", "best"),
        },
        "slots": scenario.radio.slots,
        "energy_joules": mean("energy_joules"),
        "worker_energy_joules": {
            "mean": mean("worker_energy_joules", "mean"),
            "median": mean("worker_energy_joules", "median"),
            "largest": largest("worker_energy_joules", "largest"),
        },
        "power_dbm": {
            "median": mean("power_dbm", "median"),
            "largest": largest("power_dbm", "largest"),
            "limit": scenario.radio.max_power_dbm,
        },
        "power_limited_slots": largest("power_limited_slots"),
        "snr_db": mean("snr_db"),
        "snr_inputs_db": mean("snr_inputs_db"),
        "snr_labels_db": mean("snr_labels_db"),
        "privacy": max((each["privacy"] for each in runs), key=lambda statements: float(statements[0]["epsilon"])),
        "clipped_values": largest("clipped_values"),
        "dataset": runs[0]["dataset"],
        "seconds": sum(each["seconds"] for each in runs),
        "device": runs[0]["device"],
        "versions": runs[0]["versions"],
        "runs": runs,
    }


def _at(metrics: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = metrics
    for name in path:
        value = value[name]
    return value


def _identity(scenario: Scenario) -> dict[str, Any]:
    """Return what must be equal for an interrupted run to be gone on with: scenario, version, the user's data."""
    data = Path(scenario.workers.dataset).expanduser()
    content = hashlib.sha256(data.read_bytes()).hexdigest() if data.is_file() else ""
    return {"scenario": scenario.to_dict(), "data": content, "airmixml": __version__}


def _curve_table(trained: TrainedModel) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", "training_loss", "test_accuracy"])
    history = trained.history
    writer.writerows(zip(range(1, len(history.loss) + 1), history.loss, history.test_accuracy, strict=True))
    return text.getvalue()


def _save_model(mixtures: Mixtures, trained: TrainedModel, path: Path) -> None:
    dataset = mixtures.dataset
    torch.save(
        {
            "parameters": {name: value.cpu() for name, value in trained.model.state_dict().items()},
            "input_dim": dataset.input_dim,
            "label_dim": dataset.label_dim,
            "image_shape": list(dataset.image_shape) if dataset.image_shape else None,
            "class_names": list(dataset.class_names),
        },
        path,
    )


def _versions() -> dict[str, str]:
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "airmixml": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": f"{sys.platform} {platform.machine()}",
    }
