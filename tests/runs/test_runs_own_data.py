"""A user's own data on every channel profile: what a run leaves is read back, before and after anything is sent."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import airmixml
from airmixml import RunFolderError, Scenario, load_model
from airmixml.budgets import LedgerFile
from airmixml.estimator import AirMixClassifier
from airmixml.messages import LeftoverWarning
from airmixml.reports import write_report
from airmixml.runs.results import ProtectedResult
from airmixml.scenario import AIR_PRESETS
from airmixml.storage.folders import RunFolder

Airmix = Callable[..., subprocess.CompletedProcess[str]]
run = partial(airmixml.run, pictures=False)

ROWS = 90
RNG = np.random.default_rng(4)
CLASSES = np.arange(ROWS) % 2
INPUTS = np.clip(RNG.normal(3.0 + 4.0 * CLASSES[:, None], 1.0, (ROWS, 2)), 0.0, 10.0)
IMAGES = RNG.integers(0, 256, (ROWS, 8, 8), dtype=np.uint8)
TABLE = """
extends = "private-table"
name = "own"
[workers]
dataset = "rows.csv"
{keys}
[workers.bounds]
height = [0, 10]
weight = [0, 10]
{categories}
[privacy]
epsilon = 20
[air]
preset = "{air}"
"""
KEYS = {
    "table": 'label_column = "kind"\nclasses = ["cat", "dog"]',
    "categories": 'label_column = "kind"\nclasses = ["cat", "dog"]\nmissing = "fill"',
    "several rows": 'label_column = "kind"\nclasses = ["cat", "dog"]\nworker_column = "owner"',
    "regression": 'label_column = "age"\ntask = "regression"\ntarget_lower = [0]\ntarget_upper = [20]',
}
ARRAYS = {
    "arrays": ("private-table", {"inputs": INPUTS}),
    "images": ("private-images", {"inputs": IMAGES}),
}


def own_scenario(kind: str, air: str) -> Scenario:
    """Write the rows into the working folder and return a scenario for them."""
    if kind in KEYS:
        lines = (
            f"{x:.3f},{y:.3f},{('red', 'green')[n % 2]},{n // 2},{x + y:.3f},{('cat', 'dog')[n % 2]}"
            for n, (x, y) in enumerate(INPUTS)
        )
        Path("rows.csv").write_text("\n".join(["height,weight,colour,owner,age,kind", *lines]) + "\n")
        categories = '[workers.categories]\ncolour = ["red", "green"]' if kind == "categories" else ""
        return Scenario.from_toml(TABLE.format(keys=KEYS[kind], categories=categories, air=air))
    preset, arrays = ARRAYS[kind]
    np.savez("rows.npz", labels=CLASSES, **arrays)
    own = ("workers.dataset=rows.npz", "workers.classes=0,1", "privacy.epsilon=20")
    more = ("workers.features=8",) if kind == "images" else ("workers.input_lower=0", "workers.input_upper=10")
    return Scenario.preset(preset).with_overrides(*own, *more).on_air(air)


def raw_rows(kind: str, count: int = 6) -> Any:
    if kind == "images":
        return IMAGES[:count]
    if kind == "categories":  # a category is one input of 0 or 1 for each
        return np.hstack([INPUTS[:count], np.eye(2)[np.arange(count) % 2]])
    return INPUTS[:count]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ledger() -> LedgerFile:
    return LedgerFile.create(Path("b.sqlite"), epsilon=100.0, delta=0.1)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("kind", "air"),
    [
        pytest.param(kind, air, marks=[] if kind == "table" or air == "campus" else pytest.mark.long)
        for kind in (*KEYS, *ARRAYS)
        for air in AIR_PRESETS
    ],
)
def test_own_data_on_every_profile_can_be_read_and_predicted_with(kind: str, air: str, ledger: LedgerFile) -> None:
    result = run(own_scenario(kind, air), private=True, ledger=ledger.path, out="run")
    stored = Scenario.load("run/scenario.toml")
    assert (stored.air.preset, stored.workers.dataset[:5]) == (air, "rows.")
    assert airmixml.load_metrics("run") == result.to_dict()
    assert len(load_model("run").predict(raw_rows(kind))) == 6
    assert air in write_report("run").read_text(encoding="utf-8")
    assert [each.state for each in ledger.entries()] == ["spent"]


@pytest.mark.filterwarnings("ignore:protected fits are repeated")
@pytest.mark.parametrize("air", AIR_PRESETS)
def test_a_frame_is_learnt_on_every_profile(air: str) -> None:
    frame = pd.DataFrame(INPUTS, columns=["height", "weight"])
    bounds = {"height": (0, 10), "weight": (0, 10)}
    model = AirMixClassifier(epsilon=20.0, input_bounds=bounds, classes=("cat", "dog"), air=air)
    assert set(model.fit(frame, np.array(["cat", "dog"])[CLASSES]).predict(frame)) <= {"cat", "dog"}


@pytest.mark.parametrize("air", AIR_PRESETS)
@pytest.mark.parametrize("kind", [*KEYS, *ARRAYS])
def test_every_own_scenario_is_stored_as_it_is(kind: str, air: str) -> None:
    own = own_scenario(kind, air)
    for scenario in (own, airmixml.settle(own)):
        assert Scenario.from_toml(scenario.to_toml()) == scenario


@pytest.mark.long
def test_commands_on_campus_end_well(airmix: Airmix) -> None:
    """Every one of these ended in a traceback, after the ledger was charged."""
    Path("own.toml").write_text(own_scenario("table", "campus").to_toml())
    airmix("ledger", "create", "b.sqlite", "--epsilon", "100", "--delta", "0.1")
    command = ("run", "own.toml", "--private", "--ledger", "b.sqlite", "--out", "run")
    done = airmix(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "report: run/report.html" in done.stdout
    assert "finished before and shown again" in airmix(*command).stderr
    for reads in (("predict", "run", "rows.csv"), ("report", "run")):
        assert airmix(*reads).returncode == 0, reads


def test_a_folder_that_could_not_be_read_gets_its_report(airmix: Airmix) -> None:
    """What the old version left: everything but the report, and a scenario that it could not read itself."""
    run(own_scenario("table", "campus"), private=True, out="run")
    assert "[radio]" in Path("run/scenario.toml").read_text()
    assert not Path("run/report.html").exists()
    assert airmix("report", "run").returncode == 0
    assert "campus" in Path("run/report.html").read_text(encoding="utf-8")


def broken(*_given: object, **_how: object) -> None:
    raise KeyError("scheduled")


@pytest.mark.parametrize(
    "reader",
    [
        "airmixml.runs.read_back.Scenario.load",
        "airmixml.runs.read_back.run_page",
        "airmixml.runs.read_back.read_model",
        "airmixml.runs.read_back.load_result",
    ],
)
def test_what_cannot_be_read_again_is_neither_sent_nor_charged(
    reader: str, ledger: LedgerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_scenario("table", "ideal")
    monkeypatch.setattr(reader, broken)
    with pytest.raises(RunFolderError, match=r"cannot be read again \(.*\); nothing was sent or charged"):
        run(own, private=True, ledger=ledger.path, out="run")
    assert ledger.entries() == []
    assert not list(Path().glob("run*"))


def test_a_release_does_without_what_is_not_needed_to_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airmixml.runs.pictures.draw_statements", broken)
    monkeypatch.setattr("airmixml.runs.experiment.baselines_of", broken)
    with pytest.warns(LeftoverWarning, match=r"(its picture|beside) is left out \(KeyError\)"):
        result = airmixml.run(own_scenario("arrays", "ideal"), private=True, public_test=True, out="run")
    assert result.baselines is None
    assert len(load_model("run").predict(raw_rows("arrays"))) == 6


def test_an_error_after_the_release_says_that_a_repetition_spends_and_leaves_the_model() -> None:
    def full(_folder: RunFolder) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/report.html")

    own = own_scenario("arrays", "ideal")
    said = r"cannot be written .* counts as spent: the same command sends once more and spends epsilon again; until"
    with pytest.raises(RunFolderError, match=said):
        run(own, private=True, out="run", finish=full)
    assert len(load_model("run.partial").predict(raw_rows("arrays"))) == 6
    with pytest.raises(RunFolderError, match="to begin it anew, which spends again what it may have sent"):
        airmixml.load_metrics("run.partial")
    with pytest.raises(RunFolderError, match=r"cannot be written \(No space left on device\); free space or .* --out$"):
        run(own, out="simulated", finish=full)


def test_memory_that_ends_after_a_release_is_told_with_what_it_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object, **_how: object) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    own = own_scenario("arrays", "ideal")
    monkeypatch.setattr("airmixml.runs.experiment.write_result", full)
    with pytest.raises(RunFolderError, match=r"^not enough memory \(.* sends once more and spends epsilon again"):
        run(own, private=True, out="run")
    with pytest.raises(RuntimeError, match="CUDA"):
        run(own, out="simulated")


def test_a_run_is_no_success_before_its_files_were_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_scenario("arrays", "ideal")
    real = airmixml.runs.experiment.write_result  # type: ignore[attr-defined]

    def lossy(folder: Path, scenario: Scenario, plain: dict[str, Any]) -> None:
        real(folder, scenario, {**plain, "air_seconds": 0.0})

    monkeypatch.setattr("airmixml.runs.experiment.write_result", lossy)
    with pytest.raises(RunFolderError, match=r"cannot be read again \(the results are others\); free space"):
        run(own, out="run")
    with pytest.raises(RunFolderError, match=r"the results are others.* sends once more and spends epsilon again"):
        run(own, private=True, out="run2")
    assert not Path("run").exists()


def test_a_damaged_model_of_a_release_is_not_called_to_be_made_again_for_nothing() -> None:
    own = own_scenario("arrays", "ideal")
    assert isinstance(run(own, private=True, out="run"), ProtectedResult)
    run(own, out="simulated")
    for folder, said in (("run", ", which sends once more and spends epsilon again$"), ("simulated", "again$")):
        content = bytearray(Path(folder, "model.npz").read_bytes())
        content[len(content) // 2] ^= 255
        Path(folder, "model.npz").write_bytes(content)
        with pytest.raises(RunFolderError, match=f"run the scenario again{said.removeprefix('again')}"):
            load_model(folder)
    plain = json.loads(Path("run/metrics.json").read_text())
    Path("run/metrics.json").write_text(json.dumps({**plain, "slots": "one"}))
    with pytest.raises(RunFolderError, match="made it again, which sends again and spends again what it protects"):
        airmixml.load_metrics("run")
