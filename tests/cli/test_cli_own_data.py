"""A user's CSV file from end to end, and names that would upset the table or the pictures."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from airmixml.cli.main import main

Airmix = Callable[..., subprocess.CompletedProcess[str]]
DRAWN = True


@pytest.fixture
def clouds(tmp_path: Path) -> Path:
    """Write two clouds of 45 points each in the plane, far apart, and one point outside the declared bounds."""
    rng = np.random.default_rng(0)
    path = tmp_path / "my clouds [1].csv"
    with path.open("w") as file:
        file.write("height,width,note,kind\n")
        for kind, centre in (("low", -5.0), ("high", 5.0)):
            file.writelines(f"{x:.3f},{y:.3f},text,{kind}\n" for x, y in centre + rng.standard_normal((45, 2)))
        file.write("12,5,text,high\n")
    return path


OWN = """
name = "two clouds"
[workers]
dataset = "my clouds [1].csv"
count = 60
train_samples = 61
label_column = "kind"
feature_columns = ["height", "width"]
input_lower = [-10]
input_upper = [10, 10]
[radio]
slots = 300
scheduled = 2
[mixing]
policy = "nonmix"
power = "max"
[learner]
hidden_units = [8]
epochs = 30
learning_rate = 0.01
"""


def test_a_run_of_a_file_says_where_it_can_be_made_again(
    airmix: Airmix, airmix_in: Airmix, clouds: Path, tmp_path: Path
) -> None:
    """Relative paths start where a command is run, and not in the folder of the scenario."""
    (tmp_path / "mine.toml").write_text(OWN)
    assert airmix("run", "mine.toml", "--out", "runs/trial").returncode == 0
    report = (tmp_path / "runs" / "trial" / "report.html").read_text(encoding="utf-8")
    assert f"in the folder from which {clouds.name} can be read" in report
    assert str(tmp_path) not in report
    missing = airmix_in("run", "scenario.toml", "--out", "x", cwd=tmp_path / "runs" / "trial").stderr
    assert f"{clouds.name}: cannot be read (No such file or directory); " in missing
    assert "folder, trial; change the folder, or workers.dataset" in missing
    assert "CSV" not in missing
    assert airmix("run", "runs/trial/scenario.toml", "--out", "x").returncode == 0
    absent = f"workers.dataset={tmp_path / 'absent.csv'}"
    assert "must name a CSV or NPZ file" in airmix("run", "mine.toml", "--set", absent, "--out", "y").stderr


def test_a_csv_file_from_end_to_end(airmix: Airmix, clouds: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    done = airmix("run", "mine.toml", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    metrics = json.loads(done.stdout)
    assert metrics["run_dir"] == "runs/two clouds-seed0"
    assert metrics["dataset"] == {
        "name": clouds.name,
        "train_samples": 61,
        "test_samples": 30,
        "input_dim": 2,
        "label_dim": 2,
    }
    assert metrics["clipped_values"] == 1
    assert metrics["accuracy"]["final"] == 1.0  # ten standard deviations lie between the clouds
    assert metrics["privacy"][0]["sensitivity"] == 2 + 2
    assert metrics["privacy"][0]["target_epsilon"] is None


@pytest.mark.long
def test_odd_names_reach_the_table_and_the_pictures_as_they_are(airmix: Airmix, tmp_path: Path) -> None:
    name, out = "$x^$ [bold]x 日本 😀", "odd [/red] folder"
    small = ("--set", "radio.slots=10", "--set", "learner.epochs=1")
    done = airmix("run", "--preset", "paper-iris", *small, f"--set=name={name}", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{name}, seed 0" in done.stdout
    assert f"{out}/report.html" in done.stdout
    assert (tmp_path / out / "figures" / "overview.png").stat().st_size > 10_000


@pytest.mark.long
def test_a_terminal_without_greek_letters_still_gets_its_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    arguments = "run --preset private-iris --seeds 2"
    monkeypatch.setattr(sys, "argv", ["airmix", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert ended.value.code == 0
    assert b"runs/private-iris-seed0-x2" in printed.getvalue()


def test_init_quotes_no_cell_and_names_its_own_option(refused: Callable[..., str], tmp_path: Path) -> None:
    lines = [f"{n % 9},{-9.06 + n / 7:.2f}" for n in range(60)]
    (tmp_path / "meter.csv").write_text("\n".join(["a,kwh", *lines]) + "\n")
    line = refused("init", "meter.csv", "--label", "kwh")
    assert "predict numbers by --task regression (no row or value is shown; the owner sees them with" in line
    assert "-9.06" not in line
    assert "workers.task" not in line
    assert "60 different labels in 60 samples, such as '-9.06'" in refused("init", "meter.csv", "--show-values")


def test_cells_that_are_no_numbers_are_refused_from_init_to_predict(
    airmix: Airmix, refused: Callable[..., str], tmp_path: Path
) -> None:
    """One line names the column and a cell; the file with plain numbers then goes all the way."""
    rows = [(2 + n % 7 + 2 * (n % 2), 20.5 + n % 9, "no" if n % 2 else "yes") for n in range(60)]
    for name, form in ("units", "{} kg"), ("plain", "{}"):
        lines = [f"{form.format(size)};{age};{answer}" for size, age, answer in rows]
        (tmp_path / f"{name}.csv").write_text("size;age;ok\n" + "\n".join(lines) + "\n")
    known = ("--label", "ok", "--column", "size=0,20", "--column", "age=0,100")
    assert airmix("init", "units.csv", *known).returncode == 0
    assert "units.csv: row 2, column 'size': '2 kg' is not a finite number" in refused("run", "units.toml")
    assert airmix("init", "plain.csv", *known).returncode == 0
    assert airmix("run", "plain.toml", "--out", "run", "--json").returncode == 0
    assert airmix("predict", "run", "plain.csv", "--out", "predictions.csv").returncode == 0
    line = refused("predict", "run", "units.csv", "--out", "other.csv")
    assert "units.csv: row 2, column 'size': '2 kg' is not a finite number; correct it or remove the row" in line
