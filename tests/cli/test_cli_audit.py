"""``airmix audit``: verdict, table, JSON, folder, resuming, mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError
from airmixml.audit import AuditSettings, audit, fault_named, sums

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
Start = Callable[..., subprocess.Popen[str]]
SMALL = ("audit", "--preset", "paper-iris", "--set", "radio.slots=60", "--trials", "2000")
FILES = {"scenario.toml", "metrics.json", "scores.npz", "audit.md", "audit.png", "report.html", "finished.json"}

# The real command, but for a file after every block of trials, and a halt after some of them.
HALTING = """
import importlib, os, signal
from airmixml.cli.main import main
module = importlib.import_module("airmixml.audit.auditor")
class Halting(module.Keeper):
    def __init__(self, folder):
        super().__init__(folder, every_seconds=0)
        self.saves = 0
    def save(self, name, blocks):
        super().save(name, blocks)
        self.saves += 1
        if self.saves == int(os.environ["HALT_AFTER"]):
            print("halted", flush=True)
            signal.pause()
module.Keeper = Halting
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
    check = found["noise_check"]
    assert {"numbers", "deviation", "upper", "repeated_p_value", "passed"} <= set(check)
    assert (check["passed"], check["why_not"], check["numbers"]) == (True, "", 12 * 60 * 7)
    release, server = found["audits"]
    assert (found["epsilon_lower"], found["epsilon_claimed"]) == (release["epsilon_lower"], release["epsilon_claimed"])
    assert [bound["method"] for bound in release["bounds"]] == ["clopper-pearson"]
    assert [bound["method"] for bound in server["bounds"]] == ["clopper-pearson", "normal scores"]
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
    report = f"{found['run_dir']}/report.html"
    assert {**json.loads((made / "metrics.json").read_text()), "report": report} == found
    assert Scenario.load(made / "scenario.toml").radio.slots == 60
    page = (made / "audit.md").read_text()
    assert found["verdict"] in page
    assert "| noise of a real run | as stated; standard deviation " in page
    assert (made / "audit.png").read_bytes().startswith(b"\x89PNG")
    with np.load(made / "scores.npz") as scores:
        assert scores["server_with_canary"].shape == scores["release_without"].shape == (1000,)


def test_table(airmix: Airmix) -> None:
    done = airmix(*SMALL, "--adversary", "server", "--adjacency", "remove-one")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Audit of paper-iris")
    assert lines[1].startswith("NOT REFUTED: the best attack by the server found epsilon >= ")
    unfolded = " ".join(done.stdout.replace("│", " ").split())  # however wide the terminal is
    for name in ("claimed, gdp", "found, clopper-pearson", "found, normal scores"):
        assert name in unfolded
    for told in (
        "with 95 % confidence",
        "epsilon at delta = 0.01, remove-one neighbours",
        "as stated; standard deviation",
    ):
        assert told in unfolded
    assert lines[-2].endswith("picture in runs/audit-paper-iris-seed0/audit.png")
    assert lines[-1] == "report: runs/audit-paper-iris-seed0/report.html"


def test_a_fault_is_caught(airmix: Airmix) -> None:
    done = airmix(*SMALL, "--fault", "half-noise", "--adversary", "server", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["caught"], found["fault"]) == (True, "half-noise")
    assert found["verdict"].startswith("CAUGHT: ")
    assert found["epsilon_lower"] > found["epsilon_claimed"]
    assert found["noise_check"]["passed"] is False
    assert "the noise of a real run has 0.504 of the stated deviation" in found["verdict"]


