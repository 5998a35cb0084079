"""docs/your-data.md, command after command in one folder, as a newcomer would type them."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/your-data.md").read_text(encoding="utf-8")


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which all commands were run, in their order."""
    folder = tmp_path_factory.mktemp("walk")
    (bounds,) = fenced("toml")
    (folder / "bounds.toml").write_text(bounds, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in "".join(fenced("console")).splitlines():
        done = subprocess.run(
            ["bash", "-c", line.removeprefix("$ ")],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    return folder


def test_the_trial_learns_and_the_protected_run_states_a_row(walked: Path) -> None:
    trial = json.loads((walked / "runs/trial/metrics.json").read_text(encoding="utf-8"))
    assert trial["accuracy"]["final"] > 0.8
    protected = json.loads((walked / "runs/cells/metrics.json").read_text(encoding="utf-8"))
    assert (protected["mode"], protected["accuracy"], protected["row_copies"]) == ("protection", None, 1)
    assert protected["dataset"]["train_samples"] == 569
    assert protected["privacy"][0]["epsilon"] <= 1.0
    assert protected["privacy"][0]["delta"] == pytest.approx(0.1 / 569)


def test_predictions_are_classes_and_mostly_right(walked: Path) -> None:
    with (walked / "predictions.csv").open(newline="") as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    with (walked / "cells.csv").open(newline="") as file:
        truth = [row["target"] for row in csv.DictReader(file)]
    assert set(predicted) <= {"0", "1"}
    assert sum(map(str.__eq__, predicted, truth)) > 0.75 * len(truth)
    assert (walked / "cells.onnx").stat().st_size > 1000
