"""``make soak``: what it draws is legal and the same for a seed; a finding is a finding; it goes on where it was."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.scenario.toml import preset_names, rule_of

TOOLS = Path(__file__).parents[1] / "tools"

# Stands for airmix: what a command does is decided by its seed. Names of what is called are left in a file.
FAKE = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from soak import main, soak, summary
from soak_cases import Choices, Case

def fake(words):
    seed, out = int(words[words.index("--seed") + 1]), Path(words[words.index("--out") + 1])
    with open("called", "a") as called:
        called.write(f"{seed}\\n")
    if seed == 1:
        while True:
            pass
    if seed == 2:
        raise ValueError("the middle\\nthe end")
    if seed == 3:
        print("airmix: error: radio.slots = 0: must be at least 1", file=sys.stderr)
        return 2
    if seed == 6:
        os.kill(os.getpid(), 9)
    out.mkdir(parents=True, exist_ok=True)
    accuracy = float("nan") if seed == 4 else 0.5 if out.name == "whole" or seed != 5 else 0.25
    own = {"epsilon": 2.0 if seed == 7 else 1.0, "target_epsilon": 1.0, "adversary": "server", "adjacency": "x"}
    metrics = {"accuracy": {"final": accuracy}, "seconds": os.getpid(), "privacy": [own]}
    (out / "metrics.json").write_text(json.dumps(metrics))
    return 0

kinds = {5: "resume", 7: "private", 8: "resume"}
cases = [
    Case(kind=kinds.get(seed, "simulation"), preset="paper-iris", air="ideal", seed=seed, size="small")
    for seed in map(int, sys.argv[2].split(","))
]
how = {"minutes": float(sys.argv[3]), "patience": float(sys.argv[4]), "jobs": 2, "say": lambda line: None}
records = soak(cases, Path("kept"), entry=fake, **how)
print(json.dumps(records))
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of the tool by name."""
    from importlib import import_module

    monkeypatch.syspath_prepend(TOOLS)
    return import_module


def soaked(folder: Path, seeds: str, minutes: float = 10.0, patience: float = 0.3) -> dict[int, dict[str, Any]]:
    """Play cases of these seeds with a fake command, and return their records."""
    asked = [sys.executable, "-c", FAKE, str(TOOLS), seeds, str(minutes), str(patience)]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return {record["seed"]: record for record in json.loads(done.stdout)}


def called(folder: Path) -> list[int]:
    return sorted(map(int, (folder / "called").read_text().split()))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("soak")
    return folder, soaked(folder, "0,1,2,3,4,5,6,7,8")


def test_findings_are_found_and_nothing_else_is(played: tuple[Path, dict[int, dict[str, Any]]]) -> None:
    found = {seed: record["finding"] for seed, record in played[1].items()}
    assert found[0] == found[3] == found[8] == ""
    assert found[1].startswith("hang")
    assert found[2].startswith("traceback")
    assert found[2].endswith("the end")
    assert found[4] == "not finite: metrics.json"
    assert "accuracy.final: 0.5 and 0.25" in found[5]
    assert found[6].startswith("died: exit code -9")
    assert found[7] == "epsilon 2 above its target 1 in protection"
    assert played[1][3]["exit_code"] == 2


def test_a_record_has_the_command_that_repeats_it(played: tuple[Path, dict[int, dict[str, Any]]]) -> None:
    command = "airmix run --preset paper-iris --air ideal --seed 7 --private --public-test --threads 1"
    assert played[1][7]["command"] == command
    assert (played[1][7]["epsilon"], played[1][7]["target"], played[1][7]["accuracy"]) == (2.0, 1.0, 0.5)


def test_it_goes_on_where_it_was_and_repeats_findings(tmp_path: Path) -> None:
    soaked(tmp_path, "0,2")
    with (tmp_path / "kept" / "runs.jsonl").open("a") as kept:
        kept.write('\n{"identity": "cut sh')  # a soak that was killed while it wrote
    (tmp_path / "called").unlink()
    assert list(soaked(tmp_path, "0,2,3")) == [0, 2, 3]
    assert called(tmp_path) == [2, 3]


def test_what_runs_when_the_minutes_are_over_is_no_finding(tmp_path: Path) -> None:
    assert soaked(tmp_path, "1", minutes=0.001, patience=600.0) == {}
    assert not (tmp_path / "kept" / "runs.jsonl").exists()


def test_the_same_seed_draws_the_same_legal_cases(tool: Callable[[str], ModuleType], tmp_path: Path) -> None:
    choices = tool("soak_cases").Choices(folder=tmp_path)
    drawn = list(islice(choices.drawn(3), 12))
    assert drawn == list(islice(choices.drawn(3), 12))
    assert drawn != list(islice(choices.drawn(4), 12))
    assert {each.kind for each in drawn} == {"simulation", "private", "resume"}