def test_a_fault_that_is_not_caught_has_an_exit_code(airmix: Airmix) -> None:
    # So few trials say nothing of a schedule that is revealed, and the noise is sound.
    few = ("--trials", "100", "--adversary", "release")
    done = airmix(*SMALL, *few, "--fault", "schedule-revealed", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert (found["caught"], found["fault"]) == (False, "schedule-revealed")
    assert found["verdict"].startswith("NOT CAUGHT: ")


def test_an_alarm_has_an_exit_code(airmix: Airmix, monkeypatch: pytest.MonkeyPatch) -> None:
    # A sound command on code that is broken: the noise is not what it should be.
    real = sums.receive_mixtures

    def half_noise(clean: Any, noise: Any, *rest: Any) -> Any:
        return real(clean, noise / 2, *rest)

    monkeypatch.setattr(sums, "receive_mixtures", half_noise)
    done = airmix(
        *SMALL,
        "--adversary",
        "server",
    )
    assert (done.returncode, done.stderr) == (1, "")
    told = " ".join(done.stdout.split())
    assert "BROKEN: the best attack by the server found epsilon >= " in told
    assert "so the claim is false." in told


@pytest.mark.long
@pytest.mark.parametrize("saves", [3, 11])  # among the trials of the release; after its noise
def test_kill_9_half_way(
    saves: int, airmix: Airmix, start_python: Start, small_audit: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    whole, folder = small_audit
    child = start_python("-c", HALTING, *SMALL, "--out", "here", environment={"HALT_AFTER": str(saves)})
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
    assert found["resumed_blocks"] == saves
    same = set(whole) - {"seconds", "run_dir", "resumed_blocks", "report"}
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
        (("--fault", "schedule-revealed", "--adversary", "server"), "the server knows the schedule anyway"),
        (("--fault", "schedule-revealed", "--set", "mixing.power=max"), "nothing is hidden that could be revealed"),
        (("--out", "x.partial"), "cannot be a run folder"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], line: str, refused: Callable[..., str]) -> None:
    assert line in refused(*SMALL, *arguments)


def test_a_schedule_that_is_not_hidden_is_refused_before_anything_is_loaded(run_python: Airmix, tmp_path: Path) -> None:
    refused = (
        "import sys\n"
        "from airmixml.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    assert 'torch' not in sys.modules\n"
    )
    done = run_python("-c", refused, "audit", "--preset", "private-iris", "--fault", "schedule-revealed")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "nothing is hidden that could be revealed, since everybody sends in every slot" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"adversaries": ("eavesdropper",)}, "adversary = 'eavesdropper': must be among release, server, everyone"),
        ({"adjacency": "add-one"}, "adjacency = 'add-one': must be one of replace-one, remove-one"),
        ({"confidence": 1.0}, "confidence = 1: must be at least 0.5 and below 1"),
        (
            {"adversaries": ("server",), "fault": fault_named("schedule-revealed")},
            "the server knows the schedule anyway",
        ),
    ],
)
def test_mistakes_from_python(options: dict[str, Any], line: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=re.escape(line)):
        audit(Scenario.preset("private-iris"), AuditSettings(**options), out=tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_no_claim_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airmixml.audit import auditor
    from airmixml.audit.claims_and_bounds import Claim

    nothing = [Claim(accountant="pld", epsilon=None, why="no finite epsilon holds")]
    monkeypatch.setattr(auditor, "claims_of", lambda *_arguments, **_options: nothing)
    scenario = Scenario.preset("private-iris")
    settings = AuditSettings(adversaries=("server",), trials=1000)
    found = audit(scenario, settings, out=tmp_path / "a").to_dict()
    assert (found["caught"], found["epsilon_claimed"]) == (False, None)
    assert found["verdict"].startswith("NO CLAIM: nothing could be refuted; the best attack by the server found ")


@pytest.mark.long
def test_from_python(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-iris")
    settings = AuditSettings(adversaries=("server",), trials=4000)
    found = audit(scenario, settings, out=tmp_path / "a")
    assert (found.caught, found.own.adversary) == (False, "server")
    broken = audit(scenario, replace(settings, fault=fault_named("wrong-sensitivity")), out=tmp_path / "b")
    assert broken.caught
    assert broken.audits[0].claims == found.audits[0].claims
