"""A folder that is damaged, odd or not a file where one should be costs its own row, and no other."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from airmixml import Scenario
from airmixml.explore.run_book import NOTES, RunBook, plain_curve
from airmixml.messages import RunFolderError
from airmixml.reports.pages import read_curve
from airmixml.runs import run

MEMBER = "loss.npy"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "good"
    small = Scenario.preset("paper-iris").with_overrides("radio.slots=100", "learner.epochs=6")
    run(small, out=folder, pictures=False)
    return folder


@pytest.fixture
def runs(tmp_path: Path, finished: Path) -> Path:
    """The runs folder with one good run in it."""
    shutil.copytree(finished, tmp_path / "runs" / "good")
    return tmp_path / "runs"


@pytest.fixture
def states(client: TestClient) -> Callable[[], dict[str, str]]:
    def listed() -> dict[str, str]:
        answer = client.get("/api/runs")
        assert answer.status_code == 200, answer.text
        return {each["name"]: each["state"] for each in answer.json()["runs"]}

    return listed


def checkpoint(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def spoilt_member() -> bytes:
    """An archive whose directory is whole and whose first file is not."""
    content = bytearray(checkpoint(loss=np.zeros((9, 1)), test_accuracy=np.zeros((9, 1))))
    start = content.index(b"\x93NUMPY")
    content[start : start + 60] = b"x" * 60
    return bytes(content)


def member(text: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(MEMBER, text)
        archive.writestr("test_accuracy.npy", text)
    return content.getvalue()


ONE = np.zeros((1, 1))
CHECKPOINTS = {
    "empty": b"",
    "no archive": b"no such thing",
    "half an archive": checkpoint(loss=ONE, test_accuracy=ONE)[:200],
    "a spoilt member": spoilt_member(),
    "no arrays": member(b"x"),
    "too large": member(
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999, 1)}"
    ),
    "one array": checkpoint(loss=ONE),
    "a number": checkpoint(loss=1.0, test_accuracy=1.0),
    "text": checkpoint(loss=np.array([["a"]]), test_accuracy=ONE),
    "complex": checkpoint(loss=ONE * 1j, test_accuracy=ONE),
    "other shapes": checkpoint(loss=np.zeros((0, 3, 2)), test_accuracy=np.zeros((3,))),
}


@pytest.mark.parametrize("content", CHECKPOINTS.values(), ids=CHECKPOINTS.keys())
def test_a_damaged_checkpoint_is_told_of(client: TestClient, tmp_path: Path, content: bytes) -> None:
    partial = tmp_path / "runs" / "x.partial"
    partial.mkdir(parents=True)
    (partial / "checkpoint.npz").write_bytes(content)
    answer = client.get("/api/runs/x")
    assert answer.status_code == 200, answer.text
    assert answer.json()["curve"]["score"] == []
    assert "checkpoint.npz: does not hold what airmix wrote" in answer.json()["line"]


CURVES = {
    "words": b"epoch,training_loss,test_accuracy\n1,low,high\n",
    "no epoch": b"step,training_loss\n1,0.5\n",
    "too long a row": b"epoch,training_loss\n1,0.5,0.6,0.7\n",
    "huge": b"epoch,training_loss\n" + b"9" * 5000 + b",0.5\n",
    "no text": b"epoch,training_loss\n1,\xff\xfe\n",
    "a long field": b"epoch,training_loss\n1," + b"1" * 200_000 + b"\n",
}


@pytest.mark.parametrize("content", CURVES.values(), ids=CURVES.keys())
def test_a_curve_without_numbers_is_told_of(client: TestClient, runs: Path, content: bytes) -> None:
    (runs / "good" / "learning_curve.csv").write_bytes(content)
    answer = client.get("/api/runs/good")
    assert answer.status_code == 200, answer.text
    assert answer.json()["curve"] == plain_curve()
    assert "learning_curve.csv: does not hold what airmix wrote" in answer.json()["line"]
    assert answer.json()["facts"]["data"] == "iris", "what came out is still shown"
    with pytest.raises(RunFolderError, match="does not hold what airmix wrote"):
        read_curve(runs / "good")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_pipes_hold_up_nothing(
    client: TestClient, runs: Path, finished: Path, states: Callable[[], dict[str, str]]
) -> None:
    """Whoever opens a pipe that nobody writes waits without end."""
    shutil.copytree(finished, runs / "piped")
    (runs / "piped" / "learning_curve.csv").unlink()
    (runs / "begun.partial").mkdir()
    (runs / NOTES).mkdir()
    for pipe in ("piped/learning_curve.csv", "begun.partial/checkpoint.npz", f"{NOTES}/begun.log", "data.csv"):
        os.mkfifo(runs / pipe)
    assert states() == {"good": "finished", "piped": "finished", "begun": "interrupted"}
    assert "learning_curve.csv: cannot be read (not a regular file" in client.get("/api/runs/piped").json()["line"]
    assert "checkpoint.npz" in client.get("/api/runs/begun").json()["line"]
    assert len(client.get("/api/runs/good").json()["curve"]["score"]) == 6
    asked = {"preset": "private-table", "overrides": {"workers.dataset": str(runs / "data.csv")}, "light": True}
    answer = client.post("/api/design", json=asked)
    assert "data.csv" in json.loads(answer.text.splitlines()[0])["line"]


def test_a_pipe_is_no_log(tmp_path: Path) -> None:
    book = RunBook(tmp_path)
    (tmp_path / NOTES).mkdir()
    os.mkfifo(tmp_path / NOTES / "paper-iris-seed0.log")
    try:
        book.start(Scenario.preset("paper-iris").with_overrides("privacy.accountant=gdp"))  # which is refused
    finally:
        book.close()
    assert (tmp_path / NOTES / "paper-iris-seed0.log").is_file()


def test_a_name_that_is_no_text_costs_its_own_row(
    client: TestClient, runs: Path, finished: Path, states: Callable[[], dict[str, str]]
) -> None:
    odd = os.fsdecode(b"caf\xe9")
    for name in (odd, "n" * 230, "back\\slash"):
        shutil.copytree(finished, runs / name)
    (runs / os.fsdecode(b"begun\xff.partial")).mkdir()
    assert states() == {
        "good": "finished",
        "caf\\udce9": "unreadable",
        "begun\\udcff": "unreadable",
        "n" * 230: "unreadable",
        "back\\slash": "unreadable",
    }
    rows = {each["name"]: each for each in client.get("/api/runs").json()["runs"]}
    assert rows["caf\\udce9"]["line"] == "'caf\\udce9': is no UTF-8; rename the folder"


def test_what_may_not_be_read_costs_its_own_row(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / "closed").mkdir()
    stat = os.stat

    def refusing(path: Any, *arguments: Any, **options: Any) -> os.stat_result:  # root may read everything
        if "closed" in str(path).split(os.sep)[:-1]:
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refusing)
    rows = {each["name"]: each for each in RunBook(runs).listed()}
    assert rows["closed"]["state"] == "unreadable"
    assert rows["closed"]["line"] == "cannot be read (Permission denied)"
    assert rows["good"]["state"] == "finished"


def test_links_in_a_circle_are_no_run(runs: Path, states: Callable[[], dict[str, str]], client: TestClient) -> None:
    (runs / "circle").symlink_to(runs / "circle")
    (runs / NOTES).mkdir()
    (runs / NOTES / "circle.toml").write_text("")
    assert states() == {"good": "finished"}
    assert client.get("/api/runs/circle").status_code == 400


METRICS = [
    "[]",
    "null",
    '{"mode": "protection"}',
    '{"runs": 5}',
    "[" * 100_000,
    '{"name": "\\ud800"}',
    "9" * 5000,
]


@pytest.mark.parametrize("content", METRICS)
def test_changed_results_are_told_of(client: TestClient, runs: Path, content: str) -> None:
    (runs / "good" / "metrics.json").write_text(content)
    answer = client.get("/api/runs/good")
    assert answer.status_code == 200, answer.text
    assert answer.json()["line"]
    assert "facts" not in answer.json()


@pytest.mark.parametrize("value", ['"\\ud800"', "1e308", "-1", "NaN", "Infinity", "null", "[]", '"a"', "9" * 400])
def test_any_changed_value_is_told_of_or_shown(client: TestClient, runs: Path, value: str) -> None:
    path = runs / "good" / "metrics.json"
    plain = json.loads(path.read_text())
    for key in plain:
        path.write_text(json.dumps({**plain, key: "HERE"}).replace('"HERE"', value))
        answer = client.get("/api/runs/good")
        assert answer.status_code == 200, (key, answer.text)
        assert {"line", "facts"} & set(answer.json())


@pytest.mark.parametrize(("key", "command"), [("feasible", "plan"), ("audits", "audit"), ("naming_bound", "attack")])
def test_results_of_other_commands_are_named(client: TestClient, runs: Path, key: str, command: str) -> None:
    """Their folders are whole, so nothing advises to delete them."""
    (runs / "good" / "metrics.json").write_text(json.dumps({key: []}))
    assert client.get("/api/runs/good").json()["line"] == f"results of airmix {command}"
