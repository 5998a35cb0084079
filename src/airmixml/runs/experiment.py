"""A whole run: simulate, train, write the run folder; one seed or several, resumable."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from airmixml.devices import find_device
from airmixml.edge import TrainingHistory, learn
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.runs.checkpoint import CHECKPOINT, FileCheckpoint
from airmixml.runs.ledger_picture import draw_ledger
from airmixml.runs.model_file import save_model
from airmixml.runs.pictures import draw_run
from airmixml.runs.seeds import summarise_seeds
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.storage.files import write_arrays, write_text, writing_to
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, RunFolder, claim, claim_folder, load_metrics
from airmixml.streams import Streams
from airmixml.version import __version__
from airmixml.workers import load_dataset, worker_cost


@dataclass(frozen=True, kw_only=True)
class _Means:
    """What a run is done with; none of it changes what it gives."""

    speed: Speed
    data_dir: Path | None
    progress: Progress


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
    means = _Means(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
    scenario.with_seed(scenario.seed + seeds - 1)  # refuses a last seed that is too large
    find_device(means.speed.device)
    check_privacy_target(scenario)
    identity = {**identity_of(scenario), "seeds": seeds}
    name = f"{scenario.name}-seed{scenario.seed}" + (f"-x{seeds}" if seeds > 1 else "")
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force) as folder:
        if seeds == 1:
            metrics = _run_one(scenario, folder, means)
        else:
            metrics = summarise_seeds(scenario, _run_each(scenario, seeds, folder, means))
        _finish(scenario, metrics, folder, folder.final, replace=force)
    return metrics


def identity_of(scenario: Scenario) -> dict[str, Any]:
    """Return what must be equal for an interrupted run to be gone on with: scenario, version, the user's data."""
    data, digest = os.path.expanduser(scenario.workers.dataset), ""
    # Else a data set known by name, or something that loading will complain about.
    if os.path.isfile(data) and os.access(data, os.R_OK):
        with open(data, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"scenario": scenario.to_dict(), "data": digest, "airmixml": __version__}


def _run_each(scenario: Scenario, seeds: int, whole: RunFolder, means: _Means) -> list[dict[str, Any]]:
    """Run each seed in a folder of its own; those already finished are kept."""
    runs = []
    for number in range(seeds):
        means.progress("seeds", number, seeds)
        single = scenario.with_seed(scenario.seed + number)
        name = f"seed-{single.seed}"
        if (whole.work / name).exists():
            runs.append(load_metrics(whole.work / name))
            continue
        with claim_folder(whole.work / name, identity_of(single)) as folder:
            metrics = _run_one(single, folder, means)
            _finish(single, metrics, folder, whole.final / name)
        runs.append(metrics)
    means.progress("seeds", seeds, seeds)
    return runs


def _run_one(scenario: Scenario, folder: RunFolder, means: _Means) -> dict[str, Any]:
    """Run one seed inside the folder and return its metrics."""
    started = time.perf_counter()
    speed, progress = means.speed, means.progress
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=means.data_dir, progress=progress)
    held_dim = dataset.held_dim or dataset.input_dim
    checkpoint = FileCheckpoint(folder.work, made_with=f"{speed.device} torch {torch.__version__}")
    learned = learn(
        scenario, dataset=dataset, context=RunContext(speed=speed, progress=progress), checkpoint=checkpoint
    )
    seconds = time.perf_counter() - started
    sent, trained, history = learned.transmission, learned.trained, learned.trained.history
    write_text(folder.work / "learning_curve.csv", _curve_table(history))
    dataset = sent.dataset
    save_model(trained.model, dataset, folder.work)
    draw_run(sent, history, folder.work / "figures")
    report = sent.report
    epsilons = report.worker_epsilons()
    ledger = report.ledger
    write_arrays(
        folder.work / "ledger.npz",
        {"participations": ledger.participations, "received_watts": ledger.received_watts, "epsilon": epsilons},
    )
    stated = [each for each in report.statements if each.adjacency == scenario.privacy.adjacency]
    draw_ledger(epsilons, stated, folder.work / "figures" / "privacy.png")
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "accuracy": {
            "final": history.final_accuracy,
            "best": history.best_accuracy,
            "best_epoch": history.best_epoch,
        },
        **report.to_dict(),
        "worker_cost": worker_cost(scenario.workers, held_dim, report.signal).to_dict(),
        "clipped_values": dataset.clipped_values,
        "clipped_samples": dataset.clipped_samples,
        "dataset": {
            "name": dataset.name,
            "train_samples": dataset.train_samples,
            "test_samples": len(dataset.test_labels),
            "input_dim": dataset.input_dim,
            "label_dim": dataset.label_dim,
        },
        "seconds": seconds,
        "seconds_by_stage": {
            "over_the_air": seconds - learned.training_seconds,
            "training": learned.training_seconds,
        },
        "resumed_from_epoch": checkpoint.resumed_epoch,
        "device": speed.device,
        "versions": _versions(),
    }


def _finish(
    scenario: Scenario, metrics: dict[str, Any], folder: RunFolder, run_dir: Path, *, replace: bool = False
) -> None:
    """Write what makes a run folder whole and give it its name."""
    metrics["run_dir"] = str(run_dir)
    write_text(folder.work / SCENARIO, scenario.to_toml())
    write_text(folder.work / METRICS, json.dumps(metrics, indent=2, allow_nan=False) + "\n")
    folder.publish(replace=replace, leave_out=(CHECKPOINT,))


def _curve_table(history: TrainingHistory) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", "training_loss", "test_accuracy"])
    losses: list[float] | list[str] = history.loss or [""] * len(history.test_accuracy)
    writer.writerows(zip(range(1, len(losses) + 1), losses, history.test_accuracy, strict=True))
    return text.getvalue()


def _versions() -> dict[str, str]:
    packages = ("torch", "numpy", "scipy", "scikit-learn", "dp-accounting")
    return {
        "airmixml": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
        "platform": f"{sys.platform} {platform.machine()}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
