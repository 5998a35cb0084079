"""docs/deploy.md: its commands are run in their order, and its tables are those that were measured."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
LAST_RESORT = 600.0


def test_its_tables_are_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    measure = import_module("measure_deploy")
    kept = json.loads(measure.RESULTS.read_text(encoding="utf-8"))
    tables = measure.size_tables(kept)
    assert measure.csv_text(tables.pop("phases")) == measure.TIMES.read_text(encoding="utf-8")
    assert measure.with_tables(PAGE, tables) == PAGE
    for each in kept.values():
        assert each["present"] == each["workers"]
        assert sum(each["phases"].values()) == pytest.approx(each["seconds"])


def test_the_page_on_security_is_found_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for page, link in (
        ("README.md", "(SECURITY.md)"),
        ("docs/project.md", "(security.md)"),
        ("docs/deploy.md", "(security.md)"),
        ("docs/trust.md", "(security.md)"),
        ("docs/security.md", "{include} ../SECURITY.md"),
    ):
        assert link in (ROOT / page).read_text(encoding="utf-8"), page
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", text)
    assert len(links) >= 8
    for path, anchor in links:
        page = (ROOT / path).read_text(encoding="utf-8")
        headings = [re.sub(r"[^a-z0-9 -]", "", each.lower()) for each in re.findall(r"^#+ (.*)$", page, re.MULTILINE)]
        assert not anchor or anchor in [each.replace(" ", "-") for each in headings], (path, anchor)
    for part in ("## What is promised", "## What is not promised", "## Report a problem", "working days"):
        assert part in text


def test_it_says_what_one_hostile_worker_can_do() -> None:
    """Behind masks nobody checks a norm: a test of the sum shows how far one frame moves it."""
    for page in (PAGE, (ROOT / "SECURITY.md").read_text(encoding="utf-8")):
        words = " ".join(page.split())
        assert "nobody checks a norm" in words
        assert "as far as the modulus goes" in words
        assert "within their norm" not in words


@pytest.mark.deploy
@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists(), reason="mosquitto is not there"
)
def test_from_nothing_to_a_running_system(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(script: str) -> str:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LAST_RESORT,
            check=False,
        )
        assert done.returncode == 0, (script, done.stderr)
        return done.stdout + done.stderr

    commands = [line[2:] for block in _blocks("console") for line in block.splitlines() if line.startswith("$ airmix")]
    assert [each.split()[1] for each in commands] == ["deploy", "predict"]
    told = run(commands[0])
    assert re.search(r"worker-\d\d: killed\b", told)
    assert "accuracy" in run(commands[1])
    (by_hand,) = _blocks("sh")
    told = run(f"set -e\n{by_hand}")
    assert "model.npz: learned from 5 rounds" in told
    assert "status page at http://127.0.0.1:" in told
    assert len(list((tmp_path / "system" / "devices").glob("*/ledger"))) == 16
    assert re.search(r"accuracy [0-9.]+ % on 7 rows", told)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
