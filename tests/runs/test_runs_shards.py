"""Whole commands on an engine that is not this process: the folders that one process writes, resumed where killed."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import airmixml
from airmixml import Scenario, Speed
from airmixml.attacks.run_attacks import run_attacks
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


def test_an_audit_in_blocks_is_the_audit(backwards: Engine) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=150", "workers.count=200")
    settings = AuditSettings(trials=100)
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
    stages: list[int] = []

    def note(stage: str, done: int, _total: int) -> None:
        if stage == "attacks":
            stages.append(done)

    def found(engine: Engine, name: str) -> Any:
        context = RunContext(speed=Speed(threads=1), engine=engine, progress=note)
        parts = ("least-squares", "prior", "release")
        result = run_attacks(scenario, parts, folder=tmp_path / name, context=context)
        return json.loads(json.dumps(result.to_dict()), object_hook=_without_seconds)

    assert found(Engine(), "here") == found(backwards, "there")
    stages.clear()
    (tmp_path / "there" / "prior.npz").unlink()
    assert found(backwards, "there") == found(Engine(), "here")
    assert stages[:2] == [2, 3]  # only what is missing is made again


def _without_seconds(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not key.endswith("seconds")}
