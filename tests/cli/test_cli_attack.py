"""``airmix attack``."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from airmixml.attacks import choose_parts
from airmixml.attacks.run_attacks import run_attacks
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.workers import settle

Airmix = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]
Refused = Callable[..., str]
IRIS = ("attack", "--preset", "paper-iris", "--set", "workers.count=40", "--set", "radio.slots=80")
FOUR = ("--attacks", "least-squares,prior,release,eavesdropper")
ALL = (*IRIS, "--set", "mixing.power=max", *FOUR, "--out", "here")


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_seconds(inner) for key, inner in value.items() if "seconds" not in key}
    return [without_seconds(inner) for inner in value] if isinstance(value, list) else value


# The real command, but it halts before the attack whose number is in $HALT_AT.
HALTING = """
import os, signal
from airmixml.attacks.listener_attacks import ListenerAttack
from airmixml.attacks.server_attacks import ServerAttack
from airmixml.cli.main import main
calls = []
def halt(kind):
    run = kind.run
    def halting(self, target):
        calls.append(self)
        if len(calls) == int(os.environ["HALT_AT"]):
            print("halted", flush=True)
            signal.pause()
        return run(self, target)
    kind.run = halting
halt(ListenerAttack)
halt(ServerAttack)
main()
"""


@pytest.mark.long
def test_kill_9_half_way_and_going_on(airmix: Airmix, start_python: Start, tmp_path: Path) -> None:
    child = start_python("-c", HALTING, *ALL, "--json", environment={"HALT_AT": "3"})
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "halted\n", child.communicate()
        second = airmix(*ALL)  # while the first still runs
        assert (second.returncode, second.stdout) == (2, "")
        assert "here.partial: another process is writing it" in second.stderr
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert [entry.name for entry in tmp_path.iterdir()] == ["here.partial"]
    kept = {path.name: path.stat().st_ino for path in (tmp_path / "here.partial" / "parts").iterdir()}
    assert len(kept) == 2

    done = airmix(*ALL, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]
    after = {path.name: path.stat().st_ino for path in (tmp_path / "here" / "parts").iterdir()}
    assert after.items() >= kept.items()  # what was finished was not made again
    resumed = json.loads(done.stdout)  # exactly one object
    assert resumed["run_dir"] == "here"
    assert resumed["grade"] == "exposed"
    assert resumed["verdict"].startswith("PROMISE TOO WEAK against the release: epsilon ")
    assert ". EXPOSED to the server" in resumed["verdict"]
    assert resumed.pop("report") == "here/report.html"
    assert json.loads((tmp_path / "here" / "metrics.json").read_text()) == resumed

    # With other settings refused, then replaced; the figures are those of a command that nobody killed.
    other = airmix(*ALL, "--seed", "7")
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == "airmix: error: here: exists already; choose another --out, or --force to replace it\n"
    whole = airmix(*ALL, "--force")
    assert (whole.returncode, whole.stderr) == (0, "")
    metrics = json.loads((tmp_path / "here" / "metrics.json").read_text())
    assert without_seconds(metrics) == without_seconds(resumed)
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]
    assert metrics["verdict"].partition(":")[0] in " ".join(whole.stdout.split())
    assert "picture in here/attack.png" in whole.stdout
    assert "| least-squares | " in (tmp_path / "here" / "attack.md").read_text()


def test_one_setting_is_one_screen(airmix: Airmix) -> None:
    done = airmix(*IRIS, *FOUR, "--out", "here", columns=80)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    rows = sum(max(1, -(-len(line) // 80)) for line in lines)  # a long line takes several
    assert rows <= 45
    assert lines[1].startswith("PROMISE")
    (head,) = (line for line in lines if "guessing" in line and "attacker" in line)
    assert "success" in head  # a rate is never without that of a guess
    assert "not shown" not in done.stdout
    assert "server: knows the schedule; release: only the mixtures; eavesdropper: listens" in " ".join(lines)


@pytest.mark.parametrize("largest_file", [1_500, 30_000], ids=["part", "picture"])
def test_files_that_do_not_fit(
    airmix: Airmix, files_up_to: Callable[[int], AbstractContextManager[None]], tmp_path: Path, largest_file: int
) -> None:
    with files_up_to(largest_file):
        done = airmix(*IRIS, "--attacks", "prior,release", "--out", "here")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("airmix: error: ")
    assert "cannot be written (File too large)" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--attacks", "lest-squares"), ("--attacks 'lest-squares'", "did you mean least-squares?")),
        (("--attacks", ""), ("--attacks ''",)),
        (("--force",), ("--force", "--out")),
        (("--set", "privacy.epsilon=1"), ("privacy.epsilon = 1", "ln(1/delta)")),
        (("--threads", "-1"), ("threads = -1",)),
        (("--out", "x.partial"), ("x.partial: cannot be a run folder",)),
        (("--out", "/proc/airmix/here"), ("cannot be written",)),
        (("--set", "radio.slots=100000000000"), ("radio.slots = 100000000000", "needs")),
        (("--block-slots", "4"), ("--block-slots",)),
    ],
)
def test_mistakes_cost_one_line(refused: Refused, arguments: tuple[str, ...], said: tuple[str, ...]) -> None:
    line = refused(*IRIS, *arguments)
    for part in said:
        assert part in line


def test_what_is_attacked_must_be_there(refused: Refused, tmp_path: Path) -> None:
    assert "preset 'nosuch'" in refused("attack", "--preset", "nosuch")
    refused("attack")
    refused("attack", "gone.toml")
    assert "MNIST" in refused("attack", "--preset", "paper-mnist", "--data-dir", str(tmp_path))


def test_a_device_that_is_not_there(refused: Refused) -> None:
    if torch.cuda.is_available():
        assert "device = 'cuda:99'" in refused(*IRIS, "--device", "cuda:99")
        return
    assert "this machine has no CUDA device" in refused(*IRIS, "--device", "cuda")


def test_out_that_is_a_file_or_no_run_folder(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    for name in ("file", "folder"):
        for more in ((), ("--force",)):
            assert f"{name}: exists and is not a run folder" in refused(*IRIS, "--out", name, *more)
    assert "cannot be written" in refused(*IRIS, "--out", "file/below")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder, as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_csv(path: Path, classes: dict[str, int], numbers: int = 3) -> None:
    rng = np.random.default_rng(0)
    rows = [
        [*(f"{value:.3f}" for value in rng.uniform(0, 1, numbers) * 0.5 + 0.5 * (place % 2)), name]
        for place, (name, count) in enumerate(classes.items())
        for _ in range(count)
    ]
    rng.shuffle(rows)
    head = [*(f"x{number}" for number in range(numbers)), "label"]
    path.write_text("\n".join(",".join(row) for row in [head, *rows]) + "\n")


OWN = Scenario.preset("paper-iris").with_overrides(
    "name=own $[1]", "workers.dataset=own.csv", "workers.train_samples=60", "workers.count=40", "radio.slots=80",
    "workers.input_lower=[0]", "workers.input_upper=[1]", "mixing.power=max", "mixing.alpha=1", "radio.scheduled=3",
)  # fmt: skip


@pytest.mark.parametrize(
    ("classes", "numbers", "changes"),
    [
        pytest.param({"a": 50, "b": 50}, 3, (), id="plain"),
        pytest.param({"a": 60, "b": 50, "c": 1}, 3, (), id="a class that the test part lacks"),
        pytest.param({"a": 32, "b": 31}, 3, (), id="three public samples"),
        pytest.param({"a": 31, "b": 30}, 3, (), id="one public sample"),
        pytest.param({"a": 50, "b": 50}, 1, (), id="one number"),
        pytest.param({"a": 50, "b": 50}, 3, ("workers.count=1", "radio.scheduled=1"), id="one worker"),
        pytest.param({"a": 50, "b": 50}, 3, ("radio.slots=1",), id="one slot"),
        pytest.param(
            {"a": 50, "b": 50}, 3, ("workers.count=1", "radio.scheduled=1", "radio.slots=1"), id="one of both"
        ),
    ],
)
def test_data_of_ones_own(
    in_tmp: Path,
    classes: dict[str, int],
    numbers: int,
    changes: tuple[str, ...],
) -> None:
    write_csv(in_tmp / "own.csv", classes, numbers)
    scenario = settle(OWN.with_overrides(*changes))
    context = RunContext(speed=Speed(threads=1))
    case = run_attacks(scenario, choose_parts(None, scenario), folder=in_tmp / "parts", context=context).to_dict()
    # Nobody hides at full power, unless there is one slot for forty.
    if changes != ("radio.slots=1",):
        assert case["server"]["grade"] == "exposed"
        assert case["server"]["methods"]["least-squares"]["psnr_db"] > 40.0


def test_a_file_of_ones_own(airmix: Airmix, tmp_path: Path) -> None:
    write_csv(tmp_path / "own.csv", {"a": 50, "b": 50})
    (tmp_path / "own.toml").write_text(OWN.to_toml())
    done = airmix("attack", "own.toml", "--json", "--out", "here", "--attacks", "least-squares,release")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["name"], found["grade"]) == ("own $[1]", "exposed")


def test_data_of_one_class_are_refused(refused: Refused, tmp_path: Path) -> None:
    write_csv(tmp_path / "own.csv", {"a": 100})
    (tmp_path / "own.toml").write_text(OWN.to_toml())
    assert "must have at least 2 classes" in refused("attack", "own.toml")
