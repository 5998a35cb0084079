"""Folders whose files were changed by hand: one line that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airmixml import RunFolderError
from airmixml.reports import write_report
from airmixml.reports.pages import read_curve

CopyOf = Callable[..., Path]
HEADER = "epoch,training_loss,test_accuracy\n"


@pytest.mark.parametrize(
    "content",
    [
        *(f"{HEADER}x,y,z\n", f"{HEADER}{'9' * 5000},1,1\n", f"{HEADER}1,{'1' * 200_000},1\n", "a,b\n1,2\n", "\udcff"),
        *(f"{HEADER}0,1,1\n0,1,1\n", f"{HEADER}-3,1,1\n-1,1,1\n", f"{HEADER}{'9' * 400},1,1\n"),
        "round,training_loss,test_accuracy\n-1,,0.5\n0,,0.5\n",
    ],
)
def test_a_curve_that_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "learning_curve.csv").write_bytes(content.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(RunFolderError, match=r"learning_curve\.csv: does not hold what airmix wrote"):
        read_curve(tmp_path)


def test_numbers_beyond_a_double(copy_of: CopyOf) -> None:
    folder = copy_of("run")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    (folder / "metrics.json").write_text(json.dumps({**metrics, "air_seconds": 10**400}), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"metrics\.json: does not hold what airmix wrote"):
        write_report(folder)


def test_a_word_where_a_number_should_be_is_named(copy_of: CopyOf) -> None:
    folder = copy_of("run")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    metrics["accuracy"]["final"] = "x"
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"\(final = 'x': must be float\); .* run the command that made it again"):
        write_report(folder)


def test_another_scenario(copy_of: CopyOf) -> None:
    folder = copy_of("run")
    (folder / "scenario.toml").write_text('[workers]\ncount = 0\ndataset = "nosuch.csv"\n', encoding="utf-8")
    with pytest.raises(RunFolderError, match="does not hold what airmix wrote"):
        write_report(folder)
