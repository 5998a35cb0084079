"""``airmix plan`` for learners in closed form, as a process."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from airmixml import Scenario

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
Refused = Callable[..., str]

IRIS = ("--preset", "private-iris", "--set", "radio.scheduled=20", "--set", "workers.label_weight=0.2")


def printed_command(done: Finished) -> list[str]:
    assert done.returncode == 0, done.stderr
    assert "best for learning" in done.stdout
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("airmix run ")]
    return shlex.split(command)[1:]


@pytest.mark.long
def test_the_command_that_a_plan_prints_is_the_recommended_scenario(airmix: Airmix, tmp_path: Path) -> None:
    words = printed_command(airmix("plan", *IRIS, "--picture", "plan.svg"))
    assert words[: len(IRIS) + 1] == ["run", *IRIS]
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
    assert best["sends"] == "moments"
    assert best["max_air_seconds"] == 0.5
    assert best["air_seconds"] <= 0.5
    assert best["learning_noise_db"] < best["own"]["learning_noise_db"] - 10.0
    assert all("=" in override for override in best["overrides"])


def test_a_time_too_short_for_anything(airmix: Airmix) -> None:
    done = airmix("plan", *IRIS, "--no-picture", "--max-air-seconds", "1e-9")
    assert done.returncode == 0, done.stderr
    assert "raise --max-air-seconds" in done.stdout


def test_mistakes(refused: Refused) -> None:
    for value in ("0", "nan"):
        assert f"--max-air-seconds = {value}: must be above 0" in refused("plan", *IRIS, "--max-air-seconds", value)


def test_a_plan_of_masked_workers_says_what_to_expect(airmix: Airmix, tmp_path: Path) -> None:
    asked = ("plan", "--preset", "trustless-digits", "--set", "air.absent=0.05", "--no-picture", "--write", "mine.toml")
    done = airmix(*asked)
    assert done.returncode == 0, done.stderr
    for told in ("Workers hide themselves", "nearest worker", "noise in the sum", "as if", "colluders (10%)"):
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
    files = {"metrics.json", "scenario.toml", "plan.md", "plan.png", "report.html"}
    assert {path.name for path in (tmp_path / "here").iterdir()} == files
    assert Scenario.load(tmp_path / "here" / "scenario.toml") == Scenario.preset("paper-iris")
    assert "here: exists already" in refused("plan", "--preset", "paper-iris", "--out", "here")
    assert "--picture and --out" in refused("plan", "--preset", "paper-iris", "--out", "b", "--picture", "p.png")
    assert airmix("plan", "--preset", "paper-iris", "--out", "here", "--force", "--no-picture").returncode == 0
    assert {path.name for path in (tmp_path / "here").iterdir()} == files - {"plan.png"}
