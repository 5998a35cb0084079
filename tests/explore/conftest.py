from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from airmixml.explore.app import Explorer
from airmixml.explore.guard import Guard

sys.path.insert(0, str(Path(__file__).parent))
from explorer_process import ExplorerProcess

PORT = 8799


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    """An explorer of the empty folder ``runs``."""
    return Guard(Explorer(tmp_path / "runs").app, PORT)


@pytest.fixture
def stranger(guard: Guard) -> Iterator[TestClient]:
    """A browser at the explorer's address that was given no link."""
    address = f"http://127.0.0.1:{PORT}{guard.path}"
    with TestClient(guard, base_url=address, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient, guard: Guard) -> TestClient:
    """The same after it has used a link."""
    assert stranger.get(guard.new_link()).status_code == 200
    return stranger


@pytest.fixture
def explorer(start_python: Callable[..., subprocess.Popen[str]]) -> Iterator[ExplorerProcess]:
    """The command as a process with a terminal, without a browser, in an empty folder."""
    process = ExplorerProcess(start_python, "--no-browser")
    yield process
    process.close()


@pytest.fixture
def design(client: TestClient) -> Callable[..., dict[str, Any]]:
    """Ask for the light parts of a design; return them by name, of several of one name the last."""

    def ask(preset: str = "paper-iris", **body: Any) -> dict[str, Any]:
        asked = {"preset": preset} if "toml" not in body else {}
        answer = client.post("/api/design", json={**asked, "light": True, **body})
        assert answer.status_code == 200, answer.text
        return {part["part"]: part for part in map(json.loads, answer.text.splitlines())}

    return ask
