"""``airmix run`` as a process: what it prints, what it writes, and that a seed decides it all."""

from __future__ import annotations

import csv
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from airmixml import Scenario

Airmix = Callable[..., subprocess.CompletedProcess[str]]
SmallRun = tuple[subprocess.CompletedProcess[str], Path]

FILES = {"scenario.toml", "metrics.json", "learning_curve.csv", "ledger.npz", "model.npz", "figures"}
FIGURES = {"overview.png"}
IRIS = ("run", "--preset", "paper-iris", "--set", "radio.slots=200", "--set", "learner.epochs=3", "--seed", "7")


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text())


def without_times(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in ("seconds", "run_dir")}


def test_the_table_goes_to_stdout_and_nothing_to_stderr(small_run: SmallRun) -> None:
    done, _ = small_run
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "paper-iris, seed 7",
        "iris: 4 inputs, 3 classes",
        "2,000, 8 at a time in 200 slots",
        "DirMix(alpha = 100000)",
        "epsilon 5; by paper-loose it is 5",
        "pld, sensitivity 7",
        "replace-one",
        "against the release",
        "3.98e-15 W per symbol",  # -114 dBm
        "runs/paper-iris-seed7",
        "runs/paper-iris-seed7/report.html",
    ):
        assert part in done.stdout, part


def test_the_run_folder_holds_everything_and_nothing_else(small_run: SmallRun) -> None:
    _, folder = small_run
    assert [entry.name for entry in folder.iterdir()] == ["runs"]
    assert [entry.name for entry in (folder / "runs").iterdir()] == ["paper-iris-seed7"]
    run = folder / "runs" / "paper-iris-seed7"
    assert {entry.name for entry in run.iterdir()} == FILES | {"report.html", "finished.json"}
    assert {entry.name for entry in (run / "figures").iterdir()} == FIGURES
    expected = Scenario.preset("paper-iris").with_overrides("radio.slots=200", "learner.epochs=3", "seed=7")
    assert Scenario.load(run / "scenario.toml") == expected
    for name in FIGURES:
        with Image.open(run / "figures" / name) as picture:
            picture.load()
            assert min(picture.size) > 300
            assert len(np.unique(np.asarray(picture.convert("L")))) > 10, f"{name} is blank"


