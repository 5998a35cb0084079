"""Every command and Python block in the README and docs is run once, in a folder that looks like a fresh clone."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ERROR = "airmix: error:"
# Tests of their own run these: one compares what they print, one runs them in their order.
RUN_ELSEWHERE = ("privacy.md", "your-data.md", "budgets.md", "deploy.md")
# test_docs_demo.py runs the first, tests/cli and tests/explore the last two; `make test` and `make test-long` run this
# test themselves.
NOT_AGAIN = {
    "make demo",
    "make check",
    "make test",
    "make test-long",
    "make reproduce-quick",
    "airmix account --preset paper-iris",
    "airmix explore",
}
# They would change the environment that the tests run in.
NOT_HERE = ("pip ", "git ", "python -m venv ", "python3 -m venv ")
# What later commands of the same block need; it is run before each of them.
PREPARES = (". ", "cd ", "export ", "printf ")
ACTIVATION = ". .venv/bin/activate && "
WORK_FOR_A_SHELL = set("|&;<>$`*")
# A part of each command or block that takes over about five seconds alone.
LONG = (
    "air --preset private-table",
    "run --preset paper-mnist",
    "run --preset private-mnist",
    "run --preset digits --set radio.slots=500",
    "run --preset private-iris --set privacy.epsilon=1",
    "--seed 7 --json",
    "run --preset paper-iris --set",
    "attack --preset digits --set",
    "audit --preset paper-iris",
    "examples/scikit_learn.py",
    "plan --preset",
    "plan --rows 5000",
    "compare --preset",
    "tolerances --preset",
    "--command audit --trials 1000",
    "attack --preset paper-iris",
    "holding=label-skewed",
    "radio.fading=rayleigh",
    "audit --preset private-iris",
    "printf 'age,dose",
    "printf 'who,",
    "account --preset paper-mnist --brief",
    "airmix predict runs/iris",
    'simulate(Scenario.preset("paper-iris"))',
)


def marks(code: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] if any(part in code for part in LONG) else []


def fenced(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(document: Path) -> dict[str, str]:
    """Each command, after what prepares it, with the error line shown below it (empty: it must succeed)."""
    found: dict[str, str] = {}
    for block in fenced(document, "console"):
        preparation, last = "", ""
        for line in block.splitlines():
            if line.startswith("$ "):
                last = preparation + line[2:]
                if line[2:].startswith(PREPARES):
                    preparation = f"{last} && "
                elif line[2:] not in NOT_AGAIN and not line[2:].startswith(NOT_HERE):
                    found[last] = ""
            elif line.startswith(ERROR):
                found[last] = line
        if preparation == f"{last} && ":  # nothing follows it
            found[last] = ""
    return found


COMMANDS = {
    command: error
    for document in DOCUMENTS
    if document.name not in RUN_ELSEWHERE
    for command, error in commands(document).items()
}


def mnist_is_out_of_reach(command: str, stderr: str) -> bool:
    """Without MNIST a command must end in the line that says which files to put where."""
    return "mnist" in command and stderr.startswith(ERROR) and "train-images-idx3-ubyte" in stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for entry in ("README.md", "LICENSE", "src", "examples", ".venv"):
        (tmp_path / entry).symlink_to(ROOT / entry)
    for entry in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / entry, tmp_path / entry)
        os.utime(tmp_path / entry, (0, 0))  # older than the environment, which is set up already
    return tmp_path


def in_a_shell(command: str, folder: Path) -> Finished:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def called(words: list[str], folder: Path, airmix_in: Callable[..., Finished]) -> Finished | None:
    """Call ``airmix`` or a script in this process, which has imported everything already; None: it is neither."""
    if words[0] == "airmix":
        return airmix_in(*words[1:], cwd=folder)
    if words[0] != "python" or not words[1].endswith(".py"):
        return None
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(StringIO()):
        patch.setattr(sys, "argv", words[1:])
        runpy.run_path(words[1], run_name="__main__")
    return Finished(words, 0, "", "")


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 20


@pytest.mark.parametrize(
    ("command", "shown_error"),
    [pytest.param(command, error, id=command, marks=marks(command)) for command, error in COMMANDS.items()],
)
def test_a_command(command: str, shown_error: str, clone: Path, airmix_in: Callable[..., Finished]) -> None:
    *files_made, last = command.removeprefix(ACTIVATION).split(" && ")
    done = None
    if not set(last) & WORK_FOR_A_SHELL and all(each.startswith("printf ") for each in files_made):
        assert all(in_a_shell(each, clone).returncode == 0 for each in files_made)
        done = called(shlex.split(last), clone, airmix_in)
    done = done or in_a_shell(command, clone)
    if shown_error:
        assert (done.returncode, done.stderr.strip()) == (2, shown_error)
    else:
        assert done.returncode == 0 or mnist_is_out_of_reach(command, done.stderr), done.stderr


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{document.name} {number}", marks=marks(block))
        for document in DOCUMENTS
        if document.name not in RUN_ELSEWHERE[1:]
        for number, block in enumerate(fenced(document, "python"), 1)
    ],
)
def test_a_python_block(block: str, tmp_path: Path) -> None:
    with chdir(tmp_path), redirect_stdout(StringIO()):
        exec(compile(block, "block", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if each.name != "your-data.md"], ids=lambda path: path.name
)
def test_toml_blocks_are_scenarios(document: Path) -> None:
    from airmixml import Scenario

    for block in fenced(document, "toml"):
        Scenario.from_toml(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target
