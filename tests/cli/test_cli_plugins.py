"""``airmix plugins``: names of ours, those of other packages, and what is wrong with some of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airmixml.registries import REGISTRIES

Finished = subprocess.CompletedProcess[str]
Call = Callable[..., Finished]

ENTRY_POINTS = """
[airmixml.learners]
stump = airmix_stump:STUMP
broken = airmix_stump:MISSING
bare = airmix_stump:BARE

[airmixml.accountants]
pld = airmix_stump:STUMP
"""
MODULE = """
class Anything:
    def __getattr__(self, name):
        return name

STUMP, BARE = Anything(), object()
"""


@pytest.fixture
def with_package(tmp_path: Path) -> Call:
    """Run ``airmix plugins`` where a package is installed of which one learner can be used, and nothing else."""
    package = tmp_path / "site"
    metadata = package / "airmix_stump-1.2.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: airmix-stump\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (package / "airmix_stump.py").write_text(MODULE)

    def call(*arguments: str) -> Finished:
        path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-m", "airmixml", "plugins", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"},
        )

    return call


def of_the_package(done: Finished) -> dict[str, dict[str, Any]]:
    plugins = json.loads(done.stdout)["plugins"]
    return {each["name"]: each for each in plugins if each["package"] == "airmix-stump"}


def test_the_list_has_ours_and_theirs(with_package: Call) -> None:
    done = with_package()
    assert (done.returncode, done.stderr) == (0, "")
    assert all(registry.kind in done.stdout and registry.group in done.stdout for registry in REGISTRIES)
    assert "mlp, cnn, ridge, lda, " in done.stdout
    assert "stump (airmix-stump 1.2)" in done.stdout
    assert "accountant pld of airmix-stump 1.2: the name is airmixml's own" in done.stdout


def test_json(with_package: Call) -> None:
    done = with_package("--json")
    own = [(each["kind"], each["name"]) for each in json.loads(done.stdout)["plugins"] if each["package"] == "airmixml"]
    assert own == [(registry.kind, name) for registry in REGISTRIES for name in registry.own]
    assert of_the_package(done)["stump"] == {
        "kind": "learner",
        "group": "airmixml.learners",
        "name": "stump",
        "package": "airmix-stump",
        "version": "1.2",
        "problem": "",
    }


@pytest.mark.long
def test_check_reports_what_is_broken_in_one_line_each(with_package: Call) -> None:
    done = with_package("--check")
    assert (done.returncode, done.stderr) == (1, "")
    lines = [line for line in done.stdout.splitlines() if " of airmix-stump 1.2: " in line]
    problems = dict(line.split(" of airmix-stump 1.2: ") for line in lines)
    assert len(lines) == len(problems) == 3
    assert "MISSING" in problems["learner broken"]
    assert "has no " in problems["learner bare"]
    assert "airmixml's own" in problems["accountant pld"]


def test_all_of_ours_can_be_loaded(airmix: Call) -> None:
    done = airmix("plugins", "--check", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
