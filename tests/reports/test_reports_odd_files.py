"""Folders whose files were changed by hand: one line that names the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from airmixml import RunFolderError
from airmixml.reports import write_report

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
def test_a_curve_that_is_none(content: str, copy_of: CopyOf) -> None:
    folder = copy_of("run")
    (folder / "learning_curve.csv").write_bytes(content.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(RunFolderError, match=r"learning_curve\.csv: does not hold what airmix wrote"):
        write_report(folder)


@pytest.mark.parametrize("losses", [("1e17", "1e17"), ("0", "5e-324"), ("-1e308", "1e308"), ("7", "7")])
def test_losses_of_any_size_are_drawn(losses: tuple[str, str], copy_of: CopyOf) -> None:
    folder = copy_of("run")
    rows = "".join(f"{epoch},{loss},0.5\n" for epoch, loss in enumerate(losses, start=1))
    (folder / "learning_curve.csv").write_text(HEADER + rows, encoding="utf-8")
    assert "Learning curve" in write_report(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [b"", b"PK garbage", None])
def test_a_ledger_that_is_none(content: bytes | None, copy_of: CopyOf) -> None:
    folder = copy_of("run")
    (folder / "figures" / "privacy.png").unlink(missing_ok=True)
    if content is None:
        np.savez(folder / "ledger.npz", epsilon=np.array([np.nan]))
    else:
        (folder / "ledger.npz").write_bytes(content)
    with pytest.raises(RunFolderError, match=r"ledger\.npz: does not hold what airmix wrote"):
        write_report(folder, drawn=True)


def test_a_folder_with_a_picture_of_its_ledger_shows_it_once(copy_of: CopyOf) -> None:
    """As earlier versions drew it with every run."""
    folder = copy_of("run")
    shutil.copy(folder / "figures" / "overview.png", folder / "figures" / "privacy.png")
    html = write_report(folder, drawn=True).read_text(encoding="utf-8")
    assert html.count("data:image/png") == 2


def test_numbers_beyond_a_double(copy_of: CopyOf) -> None:
    folder = copy_of("run")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    (folder / "metrics.json").write_text(json.dumps({**metrics, "air_seconds": 10**400}), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"metrics\.json: does not hold what airmix wrote"):
        write_report(folder)


def test_another_scenario(copy_of: CopyOf) -> None:
    folder = copy_of("run")
    (folder / "scenario.toml").write_text('[workers]\ncount = 0\ndataset = "nosuch.csv"\n', encoding="utf-8")
    with pytest.raises(RunFolderError, match="does not hold what airmix wrote"):
        write_report(folder)
