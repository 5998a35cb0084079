"""Folders that a stranger made: they use up no memory, and lead to no file outside."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from airmixml import Scenario
from airmixml.explore.run_book import NOTES, RunBook, plain_curve
from airmixml.files import open_within
from airmixml.messages import AirMixError
from airmixml.runs.model_files import CHECKPOINT

LARGE = 40_000_000
MOST_MEMORY = 24_000_000


def sparse(folder: Path) -> None:
    with (folder / "x.partial" / CHECKPOINT).open("wb") as file:
        file.truncate(10 * LARGE)


def packed(folder: Path) -> None:
    """Zeros, of which a few kilobytes are kept."""
    zeros = io.BytesIO()
    np.save(zeros, np.zeros((LARGE // 8, 1)))
    with zipfile.ZipFile(folder / "x.partial" / CHECKPOINT, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("loss", "test_accuracy"):
            archive.writestr(f"{name}.npy", zeros.getvalue())


def claimed(folder: Path) -> None:
    """Archives whose table of contents is said to be most of the file."""
    sparse(folder)
    with (folder / "x.partial" / CHECKPOINT).open("r+b") as file:
        file.seek(0, os.SEEK_END)
        size = (9 * LARGE).to_bytes(4, "little")
        file.write(b"PK\x05\x06" + bytes(4) + b"\x01\x00" * 2 + size + bytes(4) + b"\x00\x00")


def long_curve(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "metrics.json").write_text("{}")
    (folder / "x" / "learning_curve.csv").write_text("epoch,training_loss\n" + "1,1\n" * (LARGE // 40))


def long_result(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "metrics.json").write_text('{"a": [' + "[]," * (LARGE // 4) + "[]]}")


@pytest.mark.parametrize("make", [sparse, packed, claimed, long_curve, long_result])
def test_a_small_folder_uses_up_no_memory(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "x.partial").mkdir()
    make(tmp_path)
    book = RunBook(tmp_path)
    tracemalloc.start()
    try:
        told = book.told("x")
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    assert told["line"]
    assert told["curve"]["loss"] == []


def test_numbers_of_any_width_are_shown(tmp_path: Path) -> None:
    (tmp_path / "x.partial").mkdir()
    content = io.BytesIO()
    np.savez(content, loss=np.full((3, 1), 0.5, np.longdouble), test_accuracy=np.full((3, 1), 0.25, np.float16))
    (tmp_path / "x.partial" / CHECKPOINT).write_bytes(content.getvalue())
    curve = RunBook(tmp_path).told("x")["curve"]
    assert json.loads(json.dumps(curve)) == plain_curve([0.5] * 3, [0.25] * 3)


@pytest.mark.parametrize("line", [", of ,", "1 of ,", ",1 of 2", f"{'9' * 5000} of 1"])
def test_an_odd_log_costs_no_row(tmp_path: Path, line: str) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.partial").mkdir()
    (tmp_path / NOTES).mkdir()
    (tmp_path / NOTES / "x.log").write_text(f"airmix: stage: {line}\n")
    rows = {each["name"]: each["state"] for each in RunBook(tmp_path).listed()}
    assert rows == {"x": "interrupted", "y": "interrupted"}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "runs" / "x").mkdir(parents=True)
    for name in ("metrics.json", "scenario.toml"):
        (tmp_path / "runs" / "x" / name).write_text("{}")
    return tmp_path / "outside"


def test_no_file_is_read_through_a_link(client: TestClient, tmp_path: Path, outside: Path) -> None:
    folder = tmp_path / "runs" / "x"
    (outside / "secret.png").write_bytes(b"secret")
    (outside / "curve.csv").write_text("epoch,test_secret\n1,0.4242\n")
    (folder / "figures").symlink_to(outside)
    (folder / "learning_curve.csv").symlink_to(outside / "curve.csv")
    (folder / "report.html").symlink_to(outside / "secret.png")
    told = client.get("/api/runs/x").json()
    assert not told["report"]
    assert told["curve"]["score"] == []
    client.follow_redirects = True
    for place in ("figures/secret.png", "report.html"):
        answer = client.get(f"/runs/x/{place}")
        assert (answer.status_code, answer.content == b"secret") == (400, False)


def test_a_file_is_opened_where_it_was_looked_for(tmp_path: Path, outside: Path) -> None:
    """Links are refused by the opening itself: whatever was looked at before may have been changed since."""
    runs = tmp_path / "runs"
    (outside / "a.txt").write_text("secret")
    (runs / "x" / "a.txt").write_text("own")
    with open_within(runs, runs / "x" / "a.txt") as file:
        assert file.read() == b"own"
    (runs / "x" / "file").symlink_to(outside / "a.txt")
    (runs / "folder").symlink_to(outside)
    for path in (runs / "x" / "file", runs / "folder" / "a.txt"):
        with pytest.raises(OSError, match="a link, which is not followed"):
            open_within(runs, path)
    with pytest.raises(FileNotFoundError):
        open_within(runs, runs / "x" / "b.txt")


def test_linked_notes_are_neither_read_nor_removed(tmp_path: Path, outside: Path) -> None:
    for name in ("mine.toml", "mine.log"):
        (outside / name).write_text("airmix: error: a secret\n")
    (tmp_path / "runs" / NOTES).symlink_to(outside)
    book = RunBook(tmp_path / "runs")
    for act in (lambda: book.resume("mine"), lambda: book.start(Scenario.preset("paper-iris"))):
        with pytest.raises(AirMixError, match="is a link"):
            act()
    rows = book.listed()
    assert [each["name"] for each in rows] == ["x"]
    assert "secret" not in str(rows)
    assert sorted(each.name for each in outside.iterdir()) == ["mine.log", "mine.toml"]
