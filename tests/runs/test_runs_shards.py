"""Whole commands on an engine that is not this process: the folders that one process writes, resumed where killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import airmixml
from airmixml import Scenario, ScenarioError, Speed, load_network
from airmixml.attacks.attack_cases import attack_each, read_cases
from airmixml.audit.auditor import audit_scenario
from airmixml.audit.settings import AuditSettings
from airmixml.audit.trials import Keeper
from airmixml.engines import Engine
from airmixml.scenario import RunContext

Finished = subprocess.CompletedProcess[str]
run = partial(airmixml.run, pictures=False, speed=Speed(threads=1))
NETWORK = Scenario.preset("paper-iris").with_overrides("radio.slots=2100", "learner.epochs=2")
RIDGE = NETWORK.with_overrides("learner.model=ridge", "radio.fading=rayleigh", "mixing.power=max")


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two results are equal but for how long they took and where they lie."""
    left_out = {"seconds", "run_dir", "resumed_blocks"}
    return {key: value for key, value in one.items() if key not in left_out} == {
        key: value for key, value in other.items() if key not in left_out
    }


def assert_same_folders(one: Path, other: Path) -> None:
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())
    first, second = (load_network(folder).state_dict() for folder in (one, other))
    assert all(torch.equal(first[name], second[name]) for name in first)
    ledgers = [np.load(folder / "ledger.npz") for folder in (one, other)]
    for name in ledgers[0].files:
        np.testing.assert_array_equal(ledgers[0][name], ledgers[1][name])


@pytest.mark.parametrize("scenario", [NETWORK, RIDGE], ids=["network", "ridge"])
def test_a_run_in_shards_is_the_run(scenario: Scenario, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    here = run(scenario, out=tmp_path / "here")
    request.getfixturevalue("everywhere")
    there = run(scenario, out=tmp_path / "there", engine="ray")
    assert same(here.to_dict(), there.to_dict())
    assert_same_folders(tmp_path / "here", tmp_path / "there")


@pytest.mark.usefixtures("everywhere")
def test_a_stopped_run_keeps_its_shards(
    stop_at: Callable[[int], Any], stopped: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in training, no slot is simulated again; on one process, the shards are not used, and removed."""
    with pytest.raises(stopped):
        run(NETWORK, out=tmp_path / "cut", progress=stop_at(1), engine="ray")
    kept = tmp_path / "cut.partial" / "shards"
    assert sorted(path.name for path in kept.iterdir()) == ["slots-0-2048.npz", "slots-2048-2100.npz"]
    monkeypatch.setattr("airmixml.radio.shards._simulate_shard", lambda *_: pytest.fail("it is there"))
    run(NETWORK, out=tmp_path / "cut", engine="ray")
    assert not list(tmp_path.rglob("shards"))
    monkeypatch.undo()
    with pytest.raises(stopped):
        run(NETWORK, out=tmp_path / "other", progress=stop_at(1))
    run(NETWORK, out=tmp_path / "whole")
    assert_same_folders(tmp_path / "cut", tmp_path / "whole")


def test_a_private_run_stays_in_one_process(tmp_path: Path) -> None:
    private = Scenario.preset("private-iris")
    for options, named in (({"engine": "ray"}, "--engine ray"), ({"jobs": 2}, "--jobs")):
        with pytest.raises(ScenarioError) as problem:
            run(private, private=True, out=tmp_path / "run", **options)
        assert str(problem.value) == (
            f"{named}: a private run keeps its secret in this process, and nothing of its slots on the disk; leave "
            "--engine and --jobs out"
        )
    assert not list(tmp_path.iterdir())


def test_an_audit_in_blocks_is_the_audit(backwards: Engine) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=150", "workers.count=200")
    settings = AuditSettings(trials=100, canaries=0)
    here, there = (
        audit_scenario(
            scenario,
            settings,
            context=RunContext(speed=Speed(threads=1), engine=engine),
            keeper=Keeper(),
            run_dir=Path(),
        )
        for engine in (Engine(), backwards)
    )
    assert same(here.to_dict(), there.to_dict())
    for one, other in zip(here.audits, there.audits, strict=True):
        np.testing.assert_array_equal(one.trials.scores_in, other.trials.scores_in)
        np.testing.assert_array_equal(one.trials.scores_out, other.trials.scores_out)


def test_attacks_side_by_side_are_the_attacks(backwards: Engine, tmp_path: Path) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("workers.count=40", "radio.slots=80", "radio.scheduled=4")
    cases = read_cases(scenario, "privacy.epsilon=max,100", None)
    stages: list[int] = []

    def note(stage: str, done: int, _total: int) -> None:
        if stage == "attacks":
            stages.append(done)

    def found(engine: Engine, name: str) -> Any:
        context = RunContext(speed=Speed(threads=1), engine=engine, progress=note)
        results = attack_each(cases, ("prior", "release"), folder=tmp_path / name, context=context)
        return json.loads(json.dumps([case.to_dict() for case in results]), object_hook=_without_seconds)

    assert found(Engine(), "here") == found(backwards, "there")
    stages.clear()
    (tmp_path / "there" / "02-prior.npz").unlink()
    assert found(backwards, "there") == found(Engine(), "here")
    assert stages[:2] == [3, 4]  # only what is missing is made again


def _without_seconds(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not key.endswith("seconds")}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_run_on_ray_that_was_killed_goes_on(
    tmp_path: Path, start_python: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its first shard, on a cluster of its own; what it left is used, and the result is the same."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    scenario = NETWORK.with_overrides("radio.slots=9000")
    halting = """
import signal, sys
from airmixml import Scenario, run
def progress(stage, done, total):
    if stage == "over the air" and done:
        print("halted", flush=True)
        signal.pause()
scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=9000", "learner.epochs=2")
run(scenario, pictures=False, out="cut", engine="ray", jobs=2, progress=progress)
"""
    child = start_python("-c", halting)
    assert child.stdout is not None
    assert child.stdout.readline() == "halted\n", child.communicate()
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    kept = list((tmp_path / "cut.partial" / "shards").glob("*.npz"))
    assert kept
    before = kept[0].stat().st_mtime_ns
    told: list[int] = []

    def note(stage: str, done: int, _total: int) -> None:
        if stage == "over the air":
            told.append(done)
            assert kept[0].stat().st_mtime_ns == before

    there = run(scenario, out=tmp_path / "cut", engine="ray", jobs=2, progress=note)
    assert told[0] > 0
    here = run(scenario, out=tmp_path / "whole")
    assert same(here.to_dict(), there.to_dict())
    assert_same_folders(tmp_path / "cut", tmp_path / "whole")
