"""``airmix deploy up`` as a person calls it: real processes over mutual TLS, a kill, a replay, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brokers_for_tests import ledger_of
from PIL import Image
from sklearn.datasets import load_wine

from airmixml.runs import load_metrics, load_model

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists(), reason="mosquitto is not there"
    ),
]
WORKERS = 8
LAST_RESORT = 300.0
Start = Callable[..., "subprocess.Popen[str]"]


def children_of(folder: Path | str) -> list[int]:
    """Processes whose command line names the folder."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and int(each.name) != os.getpid():
            try:
                named = str(folder).encode() in (each / "cmdline").read_bytes()
                state = (each / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if named and state != "Z":
                found.append(int(each.name))
    return found


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + LAST_RESORT
    while not is_so():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What a trial of 8 workers printed, and its folder."""
    folder = tmp_path_factory.mktemp("up") / "system"
    words = (
        "deploy",
        "up",
        "--workers",
        str(WORKERS),
        "--set",
        "learner.rounds=2",
        "--deadline",
        "30",
        "--out",
        str(folder),
    )
    command = [sys.executable, "-m", "airmixml", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LAST_RESORT, check=False)
    assert done.returncode == 0, done.stderr
    assert " s  round 1: begins\n" in done.stderr, "a line for each event, since this is no terminal"
    assert children_of(folder) == []
    return json.loads(done.stdout), folder


def test_every_round_is_a_sum_that_names_its_workers(trial: tuple[dict[str, Any], Path]) -> None:
    told, _ = trial
    assert told["failure"] == ""
    assert len(told["rounds"]) == 3
    everyone = set(range(WORKERS))
    assert set(told["rounds"][0]["workers"]) == everyone
    assert all(len(everyone - set(each["workers"])) <= 1 for each in told["rounds"])
    assert told["accuracy"] == told["rounds"][-1]["accuracy"]


def test_a_worker_is_killed_in_a_round_and_refuses_an_old_order_after_it(trial: tuple[dict[str, Any], Path]) -> None:
    told, folder = trial
    at = {each["what"]: each["seconds"] for each in told["events"] if each["who"] == told["killed"]}
    (refusal,) = (what for what in at if what.startswith("refuses: round 0, "))
    assert "began it before" in refusal
    assert at["killed by SIGKILL"] < at["started again"] <= at["is sent the order of round 0 again"] < at[refusal]
    ledger = ledger_of(folder / "devices" / told["killed"] / "ledger")
    names = [tuple(line[1:4]) for line in ledger if line[0] == "began"]
    assert len(names) == len(set(names)), "no round is begun twice under one name, also after a restart"


def test_ledgers_on_the_disk_cover_every_frame_that_entered_a_sum(trial: tuple[dict[str, Any], Path]) -> None:
    check_ledgers(*trial)


def check_ledgers(told: dict[str, Any], folder: Path) -> None:
    budget = json.loads((folder / "contract.json").read_text())["budget"]
    for number in range(WORKERS):
        lines = ledger_of(folder / "devices" / f"worker-{number}" / "ledger")
        spent = [line for line in lines if line[0] == "spent"]
        rounds = {int(words[2]) for words in spent}
        assert {each["round"] for each in told["rounds"] if number in each["workers"]} <= rounds
        assert len(spent) == len(rounds)
        assert sum(int(words[5]) for words in spent) <= budget


def test_the_model_predicts_rows_that_no_worker_held(trial: tuple[dict[str, Any], Path]) -> None:
    told, folder = trial
    files = [np.load(folder / "devices" / f"worker-{number}" / "rows.npz") for number in range(WORKERS)]
    held = {row.tobytes() for file in files for row in file["inputs"].astype(np.float64)}
    assert len(held) == WORKERS * 14, "no row is on two workers"
    wine = load_wine()
    others = np.array([row.tobytes() not in held for row in wine.data])
    assert others.sum() == len(wine.data) - len(held)
    names = np.array([f"class_{each}" for each in wine.target])
    right = int((load_model(folder / "server").predict(wine.data[others]) == names[others]).sum())
    tested = len(wine.data) - 2 * len(wine.data) // 3  # a third; a few rows of the pool are on no worker either
    assert 0 <= right - round(told["accuracy"] * tested) <= others.sum() - tested
    with pytest.raises(ValueError, match="has the model of a deployment and no results of a run"):
        load_metrics(folder / "server")


def test_there_is_a_picture(trial: tuple[dict[str, Any], Path]) -> None:
    with Image.open(trial[0]["picture"]) as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
    assert {(200, 64, 47), (209, 96, 61)} <= colours, "the kill is red, the refusal orange"


def test_a_note_of_a_second_folder_and_how_to_score(start_python: Start, tmp_path: Path) -> None:
    (tmp_path / "runs" / "deploy-trustless-wine").mkdir(parents=True)
    words = ("--workers", str(WORKERS), "--set", "learner.rounds=0", "--no-kill", "--deadline", "30")
    command = start_python("-m", "airmixml", "deploy", "up", *words)
    out, err = command.communicate(timeout=LAST_RESORT)
    assert command.returncode == 0, err
    assert "round 0: begins" in err
    first, second = "runs/deploy-trustless-wine", "runs/deploy-trustless-wine-2"
    assert err.splitlines()[0] == f"airmix: {second}: a new folder, since {first} is there already"
    said = " ".join(out.split())
    assert f"rows it learned from: airmix predict {second}/server {second}/devices/worker-" in said
    assert not list((tmp_path / first).iterdir())


def test_any_process_may_be_killed_with_any_signal(start_python: Start, tmp_path: Path) -> None:
    """Before and in rounds parts are ended, and one stands still; the run learns from those who are left."""
    folder, told = tmp_path / "system", list[str]()
    words = ("deploy", "up", "--workers", str(WORKERS), "--no-kill", "--deadline", "5", "--out", folder, "--json")

    def hit(part: str, how: signal.Signals) -> None:
        named = {"broker": folder / "broker" / "mosquitto.conf", "server": f"server\0{folder}\0"}
        (process,) = children_of(named.get(part, folder / "devices" / part))
        os.kill(process, how)

    command = start_python("-m", "airmixml", *words)
    assert command.stdout is not None

    def read() -> None:
        assert command.stderr is not None
        for line in command.stderr:
            told.append(line)

    reader = threading.Thread(target=read)
    reader.start()

    def until(line: str) -> None:
        wait_until(lambda: any(line in each for each in told) or command.poll() is not None, line)
        assert any(line in each for each in told), f"{line}: {told}"

    wait_until(lambda: len(children_of(folder / "devices")) == WORKERS or command.poll() is not None, "the workers")
    hit("worker-1", signal.SIGKILL)
    until("round 0: begins")
    hit("worker-5", signal.SIGTERM)
    until("round 1: begins")
    hit("broker", signal.SIGKILL)
    until("broker: started again")
    hit("server", signal.SIGKILL)
    hit("worker-2", signal.SIGSTOP)
    until("server: started again")
    found = json.loads(command.stdout.read())
    reader.join()
    assert command.wait(LAST_RESORT) == 0, told
    for line in ("worker-1: killed by SIGKILL", "worker-5: killed by SIGTERM", "worker-2: is stopped"):
        assert line in "".join(told)
    assert found["failure"] == ""
    assert [each["round"] for each in found["rounds"]] == sorted({each["round"] for each in found["rounds"]})
    assert len(found["rounds"]) >= 4, "a step of gradients may fail after frames; moments may not"
    assert all(len(each["workers"]) >= WORKERS - 2 for each in found["rounds"])
    check_ledgers(found, folder)
    wait_until(lambda: children_of(folder) == [], "the end of all processes")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_all_processes_end_with_the_command(how: signal.Signals, start_python: Start, tmp_path: Path) -> None:
    folder = tmp_path / "system"
    command = start_python("-m", "airmixml", "deploy", "up", "--workers", str(WORKERS), "--out", folder)
    wait_until(lambda: len(children_of(folder / "devices")) == WORKERS or command.poll() is not None, "the workers")
    assert command.poll() is None, command.communicate()
    command.send_signal(how)
    _, err = command.communicate(timeout=LAST_RESORT)
    assert command.returncode == (130 if how is signal.SIGINT else -9)
    wait_until(lambda: children_of(folder) == [], "the end of all processes")
    assert "Traceback" not in err
    assert folder.exists() == (how is signal.SIGKILL), "what was interrupted can be repeated"


def test_what_cannot_be_deployed_is_refused_before_anything_is_written(airmix: Any, tmp_path: Path) -> None:
    for words, line in (
        (("--preset", "paper-iris"), "privacy.noise"),
        (("--workers", "0"), "--workers = 0: must be from 1"),
        (("--deadline", "0"), "--deadline = 0.0: must be a number above 0"),
    ):
        done = airmix("deploy", "up", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert line in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
