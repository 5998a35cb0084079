"""Who is answered: this machine's browser with the token, at this address, and with nothing outside the runs folder."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from starlette.testclient import TestClient

PAGES = ["/", "/pages/main.js", "/plotly.min.js", "/api/choices", "/api/runs", "/api/runs/x", "/runs/x/metrics.json"]


@pytest.mark.parametrize("path", [*PAGES, "/?token=", "/?token=another", "/api/choices?token=a-token-of-tests"])
def test_nothing_is_shown_without_the_token(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "airmix explore" in answer.text
    assert "set-cookie" not in answer.headers


def test_a_cookie_of_another_value_is_no_token(stranger: TestClient) -> None:
    for cookie in ("airmix-8799=another", "airmix-8799=", "airmix-8798=a-token-of-tests", '="; ;;'):
        assert stranger.get("/", headers={"cookie": cookie}).status_code == 403


def test_the_token_becomes_a_cookie_that_no_script_reads_and_no_other_site_sends(stranger: TestClient) -> None:
    answer = stranger.get("/?token=a-token-of-tests")
    cookie = SimpleCookie(answer.headers["set-cookie"])["airmix-8799"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert cookie["httponly"]
    assert cookie["samesite"] == "strict"
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize("host", ["evil.example:8799", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:8799", ""])
def test_another_name_for_this_machine_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 403
    assert client.get("/?token=a-token-of-tests", headers={"host": host}).status_code == 403


def test_localhost_is_this_machine(client: TestClient) -> None:
    cookie = "airmix-8799=a-token-of-tests"
    assert client.get("/", headers={"host": "localhost:8799", "cookie": cookie}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:80"])
def test_another_site_is_refused(client: TestClient, origin: str) -> None:
    assert client.post("/api/runs", json={"preset": "paper-iris"}, headers={"origin": origin}).status_code == 403
    assert client.get("/api/choices", headers={"origin": origin}).status_code == 403


def test_what_changes_things_is_posted_as_json_of_moderate_size(client: TestClient) -> None:
    asked = json.dumps({"preset": "paper-iris"})
    assert client.post("/api/runs", content=asked, headers={"content-type": "text/plain"}).status_code == 415
    large = json.dumps({"toml": "#" * 1_200_000})
    assert client.post("/api/design", content=large, headers={"content-type": "application/json"}).status_code == 413
    in_pieces = client.post(
        "/api/design", content=iter([b"{", b"}"]), headers={"content-type": "application/json"}
    )  # without a length
    assert in_pieces.status_code == 413
    assert client.put("/api/runs", json={}).status_code == 405
    assert client.get("/api/runs/x/cancel").status_code == 405
    assert client.post("/api/watch", content=b"[", headers={"content-type": "application/json"}).status_code == 400


def test_pages_bind_the_browser(client: TestClient) -> None:
    for path in ("/", "/api/choices", "/pages/style.css"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert headers["cache-control"] == "no-store"


def test_pages_name_nothing_of_another_host(client: TestClient) -> None:
    """The explorer works without a network."""
    pages = Path(__file__).parents[2] / "src" / "airmixml" / "explore" / "pages"
    for page in pages.iterdir():
        text = page.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, page.name
        assert client.get(f"/pages/{page.name}").status_code == 200


@pytest.mark.parametrize("name", ["..%2fapp.py", "%2e%2e/app.py", "app.py", "..%2f..%2fversion.py", "missing.js", "."])
def test_only_pages_are_pages(client: TestClient, name: str) -> None:
    assert client.get(f"/pages/{name}").status_code in (404, 403)


def test_no_file_outside_the_runs_folder_is_shown(client: TestClient, tmp_path: Path) -> None:
    runs, outside = tmp_path / "runs", tmp_path / "outside"
    for folder in (runs / "own", outside):
        folder.mkdir(parents=True)
        for name in ("metrics.json", "scenario.toml", "secret.txt"):
            (folder / name).write_text("{}")
    (runs / "link").symlink_to(outside)
    (runs / "own" / "report.html").symlink_to(outside / "secret.txt")
    assert client.get("/runs/own/scenario.toml").text == "{}"
    for path in (
        "/runs/own/secret.txt",
        "/runs/own/..%2f..%2foutside/metrics.json",
        "/runs/..%2foutside/metrics.json",
        "/runs/%2e%2e/metrics.json",
        "/runs/link/metrics.json",
        "/runs/own/report.html",
        "/api/runs/..%2foutside",
        "/api/runs/link",
        "/api/runs/.explore",
    ):
        answer = client.get(path)
        assert answer.status_code in (400, 404, 405), path
        assert answer.text != "{}"
    assert [each["name"] for each in client.get("/api/runs").json()["runs"]] == ["own"]


@pytest.mark.parametrize("name", ["..%2fx", "a%2fb", ".explore", "%00", "a%5cb"])
@pytest.mark.parametrize("action", ["cancel", "resume", "forget"])
def test_no_run_outside_the_runs_folder_is_touched(client: TestClient, name: str, action: str) -> None:
    assert client.post(f"/api/runs/{name}/{action}", json={}).status_code in (400, 404)
