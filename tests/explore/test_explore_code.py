"""Nothing in the working folder is taken for a module, whatever is started there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

HOSTILE = """
from pathlib import Path
Path({mark!r}).touch()
raise SystemExit(3)
"""
COMMAND = "from airmixml.cli.main import main\nif __name__ == '__main__':\n    main()\n"
ENGINE = """
from airmixml.engines.processes import run_in_processes

def prepare(shared):
    return lambda item, tell: shared + item

if __name__ == "__main__":
    print(sorted(run_in_processes(prepare, 1, [1, 2], 2)))
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a script in a folder of its own, beside a working folder that is full of what Python imports first."""
    for name in ("selectors", "typer", "signal", "airmixml"):
        (tmp_path / f"{name}.py").write_text(HOSTILE.format(mark=str(tmp_path / "ran")))

    def written(content: str) -> Path:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "script.py").write_text(content)
        return tmp_path / "bin" / "script.py"

    return written


@pytest.mark.long
def test_the_explorer_and_its_runs_import_nothing_from_the_working_folder(
    start_python: Start, script: Callable[[str], Path], tmp_path: Path
) -> None:
    explorer = start_python(script(COMMAND), "explore", "--no-browser", "--port", "0")
    assert explorer.stdout is not None
    link = explorer.stdout.readline().split()[2]
    page, browser = link.partition("?")[0], build_opener(HTTPCookieProcessor())
    browser.open(link).close()

    def post(path: str, body: dict[str, object]) -> bytes:
        headers = {"content-type": "application/json"}
        with browser.open(Request(page + path, json.dumps(body).encode(), headers)) as answer:
            content: bytes = answer.read()
            return content

    small = {"preset": "paper-iris", "overrides": {"radio.slots": 20, "learner.epochs": 1}}
    refused = {"preset": "paper-iris", "overrides": {"privacy.accountant": "gdp"}}  # so that nothing heavy is computed
    parts = [json.loads(line)["part"] for line in post("api/design", refused).splitlines()]
    assert "curves" in parts or "options" in parts or "account" in parts, "a process computed it"
    name = json.loads(post("api/runs", small))["name"]
    while True:
        with browser.open(f"{page}api/runs/{name}") as answer:
            told = json.load(answer)
        if told["state"] != "running":
            break
    assert not (tmp_path / "ran").exists()
    assert told["state"] == "finished", told


def test_processes_of_a_script_import_nothing_from_the_working_folder(
    start_python: Start, script: Callable[[str], Path], tmp_path: Path
) -> None:
    child = start_python(script(ENGINE))
    out, err = child.communicate()
    assert not (tmp_path / "ran").exists()
    assert out == "[(1, 2), (2, 3)]\n", err
