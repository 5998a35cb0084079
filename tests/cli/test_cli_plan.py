"""``airmix plan`` for learners in closed form, as a process."""

import json
import shlex
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from sklearn.datasets import load_digits

from airmixml import Scenario

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
Refused = Callable[..., str]

IRIS = ("--preset", "private-iris", "--set", "radio.scheduled=20", "--set", "workers.label_weight=0.2")


def printed_command(done: Finished) -> list[str]:
    assert done.returncode == 0, done.stderr
    assert "run it with:" in done.stdout
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("airmix run ")]
    return shlex.split(command)[1:]


@pytest.mark.long
def test_the_command_that_a_plan_prints_is_the_recommended_scenario(airmix: Airmix, tmp_path: Path) -> None:
    words = printed_command(airmix("plan", *IRIS, "--picture", "plan.svg"))
    assert words[:3] == ["run", *IRIS[:2]]
    keys = [each.partition("=")[0] for each in words[4::2]]
    assert len(set(keys)) == len(keys)
    scenario = Scenario.preset("private-iris").with_overrides(*words[4::2])
    assert (scenario.radio.scheduled, scenario.mixing.power, scenario.privacy.epsilon) == (2000, "dp", 5.0)
    assert scenario.workers.label_weight > 0.2
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.long
def test_the_command_that_a_plan_prints_runs(airmix: Airmix) -> None:
    run = airmix(*printed_command(airmix("plan", *IRIS, "--no-picture")), "--json")
    assert run.returncode == 0, run.stderr
    metrics = json.loads(run.stdout)
    assert metrics["privacy"][0]["epsilon"] <= 5.0
    assert metrics["accuracy"]["final"] > 0.8


def test_json_has_the_overrides(airmix: Airmix) -> None:
    plan = json.loads(airmix("plan", *IRIS, "--json", "--no-picture", "--max-air-seconds", "0.5").stdout)
    best = plan["recommended"]
    assert "radio.scheduled=2000" in best["overrides"]
    assert best["max_air_seconds"] == 0.5
    assert plan["of_recommended"]["air_seconds"] <= 0.5
    assert all("=" in override for override in best["overrides"])


def test_a_time_too_short_for_anything(airmix: Airmix) -> None:
    done = airmix("plan", *IRIS, "--no-picture", "--max-air-seconds", "1e-9")
    assert done.returncode == 0, done.stderr
    assert "longer on the air than --max-air-seconds" in done.stdout


def test_mistakes(refused: Refused) -> None:
    for value in ("0.0", "nan"):
        line = refused("plan", *IRIS, "--max-air-seconds", value)
        assert f"--max-air-seconds = {value}: must be a number above 0" in line
    assert "choose another --write" in refused("plan", *IRIS, "--write", "nowhere/mine.toml")


def test_a_plan_of_masked_workers_says_what_to_expect(airmix: Airmix, tmp_path: Path) -> None:
    asked = ("plan", "--preset", "trustless-digits", "--set", "air.absent=0.05", "--no-picture", "--write", "mine.toml")
    done = airmix(*asked)
    assert done.returncode == 0, done.stderr
    for told in ("Workers hide themselves", "nearest worker", "noise in the sum", "colluders (10%)"):
        assert told in done.stdout
    assert "airmix run --preset trustless-digits --set air.absent=0.05 --set privacy.most_absent=0.09" in done.stdout
    written = Scenario.from_toml((tmp_path / "mine.toml").read_text(encoding="utf-8"))
    assert written.privacy.most_absent == 0.09
    assert written.privacy.mask_degree >= 32
    assert 0.0 < written.privacy.mask_share < 1.0
    again = airmix(*asked)
    assert again.returncode == 2
    assert "--write mine.toml" in again.stderr


