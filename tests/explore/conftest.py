from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from airmixml.explore.app import Explorer
from airmixml.explore.guard import Guard

TOKEN, PORT = "a-token-of-tests", 8799
HERE = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[TestClient]:
    """A browser that asks an explorer of the empty folder ``runs`` and was given no token."""
    with TestClient(Guard(Explorer(tmp_path / "runs"), TOKEN, PORT), base_url=HERE, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    """The same with the token."""
    stranger.get(f"/?token={TOKEN}")
    return stranger


@pytest.fixture
def design(client: TestClient) -> Callable[..., dict[str, Any]]:
    """Ask for the light parts of a design; return them by name, of several of one name the last."""

    def ask(preset: str = "paper-iris", **body: Any) -> dict[str, Any]:
        asked = {"preset": preset} if "toml" not in body else {}
        answer = client.post("/api/design", json={**asked, "light": True, **body})
        assert answer.status_code == 200, answer.text
        return {part["part"]: part for part in map(json.loads, answer.text.splitlines())}

    return ask
