"""``make mutants`` on a project of one module: what its tests notice, what survives, and what is judged again."""

import importlib
import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
SOURCE = TOOLS.parent / "src" / "airmixml"
MODULE = '''"""A module."""

LIMIT = 4


def clipped(value: int) -> int:
    """Return a value, at most the limit."""
    return min(value, LIMIT)


def unused(value: int) -> int:
    if value > 3:
        raise ValueError(f"{value + 1} is above 3")
    return value


def endless(value: int) -> int:
    while value:
        value -= 1
    return value
'''
TESTS = """
from tiny.one import clipped, endless

def test_small():
    assert clipped(3) == 3

def test_ends():
    assert endless(2) == 0
"""
CALL = """
import sys
import tomllib
from pathlib import Path
import mutants
mutants.PRELOADED, mutants.TEST_SECONDS = "", 0.5
project = mutants.Project(Path.cwd(), {"room": (["*.py"], ["room"])}, "tiny")
mutants.main(project, sys.argv[1:])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("src/tiny/__init__.py", ""), ("src/tiny/one.py", MODULE), ("tests/room/test_one.py", TESTS)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return tmp_path


def judged(project: Path, *options: str) -> dict[str, str]:
    """The verdict on each change, as the tool prints it."""
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    command = [sys.executable, "-c", CALL, *options]
    told = subprocess.run(
        command, cwd=project, env=environment, check=True, capture_output=True, text=True, timeout=600
    )
    words = [line.split("  ") for line in told.stdout.splitlines() if " -> " in line and line.startswith("  ")]
    return {change: verdict for _, _, change, verdict, *_ in words}


@pytest.mark.skipif(importlib.util.find_spec("coverage") is None, reason="coverage is not installed")
def test_mutants_are_noticed_survive_and_are_judged_again(project: Path) -> None:
    first = judged(project)
    assert first["min(value, LIMIT) -> max(value, LIMIT)"] == "noticed"
    assert first["4 -> 5"] == "SURVIVED"  # no test passes the limit
    assert first["value -= 1 -> value += 1"] == "noticed"  # hangs
    assert first["value > 3 -> value <= 3"] == "SURVIVED"  # no test calls it
    assert not [change for change in first if "value + 1" in change]  # words of an error
    assert not judged(project)  # all are judged
    more = TESTS + "\ndef test_large():\n    assert clipped(9) == 4\n"
    (project / "tests" / "room" / "test_one.py").write_text(more, encoding="utf-8")
    again = judged(project)
    assert again["4 -> 5"] == "noticed"
    assert set(again.values()) == {"noticed", "SURVIVED"}
    assert "min(value, LIMIT) -> max(value, LIMIT)" not in again


def test_harmless_mutants_are_mutants_of_the_code_and_each_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    mutations = importlib.import_module("mutations")
    entries = tomllib.loads((TOOLS / "harmless_mutants.toml").read_text(encoding="utf-8"))["harmless"]
    for entry in entries:
        source = (SOURCE / entry["file"]).read_text(encoding="utf-8")
        found = {each.change for each in mutations.mutants_of(source, "", "") if each.text == entry["line"]}
        assert set(entry["changes"]) <= found, entry
        assert len(entry["why"]) > 40