def test_every_kind_of_key_is_drawn_within_its_rule(tool: Callable[[str], ModuleType]) -> None:
    keys, source = tool("soak_cases").drawable_keys(), random.Random(1)
    assert {"privacy.adversary", "privacy.epsilon", "air.antennas", "learner.hidden_units", "link.tries"} <= keys.keys()
    for name, (rule, draw) in keys.items():
        values = [draw(source, "small") for _ in range(40)]
        assert len({str(value) for value in values}) > 1, name
        assert rule is rule_of(name)


@pytest.mark.parametrize("preset", preset_names())
def test_a_small_preset_is_still_a_scenario(tool: Callable[[str], ModuleType], preset: str) -> None:
    small = Scenario.preset(preset).with_overrides(*tool("soak_cases").shrunk(preset))
    assert small.workers.count <= 400
    assert small.radio.scheduled <= max(small.workers.count, 400)


def test_a_list_has_every_preset_profile_and_seed(tool: Callable[[str], ModuleType]) -> None:
    choices = tool("soak_cases").Choices(
        presets=("digits", "paper-iris"), airs=("lab",), seeds=(0, 3), sizes=("full",), kinds=("simulation",)
    )
    assert [(each.preset, each.air, each.seed, each.assignments) for each in choices.listed()] == [
        *(("digits", "lab", 0, ()), ("paper-iris", "lab", 0, ())),
        *(("digits", "lab", 3, ()), ("paper-iris", "lab", 3, ())),
    ]
    assert tool("soak_cases").numbers("0-3,7") == (0, 1, 2, 3, 7)


@pytest.mark.parametrize(
    ("error", "cpu_seconds", "said"),
    [
        ("airmix: error: radio.slots = 0: must be at least 1\n", 2.9, ""),
        ("airmix: warning: names\nairmix: error: radio.slots = 0: must be at least 1\n", 0.0, ""),
        ("airmix: error: radio.slots = 0: must be at least 1\n", 3.1, "after 3.1 s"),
        ("airmix: error: it failed\n", 0.0, "does not say which change"),
        ("airmix: error: no: 5\nand more\n", 0.0, "not one line"),
        ("airmix: error: KeyError in the code that private rows went through; use --show-values\n", 0.0, "hidden"),
    ],
)
def test_a_refusal_is_quick_and_says_what_to_change(
    tool: Callable[[str], ModuleType], tmp_path: Path, error: str, cpu_seconds: float, said: str
) -> None:
    case = tool("soak_cases").Case(kind="simulation", preset="digits", air="lab", seed=0, size="small")
    refused = tool("soak_worker").Outcome(how="ended", code=2, cpu_seconds=cpu_seconds, error=error)
    found = tool("soak_plays").finding(case, refused, tmp_path / "none", {})
    assert said in found
    assert bool(said) == bool(found)


def test_a_refusal_that_leaves_its_folder_is_a_finding(tool: Callable[[str], ModuleType], tmp_path: Path) -> None:
    case = tool("soak_cases").Case(kind="simulation", preset="digits", air="lab", seed=0, size="small")
    refused = tool("soak_worker").Outcome(how="ended", code=2, error="airmix: error: a = 1: must be 2")
    assert "leaves its folder" in tool("soak_plays").finding(case, refused, tmp_path, {})


def test_files_of_a_run_are_searched_for_what_is_not_finite(tool: Callable[[str], ModuleType], tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", good=np.ones(3), bad=np.array([1.0, np.inf]), words=np.array(["nan"]))
    (tmp_path / "learning_curve.csv").write_text("epoch,loss\n1,nan\n")
    (tmp_path / "metrics.json").write_text('{"a": Infinity}')
    (tmp_path / "good.json").write_text('{"a": "no Nancy"}')
    found = list(tool("soak_plays").not_finite(tmp_path))
    assert found == ["learning_curve.csv", "metrics.json", "model.npz: bad"]


def test_the_summary_counts(tool: Callable[[str], ModuleType]) -> None:
    record = {"size": "small", "kind": "simulation", "air": "lab", "preset": "digits", "exit_code": 0, "finding": ""}
    good = {**record, "accuracy": 0.9, "gain": 0.5, "gain_error": 0.1}
    bad = {**record, "accuracy": 0.1, "gain": -0.3, "gain_error": 0.1, "finding": "no"}
    told = tool("soak").summary([good, bad, {**good, "exit_code": 2, "accuracy": None, "gain": None}])
    assert told.splitlines()[-1].split() == ["all", "3", "1", "1", "1", "10.0", "%,", "50.0", "%"]


@pytest.mark.long
def test_real_runs_make_no_finding(tmp_path: Path) -> None:
    asked = [sys.executable, str(TOOLS / "soak.py"), "--presets", "paper-iris,private-iris", "--airs", "ideal,lab"]
    asked += ["--seeds", "1", "--kinds", "simulation,private,resume", "--folder", "kept"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].split()[:5] == ["all", "12", "0", "0", "0"]
