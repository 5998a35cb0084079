"""Runs with rounds as processes that are killed: a simulation goes on, a protected run counts what was begun."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import norm

from airmixml import Scenario, load_network, run
from airmixml.files import write_text
from airmixml.messages import LeftoverWarning
from airmixml.radio.transmission import Air

Airmix = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = ("run", "--preset", "private-table", "--set", "learner.rounds=4", "--set", "workers.centre=public", "--out")
PRIVATE = (*COMMAND, "here", "--private", "--public-test")
# The real command, which kills itself in the stage that $KILL_AT names, once that has come so often.
KILLED = """
import os, signal
from airmixml.cli.main import main
from airmixml import streams
from airmixml.radio.rounds import RoundsOnAir
from airmixml.runs import experiment
from airmixml.files import ResultStore
from airmixml.storage import folders
stage, after = os.environ["KILL_AT"].split("-")
left = [int(after)]
def killing(owner, name, then=False):
    real = getattr(owner, name)
    def call(*args, **given):
        found = real(*args, **given) if then else None
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found if then else real(*args, **given)
    setattr(owner, name, call)
{
    "before claim": lambda: killing(folders.RunFolder, "note_attempt"),
    "claimed": lambda: killing(folders.RunFolder, "note_attempt", then=True),
    "send": lambda: killing(RoundsOnAir, "receive"),
    "sent": lambda: killing(RoundsOnAir, "receive", then=True),
    "save": lambda: killing(ResultStore, "save"),
    "model": lambda: killing(experiment, "save_model"),
    "publish": lambda: killing(folders.RunFolder, "publish"),
}[stage]()
main()
"""
Killed = Callable[[str, tuple[str, ...]], None]


@pytest.fixture
def killed(start_python: Callable[..., subprocess.Popen[str]]) -> Killed:
    """Run a command until it is killed."""

    def call(at: str, command: tuple[str, ...]) -> None:
        child = start_python("-c", KILLED, *command, environment={"KILL_AT": at})
        output = child.communicate()
        assert child.returncode == -signal.SIGKILL, output

    return call


def weights_in(folder: Path) -> torch.Tensor:
    parameters = load_network(folder).state_dict()
    return torch.cat([each.flatten() for each in parameters.values()])


def told(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "metrics.json").read_text())
    return {name: each for name, each in found.items() if not re.match("seconds|run_dir", name)}


@pytest.mark.long
def test_a_simulation_killed_at_many_points_goes_on_and_ends_alike(
    killed: Killed, airmix: Airmix, tmp_path: Path
) -> None:
    command = (*COMMAND, "here")
    for at in ("save-1", "sent-1", "send-3"):
        killed(at, command)
    kept = {path.name for path in (tmp_path / "here.partial" / "shards").iterdir()}
    assert kept == {f"block-{slot:06d}.npz" for slot in (2, 3, 4)}  # slot 1 would estimate a mean
    assert airmix(*command).returncode == 0
    assert airmix(*COMMAND, "whole").returncode == 0
    here, whole = tmp_path / "here", tmp_path / "whole"
    assert torch.equal(weights_in(here), weights_in(whole))
    assert told(here) == told(whole)
    assert (here / "learning_curve.csv").read_bytes() == (whole / "learning_curve.csv").read_bytes()
    assert {each.name for each in here.iterdir()} == {each.name for each in whole.iterdir()}


class StopError(Exception):
    """What stops a run half-way."""


ALONE = ("workers.sends=gradients", "learner.rounds=0", "learner.descent=adam", "radio.slots=4")


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ALONE,
        ("air.preset=campus",),
        ("workers.bits=6",),
        ("privacy.adversary=everyone", "privacy.noise=masked", "privacy.arithmetic=integers", "workers.centre=public"),
    ],
)
def test_only_missing_rounds_are_sent(
    changes: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario.preset("private-table").with_overrides("learner.rounds=4", *changes)
    real, sent = Air.receive, list[int]()

    def receive(air: Air, payload: Any, slots: range) -> Any:
        if slots.start or changes == ALONE:  # else it is the slot of moments
            sent.append(slots.start)
            if len(sent) == stop:
                raise StopError
        return real(air, payload, slots)

    monkeypatch.setattr(Air, "receive", receive)
    stop = 0
    run(scenario, out=tmp_path / "whole", pictures=False)
    every, sent[:], stop = list(sent), [], 3
    assert len(every) == 4
    with pytest.raises(StopError):
        run(scenario, out=tmp_path / "here", pictures=False)
    sent[:], stop = [], 0
    run(scenario, out=tmp_path / "here", pictures=False)
    drawn_as_it_goes = changes == ("workers.bits=6",)
    assert sent == (every if drawn_as_it_goes else every[2:])
    assert torch.equal(weights_in(tmp_path / "here"), weights_in(tmp_path / "whole"))
    assert told(tmp_path / "here") == told(tmp_path / "whole")


def test_a_round_that_was_kept_after_another_broadcast_is_sent_again(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-table").with_overrides("learner.rounds=2")
    calls = list[int]()

    def stop(stage: str, done: int, _total: int) -> None:
        calls.append(done)
        if (stage, done) == ("rounds", 2):
            raise StopError

    with pytest.raises(StopError):
        run(scenario, out=tmp_path / "here", pictures=False, progress=stop)
    shards = tmp_path / "here.partial" / "shards"
    swapped = (shards / "block-000002.npz").read_bytes()
    (shards / "block-000003.npz").write_bytes(swapped)  # what another slot received
    run(scenario, out=tmp_path / "here", pictures=False)
    run(scenario, out=tmp_path / "whole", pictures=False)
    assert torch.equal(weights_in(tmp_path / "here"), weights_in(tmp_path / "whole"))


# --- Protection -------------------------------------------------------------------------------------------------------


def server_epsilon(folder: Path) -> float:
    stated = json.loads((folder / "metrics.json").read_text())["privacy"]
    exact = [each for each in stated if (each["adversary"], each["accountant"]) == ("server", "gdp")]
    return float(exact[0]["epsilon"])


def delta_of(epsilon: float, squared_mu: float) -> float:
    """The exact delta of Gaussian mechanisms whose mu^2 add up to this (Dong et al. 2022, Corollary 1)."""
    mu = math.sqrt(squared_mu)
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def squared_mu(epsilon: float, delta: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda square: delta_of(epsilon, square) - delta, 1e-6, 1e3))


@pytest.mark.long
def test_protected_runs_killed_at_many_points_count(
    killed: Killed, start_python: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    points = {"before claim-0": 0, "claimed-0": 1, "send-2": 1, "publish-0": 1}
    begun = 0
    for at, counts in points.items():
        killed(at, PRIVATE)
        begun += counts
        noted = tmp_path / "here.partial" / "attempts.json"
        attempts = json.loads(noted.read_text())["attempts"] if noted.exists() else []
        assert len(attempts) == begun, at
        assert not (tmp_path / "here.partial" / "shards").exists()  # nothing to go on from
    spent = {"epsilon": 1.0, "adversary": "server", "adjacency": "remove-one"}
    assert {name: attempts[0]["privacy"][name] for name in spent} == spent
    child = start_python("-m", "airmixml", *PRIVATE)  # here warnings are errors
    out, err = child.communicate()
    assert child.returncode == 0
    assert err.count("\n") == 1
    assert "3 earlier releases were begun here and did not finish" in err
    assert "1 release and 3 killed" in out
    found = json.loads((tmp_path / "here" / "metrics.json").read_text())
    assert (found["releases"], found["killed"]) == (1, 3)
    assert found["accuracy"] is not None
    assert not (tmp_path / "here" / "attempts.json").exists()
    delta = found["privacy"][0]["delta"]
    one = squared_mu(1.0, delta)
    assert delta_of(server_epsilon(tmp_path / "here"), 4.0 * one) == pytest.approx(delta, rel=1e-4)


def test_a_protected_run_that_was_interrupted_counts_once(private_table: Scenario, tmp_path: Path) -> None:
    def stop(stage: str, *_done: int) -> None:
        if stage == "rounds":
            raise KeyboardInterrupt

    out, given = tmp_path / "here", {"private": True, "pictures": False}
    with pytest.raises(KeyboardInterrupt):
        run(private_table, out=out, progress=stop, **given)
    with pytest.warns(LeftoverWarning, match="an earlier release was begun here"):
        counted = run(private_table, out=out, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftoverWarning)
        alone = run(private_table, out=tmp_path / "there", **given)
    assert (counted.releases, counted.killed, alone.releases, alone.killed) == (1, 1, 1, 0)
    delta = alone.privacy[0].delta
    one = squared_mu(alone.privacy[0].epsilon, delta)
    assert delta_of(counted.privacy[0].epsilon, 2.0 * one) == pytest.approx(delta, rel=1e-4)


def test_nothing_is_drawn_where_the_attempt_cannot_be_noted(
    private_table: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    drawn = list[object]()
    monkeypatch.setattr("airmixml.storage.folders.sync_folder", full)
    monkeypatch.setattr("airmixml.streams.blake2b", lambda *given, **_named: drawn.append(given))
    with pytest.raises(Exception, match="No space left"):
        run(private_table, private=True, out=tmp_path / "here", pictures=False)
    assert drawn == []


def test_a_count_of_attempts_that_cannot_be_read_is_refused(private_table: Scenario, tmp_path: Path) -> None:
    def stop(stage: str, *_done: int) -> None:
        if stage == "rounds":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(private_table, private=True, out=tmp_path / "here", pictures=False, progress=stop)
    write_text(tmp_path / "here.partial" / "attempts.json", "{}")
    with pytest.raises(Exception, match=r"attempts\.json: counts releases") as refused:
        run(private_table, private=True, out=tmp_path / "here", pictures=False)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "here").exists()


@pytest.fixture
def private_table() -> Scenario:
    return Scenario.preset("private-table").with_overrides("learner.rounds=2")
