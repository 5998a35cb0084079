"""The first screen: what README shows below ``make demo`` is what it prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Rows = dict[str, tuple[str, str]]
ACCURACIES = re.compile(r"([\d.]+) ± ([\d.]+) %")
OUTER_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}  # a make inside a make prints its directory
PICTURE = re.compile(r"picture: runs/demo\.png \(\d+ s\)")


def rows_of(output: str) -> Rows:
    """Name of each row with its two cells, lines that belong together joined."""
    rows: Rows = {}
    name = ""
    for line in output.splitlines():
        if line.startswith("│"):
            first, *cells = (cell.strip() for cell in line.strip("│").split("│"))
            name = first or name
            before = rows.get(name, ("", ""))
            rows[name] = (f"{before[0]} {cells[0]}".strip(), f"{before[1]} {cells[1]}".strip())
    return rows


@pytest.fixture(scope="module")
def shown() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^\$ make demo\n```\n\n```text\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    clone = tmp_path_factory.mktemp("clone")
    for entry in ("README.md", "LICENSE", "src"):
        (clone / entry).symlink_to(ROOT / entry)
    for folder in ("tools", ".venv"):
        (clone / folder).mkdir()
    (clone / ".venv" / "bin").symlink_to(Path(sys.executable).parent)  # the environment of this test, set up already
    (clone / ".venv" / ".runs").touch()
    for entry in ("Makefile", "pyproject.toml", "constraints.txt", "tools/install.py"):
        shutil.copy(ROOT / entry, clone / entry)
        os.utime(clone / entry, (0, 0))  # older than the environment
    environment = {name: value for name, value in os.environ.items() if name not in OUTER_MAKE}
    done = subprocess.run(
        ["make", "demo"],
        cwd=clone,
        env={**environment, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (clone / "runs" / "demo.png").is_file()
    return done.stdout


def test_the_shape(shown: str, printed: str) -> None:
    assert shown.splitlines()[0].rstrip() == printed.splitlines()[0].rstrip()
    assert list(rows_of(shown)) == list(rows_of(printed))
    assert PICTURE.fullmatch(shown.splitlines()[-1])
    assert PICTURE.fullmatch(printed.splitlines()[-1])


def test_what_does_not_depend_on_the_processor(shown: str, printed: str) -> None:
    """Everything but the accuracies, in words and to three digits."""
    expected, found = rows_of(shown), rows_of(printed)
    for name, cells in expected.items():
        for cell, other in zip(cells, found[name], strict=True):
            if ACCURACIES.search(cell):
                continue
            if re.fullmatch(r"[\d.e+]+", cell):
                assert float(other) == pytest.approx(float(cell), rel=2e-3), name
            else:
                assert other == cell, name


def test_accuracies_within_what_processors_differ_by(shown: str, printed: str) -> None:
    """A network's five final epochs differ by a few points in their mean; a linear classifier's hardly at all."""
    expected, found = rows_of(shown), rows_of(printed)
    for name, tolerances in (("accuracy, 5 seeds", (12.0, 2.0)), ("best epoch of 50", (12.0,))):
        for cell, other, tolerance in zip(expected[name], found[name], tolerances, strict=False):
            before, after = ACCURACIES.fullmatch(cell), ACCURACIES.fullmatch(other)
            assert before is not None
            assert after is not None
            assert float(after[1]) == pytest.approx(float(before[1]), abs=tolerance)
            assert 0.0 < float(after[2]) < 25.0
    paper, private = (float(ACCURACIES.findall(cell)[0][0]) for cell in found["accuracy, 5 seeds"])
    assert paper + 10.0 < private