def test_metrics_agree_with_the_learning_curve(small_run: SmallRun) -> None:
    run = small_run[1] / "runs" / "paper-iris-seed7"
    metrics = metrics_of(run)
    with (run / "learning_curve.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    accuracy = [float(row["test_accuracy"]) for row in rows]
    assert metrics["accuracy"] == {
        "final": accuracy[-1],
        "best": max(accuracy),
        "best_epoch": 1 + accuracy.index(max(accuracy)),
    }
    assert all(0 <= right <= 50 and right.is_integer() for right in np.round(50 * np.array(accuracy), 7))
    assert all(math.isfinite(float(row["training_loss"])) for row in rows)


def test_metrics_say_what_was_promised_and_spent(small_run: SmallRun) -> None:
    metrics = metrics_of(small_run[1] / "runs" / "paper-iris-seed7")
    privacy, server = metrics["privacy"][:2]
    assert (server["adversary"], server["accountant"]) == ("server", "gdp")
    assert server["epsilon"] > privacy["epsilon"]
    assert privacy["epsilon"] == pytest.approx(5, rel=1e-9)
    assert (privacy["delta"], privacy["adversary"], privacy["accountant"]) == (0.01, "release", "paper-loose")
    assert (privacy["adjacency"], privacy["sensitivity"]) == ("replace-one", 4 + 3)
    assert privacy["noise_watts_per_symbol"] == pytest.approx(10 ** ((-114 - 30) / 10))
    assert metrics["energy_joules"] == pytest.approx(2000 * metrics["worker_energy_joules"]["mean"])
    assert 0 < metrics["energy_joules"] < 200 * 8 * 1e-3 * 10 ** ((23 - 30) / 10)
    assert metrics["power_dbm"]["median"] <= metrics["power_dbm"]["largest"] <= metrics["power_dbm"]["limit"] == 23
    assert (metrics["name"], metrics["seed"], metrics["run_dir"]) == ("paper-iris", 7, "runs/paper-iris-seed7")
    assert metrics["dataset"]["train_samples"] == 100
    assert metrics["dataset"]["test_samples"] == 50
    assert metrics["seconds"] > 0
    assert math.isfinite(metrics["snr_db"])


def test_a_seed_decides_everything_whatever_the_block_size(airmix: Airmix, small_run: SmallRun, tmp_path: Path) -> None:
    """Also: --json prints one object, which is the folder's metrics.json, and where the report is."""
    first = small_run[1] / "runs" / "paper-iris-seed7"
    done = airmix(*IRIS, "--block-slots", "37", "--json", "--out", "again")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert printed == {**metrics_of(tmp_path / "again"), "report": "again/report.html"}
    assert printed["run_dir"] == "again"
    curve = (tmp_path / "again" / "learning_curve.csv").read_bytes()
    assert curve == (first / "learning_curve.csv").read_bytes()
    before = metrics_of(first)
    assert printed["energy_joules"] == pytest.approx(before["energy_joules"], rel=1e-12)
    assert printed["accuracy"] == before["accuracy"]
    assert printed["snr_db"] == before["snr_db"]
    assert printed["privacy"][0]["epsilon"] == pytest.approx(before["privacy"][0]["epsilon"], rel=1e-12)
    assert (tmp_path / "again" / "scenario.toml").read_bytes() == (first / "scenario.toml").read_bytes()


@pytest.mark.long
def test_several_seeds(airmix: Airmix, small_run: SmallRun, tmp_path: Path) -> None:
    done = airmix(*IRIS, "--seeds", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    folder = tmp_path / "runs" / "paper-iris-seed7-x2"
    assert printed == {**metrics_of(folder), "report": "runs/paper-iris-seed7-x2/report.html"}
    assert [run["seed"] for run in printed["runs"]] == [7, 8]
    single = metrics_of(small_run[1] / "runs" / "paper-iris-seed7")
    assert without_times(printed["runs"][0]) == without_times(single)
    for run in printed["runs"]:
        own = tmp_path / run["run_dir"]
        assert own == folder / f"seed-{run['seed']}"
        assert {entry.name for entry in own.iterdir()} == FILES
        assert metrics_of(own) == run
        assert Scenario.load(own / "scenario.toml").seed == run["seed"]
    first, second = (run["accuracy"]["final"] for run in printed["runs"])
    assert printed["accuracy"]["final"] == pytest.approx((first + second) / 2)
    assert printed["score_deviations"]["final"] == pytest.approx(abs(first - second) / math.sqrt(2))
    energies = [run["energy_joules"] for run in printed["runs"]]
    assert energies[0] != energies[1]
    assert printed["energy_joules"] == pytest.approx(sum(energies) / 2)
    assert printed["privacy"][0]["epsilon"] == max(run["privacy"][0]["epsilon"] for run in printed["runs"])
    assert printed["seconds"] == pytest.approx(sum(run["seconds"] for run in printed["runs"]))
    assert Scenario.load(folder / "scenario.toml").seed == 7  # what was asked lies beside what came of it


def test_the_ledger_in_the_run_folder(small_run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, folder = small_run
    run = folder / "runs" / "paper-iris-seed7"
    ledger = np.load(run / "ledger.npz")
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    assert ledger["participations"].sum() == 200 * 8
    assert ledger["epsilon"].max() == pytest.approx(metrics["ledger"]["worst_epsilon"], rel=1e-12)
    assert np.median(ledger["epsilon"]) == pytest.approx(metrics["ledger"]["median_epsilon"], rel=1e-12)
    assert (ledger["received_watts"] > 0).tolist() == (ledger["participations"] > 0).tolist()
    named = {(each["adversary"], each["accountant"]) for each in metrics["privacy"]}
    assert {("release", "pld"), ("release", "rdp"), ("server", "pld"), ("eavesdropper", "pld")} <= named
