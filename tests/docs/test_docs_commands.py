"""Every command and Python block in the README and docs is run, in a folder that looks like a fresh clone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ERROR = "airmix: error:"
# test_docs_privacy.py runs these, and compares what they print.
CHECKED_WORD_BY_WORD = "privacy.md"
# `make test` is what runs this test, and then the small reproduction.
NOT_AGAIN = {"make test", "make reproduce-quick"}


def fenced(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(document: Path) -> list[tuple[str, str]]:
    """Each command with the error line shown below it (empty: it must succeed)."""
    found: list[tuple[str, str]] = []
    for line in "".join(fenced(document, "console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith(ERROR):
            found[-1] = (found[-1][0], line)
    return found


def mnist_is_out_of_reach(command: str, stderr: str) -> bool:
    """Without MNIST a command must end in the line that says which files to put where."""
    return "mnist" in command and stderr.startswith(ERROR) and "train-images-idx3-ubyte" in stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for entry in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src", "examples", ".venv"):
        (tmp_path / entry).symlink_to(ROOT / entry)
    return tmp_path


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if path.name != CHECKED_WORD_BY_WORD], ids=lambda path: path.name
)
def test_commands(document: Path, clone: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command, shown_error in commands(document):
        if command in NOT_AGAIN:
            continue
        done = subprocess.run(
            ["bash", "-c", command], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        if shown_error:
            assert (done.returncode, done.stderr.strip()) == (2, shown_error), command
        else:
            assert done.returncode == 0 or mnist_is_out_of_reach(command, done.stderr), f"{command}\n{done.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks(document: Path, tmp_path: Path) -> None:
    for block in fenced(document, "python"):
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block}\n{done.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_toml_blocks_are_scenarios(document: Path) -> None:
    from airmixml import Scenario

    for block in fenced(document, "toml"):
        Scenario.from_toml(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target