@pytest.mark.long
def test_a_plan_can_be_kept_in_a_folder(airmix: Airmix, refused: Refused, tmp_path: Path) -> None:
    done = airmix("plan", "--preset", "paper-iris", "--out", "here", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert (printed["run_dir"], printed["report"]) == ("here", "here/report.html")
    files = {"metrics.json", "scenario.toml", "plan.md", "report.html"}  # without other designs there is no picture
    assert {path.name for path in (tmp_path / "here").iterdir()} == files
    assert Scenario.load(tmp_path / "here" / "scenario.toml") == Scenario.preset("paper-iris")
    assert "here: exists already" in refused("plan", "--preset", "paper-iris", "--out", "here")
    assert "--picture and --out" in refused("plan", "--preset", "paper-iris", "--out", "b", "--picture", "p.png")
    assert airmix("plan", "--preset", "paper-iris", "--out", "here", "--force").returncode == 0


OWN = ("workers.dataset=digits.csv", "workers.label_column=digit", "workers.input_lower=0", "workers.input_upper=16")
DIGITS = ("--preset", "private-table", *(word for each in (*OWN, "learner.rounds=0") for word in ("--set", each)))


@pytest.mark.long
def test_rounds_are_recommended_and_the_printed_command_runs_them(airmix: Airmix, tmp_path: Path) -> None:
    inputs, labels = load_digits(return_X_y=True)
    rows = [",".join(map(str, [*row, f"d{label}"])) for row, label in zip(inputs.tolist(), labels, strict=True)]
    header = ",".join([*(f"p{number}" for number in range(64)), "digit"])
    (tmp_path / "digits.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    words = printed_command(airmix("plan", *DIGITS, "--picture", "plan.svg"))
    rounds = int(next(word for word in words[len(DIGITS) + 1 :] if "learner.rounds=" in word).partition("=")[2])
    assert rounds > 0
    assert "uplink symbols" in (tmp_path / "plan.svg").read_text(encoding="utf-8")
    metrics = json.loads(airmix(*words, "--json").stdout)
    assert metrics["rounds"]["count"] == rounds
    assert metrics["privacy"][0]["epsilon"] <= 1.0
    assert metrics["accuracy"]["final"] > 0.8


def test_a_plan_with_rounds_says_what_they_take(airmix: Airmix) -> None:
    done = airmix("plan", "--preset", "trustless-digits-rounds", "--no-picture")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for words in (
        "in 1 slot and 8 rounds",
        "in every slot, ",
        "in every round",
        "bits per round",
        "must be reachable 9 times",
    ):
        assert words in text
    plan = json.loads(airmix("plan", "--preset", "trustless-digits-rounds", "--no-picture", "--json").stdout)
    metrics = json.loads(airmix("run", "--preset", "trustless-digits-rounds", "--json").stdout)
    assert plan["energy_joules"] == pytest.approx(metrics["energy_joules"], rel=1e-3)
    assert plan["rounds"]["symbols_per_round"] == metrics["rounds"]["symbols_per_round"]
    assert plan["air_seconds"] == pytest.approx(metrics["air_seconds"], rel=1e-9)


@pytest.mark.parametrize(
    ("given", "hint"), [("0", ""), ("1", ""), ("90", "for 90 % give 0.9"), ("nan", ""), ("-3", "")]
)
def test_an_accuracy_that_is_none_is_refused(refused: Refused, given: str, hint: str) -> None:
    said = refused("plan", "--preset", "private-table", "--accuracy", given)
    assert "--accuracy = " in said
    assert "must be above 0 and below 1" in said
    assert hint in said


@pytest.mark.long
def test_a_plan_says_what_an_accuracy_takes(airmix: Airmix, tmp_path: Path) -> None:
    small = ("--preset", "private-table", "--rows", "300", "--input-dim", "5", "--label-dim", "2")
    told = airmix("plan", *small, "--accuracy", "0.8", "--out", "plan")
    assert told.returncode == 0, told.stderr
    assert "What 80 % accuracy takes" in told.stdout
    found = json.loads((tmp_path / "plan" / "metrics.json").read_text())
    assert found["wanted_accuracy"] == 0.8
    assert {each["quantity"] for each in found["needed"]} >= {"workers", "epsilon"}
    assert "What 80 % accuracy takes" in (tmp_path / "plan" / "report.html").read_text()
    assert (tmp_path / "plan" / "plan.png").is_file()


SHAPE = ("--rows", "600", "--input-dim", "4", "--label-dim", "3")


@pytest.mark.long
def test_a_plan_of_a_table_by_its_shape_ends_with_a_command_for_that_table(airmix: Airmix, tmp_path: Path) -> None:
    """With names in place of TABLE.csv, CLASS and BOUNDS.toml it runs the recommended design on the user's rows."""
    done = airmix("plan", *SHAPE, "--set", "privacy.epsilon=3", "--json", "--no-picture")
    best = json.loads(done.stdout)["recommended"]["rehearsal"]["best"]
    words = printed_command(airmix("plan", *SHAPE, "--set", "privacy.epsilon=3", "--no-picture"))
    assert {"TABLE.csv", "CLASS", "BOUNDS.toml"} <= {word.rpartition("=")[2] for word in words}
    rows = [f"{row % 7},{row % 5},{row % 3},{row % 2},k{row % 3}" for row in range(600)]
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,c,d,kind", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "limits.toml").write_text("a = [0, 7]\nb = [0, 5]\nc = [0, 3]\nd = [0, 2]\n", encoding="utf-8")
    names = {"TABLE.csv": "mine.csv", "CLASS": "kind", "BOUNDS.toml": "limits.toml"}
    for name, own in names.items():
        words = [word.replace(name, own) for word in words]
    run = airmix(*words, "--out", "out", "--json")
    assert run.returncode == 0, run.stderr
    scenario = Scenario.load(tmp_path / "out" / "scenario.toml")
    assert scenario.workers.dataset == "mine.csv"
    assert scenario.workers.count == scenario.radio.scheduled == 400  # the rest is for testing
    assert scenario.privacy.epsilon == 3.0
    assert (scenario.learner.rounds, scenario.workers.encoder) == (best["rounds"], best["encoder"])


@pytest.mark.long
def test_a_plan_by_shape_reads_no_file(airmix: Airmix, tmp_path: Path) -> None:
    text = 'extends = "private-table"\n[workers]\ndataset = "absent.csv"\n'
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    words = printed_command(airmix("plan", "mine.toml", *SHAPE, "--no-picture"))
    assert words[:2] == ["run", "mine.toml"]
    assert not any("TABLE.csv" in word for word in words)


def test_a_plan_of_nothing_says_how_to_plan_a_table_that_is_not_there_yet(refused: Refused) -> None:
    assert "--rows, --input-dim and --label-dim" in refused("plan")


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ((5000, 5, 3), ()),
        ((600, 4, 3), ("workers.clip_norm=0.8",)),
        ((600, 12, 2), ("workers.norm=clip", "workers.clip_norm=0.5")),
        ((600, 4, 2), ("workers.sends=samples",)),
        ((1000, 9, 2), ("privacy.epsilon=10",)),
    ],
)
def test_the_printed_command_and_the_written_scenario_are_one_design(
    airmix: Airmix, tmp_path: Path, shape: tuple[int, int, int], changes: tuple[str, ...]
) -> None:
    rows, inputs, classes = shape
    asked = ("--rows", f"{rows}", "--input-dim", f"{inputs}", "--label-dim", f"{classes}")
    sets = [word for each in changes for word in ("--set", each)]
    done = airmix("plan", *asked, *sets, "--no-picture", "--write", "rec.toml")
    words = printed_command(done)
    assert done.stdout.startswith(f"Plan of private-table-{rows}x{inputs}: feasible")
    assert f"so the file needs {rows * 3 // 2:,} rows" in done.stdout
    assert "your data may be easier or harder" in " ".join(done.stdout.split())
    told = [value for word, value in pairwise(words) if word == "--set"]
    written = Scenario.load(tmp_path / "rec.toml").settled(rows, inputs)
    assert Scenario.preset("private-table").with_overrides(*told).settled(rows, inputs) == written


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (("workers.task=regression", "workers.target_lower=0", "workers.target_upper=1"), "the task is regression"),
        (("workers.worker_column=who",), "workers have several rows each"),
    ],
)
def test_a_plan_says_why_it_expects_no_accuracy(airmix: Airmix, changes: tuple[str, ...], why: str) -> None:
    own = ("workers.dataset=TABLE.csv", "workers.label_column=y", *changes)
    keys = [word for each in own for word in ("--set", each)]
    shape = ("--rows", "300", "--input-dim", "4", "--label-dim", "1" if "regression" in why else "2")
    done = airmix("plan", "--preset", "private-table", *keys, *shape, "--no-picture")
    assert done.returncode == 0, done.stderr
    assert f"no accuracy is expected: that is for classes with one row per worker; {why}" in " ".join(
        done.stdout.split()
    )
