"""``airmix audit``: verdict, table, JSON, folder, resuming, mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError
from airmixml.audit import fault_named, known_schedule
from airmixml.audit.audit_scenario import audit

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
Start = Callable[..., subprocess.Popen[str]]
SMALL = ("audit", "--preset", "paper-iris", "--set", "radio.slots=60", "--trials", "2000")
FILES = {"scenario.toml", "metrics.json", "scores.npz", "audit.md", "audit.png"}

# The real command, but for a file after every block of trials, and a halt after the third.
HALTING = """
import importlib, signal
from airmixml.cli.main import main
module = importlib.import_module("airmixml.audit.audit_scenario")
class Halting(module.FileKeeper):
    def __init__(self, folder):
        super().__init__(folder, every_seconds=0)
        self.saves = 0
    def save(self, name, blocks):
        super().save(name, blocks)
        self.saves += 1
        if self.saves == 3:
            print("halted", flush=True)
            signal.pause()
module.FileKeeper = Halting
main()
"""


@pytest.fixture(scope="module")
def small_audit(
    airmix_in: Callable[..., Finished], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("audit")
    done = airmix_in(*SMALL, "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout), folder


def test_json(small_audit: tuple[dict[str, Any], Path]) -> None:
    found, folder = small_audit
    needed = {"epsilon_lower", "epsilon_claimed", "confidence", "caught", "delta", "adversary", "adjacency", "audits"}
    assert needed | {"fault", "verdict", "seed", "seconds", "run_dir"} <= set(found)
    assert (found["adversary"], found["adjacency"], found["caught"]) == ("release", "replace-one", False)
    assert (found["fault"], found["confidence"], found["delta"]) == (None, 0.95, 0.01)
    assert [each["adversary"] for each in found["audits"]] == ["release", "server"]
    assert found["verdict"].startswith("NOT REFUTED: the best attack on the release found epsilon >= ")
    assert "which shows little (" in found["verdict"]
    assert found["confidence_of"] == "all lower bounds on all audited adversaries together"
    assert [each["failure_probability"] for each in found["audits"]] == [pytest.approx(0.025, rel=1e-3)] * 2
    check = found["noise_check"]
    assert {"numbers", "deviation", "upper", "repeated_p_value", "passed"} <= set(check)
    assert (check["passed"], check["why_not"], check["numbers"]) == (True, "", 12 * 60 * 7)
    release, server = found["audits"]
    assert (found["epsilon_lower"], found["epsilon_claimed"]) == (release["epsilon_lower"], release["epsilon_claimed"])
    assert [bound["method"] for bound in release["bounds"]] == ["clopper-pearson", "one run"]
    assert [bound["method"] for bound in server["bounds"]] == [
        "clopper-pearson",
        "gaussian",
        "normal scores",
        "one run",
    ]
    for each in found["audits"]:
        claims = {claim["accountant"]: claim["epsilon"] for claim in each["claims"]}
        assert set(claims) == {"paper-loose", "paper-tight", "rdp", "pld", "gdp"}
        stated = [epsilon for epsilon in claims.values() if epsilon is not None]
        assert each["epsilon_claimed"] == min(stated)
        assert each["epsilon_lower"] <= min(stated)
        assert each["trials"]["with_canary"] == each["trials"]["without"] == 1000
    assert found["run_dir"] == "runs/audit-paper-iris-seed0"
    assert {entry.name for entry in (folder / found["run_dir"]).iterdir()} == FILES


def test_folder(small_audit: tuple[dict[str, Any], Path]) -> None:
    found, folder = small_audit
    made = folder / found["run_dir"]
    assert json.loads((made / "metrics.json").read_text()) == found
    assert Scenario.load(made / "scenario.toml").radio.slots == 60
    page = (made / "audit.md").read_text()
    assert found["verdict"] in page
    assert "Noise of a real run: as stated; deviation " in page
    assert (made / "audit.png").read_bytes().startswith(b"\x89PNG")
    with np.load(made / "scores.npz") as scores:
        assert scores["server_with_canary"].shape == scores["release_without"].shape == (1000,)
        assert scores["server_one_run"].shape == scores["server_one_run_coins"].shape == (100,)


def test_table(airmix: Airmix) -> None:
    done = airmix(*SMALL, "--adversary", "server", "--canaries", "0", "--adjacency", "remove-one")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("NOT REFUTED: the best attack by the server found epsilon >= ")
    assert "with 95 % confidence" in lines[0]
    assert "server: epsilon at delta = 0.01, remove-one neighbours" in done.stdout
    assert lines[1].startswith("noise of a real run: as stated; deviation ")
    for name in ("claimed, gdp", "found, clopper-pearson", "found, normal scores", "left out: none asked for"):
        assert name in done.stdout
    assert lines[-1].endswith("picture in runs/audit-paper-iris-seed0/audit.png")


def test_a_fault_is_caught(airmix: Airmix) -> None:
    done = airmix(*SMALL, "--fault", "half-noise", "--adversary", "server", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["caught"], found["fault"]) == (True, "half-noise")
    assert found["verdict"].startswith("CAUGHT: ")
    assert found["epsilon_lower"] > found["epsilon_claimed"]
    assert found["noise_check"]["passed"] is False
    assert "the noise of a real run has 0.496 of the stated deviation" in found["verdict"]


def test_an_alarm_has_an_exit_code(airmix: Airmix, monkeypatch: pytest.MonkeyPatch) -> None:
    # A sound command on code that is broken: the noise is not what it should be.
    real = known_schedule.receive_mixtures
    halved = lambda clean, noise, *rest: real(clean, noise / 2, *rest)  # noqa: E731
    monkeypatch.setattr(known_schedule, "receive_mixtures", halved)
    done = airmix(*SMALL, "--adversary", "server", "--canaries", "0")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("BROKEN: the best attack by the server found epsilon >= ")
    assert "so that claim is false." in done.stdout


def test_kill_9_half_way(
    airmix: Airmix, start_python: Start, small_audit: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    whole, folder = small_audit
    child = start_python("-c", HALTING, *SMALL, "--out", "here")
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "halted\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert os.listdir(tmp_path) == ["here.partial"]
    done = airmix(*SMALL, "--out", "here", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["resumed_blocks"] == 3
    same = set(whole) - {"seconds", "run_dir", "resumed_blocks"}
    assert {key: found[key] for key in same} == {key: whole[key] for key in same}
    with np.load(tmp_path / "here" / "scores.npz") as ours, np.load(folder / whole["run_dir"] / "scores.npz") as theirs:
        assert set(ours.files) == set(theirs.files)
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.files)
    assert {entry.name for entry in (tmp_path / "here").iterdir()} == FILES


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--adversary", "eavesdropper"), "--adversary = 'eavesdropper': must be one of release, server, both"),
        (("--trials", "10"), "trials = 10: must be at least 100"),
        (("--fault", "halfnoise"), "--fault = 'halfnoise': must be one of half-noise,"),
        (("--set", "radio.slots=0"), "radio.slots = 0"),
        (("--force",), "--force: replaces the folder --out"),
        (("--out", "x.partial"), "cannot be a run folder"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], line: str, refused: Callable[..., str]) -> None:
    assert line in refused(*SMALL, *arguments)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"adversaries": ("eavesdropper",)}, "adversary = 'eavesdropper': must be release, server or both"),
        ({"adjacency": "add-one"}, "adjacency = 'add-one': must be one of replace-one, remove-one"),
        ({"canaries": -1}, "canaries = -1: must be at least 0"),
        ({"confidence": 1.0}, "confidence = 1: must be at least 0.5 and below 1"),
        (
            {"adversaries": ("server",), "fault": fault_named("schedule-revealed")},
            "the server knows the schedule anyway",
        ),
    ],
)
def test_mistakes_from_python(options: dict[str, Any], line: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=re.escape(line)):
        audit(Scenario.preset("private-iris"), out=tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


def test_no_claim_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airmixml.audit import Claim, auditor

    nothing = [Claim(accountant="pld", epsilon=None, why="no finite epsilon holds")]
    monkeypatch.setattr(auditor, "claims_of", lambda *_arguments: nothing)
    scenario = Scenario.preset("private-iris")
    found = audit(scenario, out=tmp_path / "a", adversaries=("server",), trials=1000, canaries=0)
    assert (found["caught"], found["epsilon_claimed"]) == (False, None)
    assert found["verdict"].startswith("NO CLAIM: nothing could be refuted; the best attack by the server found ")


def test_from_python(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-iris")
    found = audit(scenario, out=tmp_path / "a", adversaries=("server",), trials=4000, canaries=0)
    assert (found["caught"], found["adversary"]) == (False, "server")
    broken = audit(
        scenario,
        out=tmp_path / "b",
        adversaries=("server",),
        trials=4000,
        canaries=0,
        fault=fault_named("wrong-sensitivity"),
    )
    assert broken["caught"] is True
    assert broken["audits"][0]["claims"] == found["audits"][0]["claims"]
