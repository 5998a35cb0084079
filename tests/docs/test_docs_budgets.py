"""The commands of docs/budgets.md, in their order and in one folder, and its Python block."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "budgets.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_commands_do_what_is_shown(airmix: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    (block,) = re.findall(r"^```console\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    lines = block.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("$ airmix "):
            done = airmix(*shlex.split(line)[2:])
            shown = after if after.startswith("airmix: error:") else ""
            assert (done.returncode, done.stderr.strip()) == (2 if shown else 0, shown), line


def test_two_runs_at_epsilon_1_cost_what_is_said() -> None:
    from airmixml.privacy import gaussian_epsilon
    from airmixml.privacy.gaussian import gaussian_mu

    assert round(gaussian_epsilon(2**0.5 * gaussian_mu(1.0, 1e-4), 1e-4), 1) == 1.5
    assert "two runs at epsilon 1 cost 1.5" in DOCUMENT


def test_the_python_block(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    with chdir(tmp_path):
        exec(compile(block, "block", "exec"), {})
    assert os.listdir(tmp_path) == ["own.sqlite"]
