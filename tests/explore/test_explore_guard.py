"""Who is answered: a browser on this machine that used a link; it sees nothing outside the runs folder."""

from __future__ import annotations

import json
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from airmixml.explore.guard import Guard

PAGES = ["/", "/pages/main.js", "/plotly.min.js", "/api/choices", "/api/runs", "/api/runs/x", "/runs/x/metrics.json"]


def cookie_of(answer: Any) -> Morsel[str]:
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return cookie


@pytest.mark.parametrize("path", [*PAGES, "/?ticket=", "/?ticket=another", "/?ticket=%ff&ticket=a"])
def test_nothing_is_shown_without_a_link(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "airmix explore" in answer.text
    assert "set-cookie" not in answer.headers
    assert answer.headers["connection"] == "close"


def test_a_link_becomes_a_cookie_that_no_script_reads_and_no_other_site_or_port_gets(
    stranger: TestClient, guard: Guard
) -> None:
    answer = stranger.get(guard.new_link())
    cookie = cookie_of(answer)
    assert answer.status_code == 200
    assert cookie["httponly"]
    assert cookie["samesite"] == "strict"
    # All ports of a host share their cookies, but for those of a path that another user's server cannot know.
    assert cookie["path"] == guard.path
    assert len(guard.path) > 12
    assert stranger.get("/").status_code == 200


def test_a_link_works_once(stranger: TestClient, guard: Guard) -> None:
    link = guard.new_link()
    stranger.get(link)
    assert (again := stranger.get(link)).status_code == 303, "the browser that used it goes to the page"
    assert again.headers["location"] == guard.path
    stranger.cookies.clear()
    refused = stranger.get(link)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert "press Enter in the terminal" in refused.text
    assert link.partition("ticket=")[2] not in refused.text


def test_another_link_voids_the_one_before(stranger: TestClient, guard: Guard) -> None:
    old, new = guard.new_link(), guard.new_link()
    assert stranger.get(old).status_code == 403
    assert stranger.get(new).status_code == 200


def test_only_fetching_a_link_uses_it(stranger: TestClient, guard: Guard) -> None:
    link = guard.new_link()
    for method in ("HEAD", "POST", "PUT"):
        assert stranger.request(method, link).status_code == 403
    assert stranger.get(link.replace("/?", "/api/choices?")).status_code == 403
    assert stranger.get(link, headers={"host": "evil.example:8799"}).status_code == 403
    assert stranger.get(link).status_code == 200


def test_neither_address_nor_cookie_is_the_other(stranger: TestClient, guard: Guard) -> None:
    """Who sees the address cannot make the cookie of it, nor the other way round."""
    link = guard.new_link()
    ticket = link.partition("ticket=")[2]
    cookie = cookie_of(stranger.get(link))
    assert ticket not in (cookie.value, guard.path)
    stranger.cookies.clear()
    for value in ("another", "", ticket):
        assert stranger.get("/", headers={"cookie": f"{cookie.key}={value}"}).status_code == 403
    assert stranger.get("/", headers={"cookie": f"{cookie.key}2={cookie.value}"}).status_code == 403
    assert stranger.get(f"/?ticket={cookie.value}").status_code == 403


def test_odd_cookies_of_other_programs_lock_nobody_out(client: TestClient) -> None:
    (own,) = (f"{name}={value}" for name, value in client.cookies.items())
    client.cookies.clear()
    for others in ('a={"b": [1, "x"]}', '="; ;;', "caf\xe9=\xe9", "[=]"):
        assert client.get("/", headers={"cookie": f"{others}; {own}".encode("latin-1")}).status_code == 200
        assert client.get("/", headers={"cookie": others.encode("latin-1")}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example:8799", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:8799", ""])
def test_another_name_for_this_machine_is_refused(client: TestClient, guard: Guard, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 403
    assert client.get(guard.new_link(), headers={"host": host}).status_code == 403


def test_localhost_is_this_machine(client: TestClient) -> None:
    assert client.get("/", headers={"host": "localhost:8799"}).status_code == 200


def test_nothing_is_shown_outside_its_path(client: TestClient, guard: Guard) -> None:
    (own,) = (f"{name}={value}" for name, value in client.cookies.items())
    for path in ("/", "/api/runs", guard.path[:-1], guard.path[:-2] + "/api/runs", guard.path.upper() + "api/runs"):
        assert client.get(f"http://127.0.0.1:8799{path}", headers={"cookie": own}).status_code == 403, path


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
    client.follow_redirects = True
    (runs / "plain").mkdir()
    (runs / "plain" / "report.html").write_text("its report")
    assert client.get("/runs/plain/report.html").text == "its report"
    for path in (
        "/runs/own/scenario.toml",
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
        assert answer.status_code in (400, 403, 404, 405), path
        assert answer.text != "{}"
    assert [each["name"] for each in client.get("/api/runs").json()["runs"]] == ["own"]


@pytest.mark.parametrize("name", ["..%2fx", "a%2fb", ".explore", "%00", "a%5cb"])
@pytest.mark.parametrize("action", ["cancel", "resume"])
def test_no_run_outside_the_runs_folder_is_touched(client: TestClient, name: str, action: str) -> None:
    assert client.post(f"/api/runs/{name}/{action}", json={}).status_code in (400, 404)


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", "1e3", " "])
def test_lengths_that_are_none_are_refused(client: TestClient, length: str) -> None:
    headers = {"content-type": "application/json", "content-length": length.encode("latin-1")}
    assert client.post("/api/watch", content=b"{}", headers=headers).status_code == 413


def test_websockets_are_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/runs"):
        pass
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "a", "sec-websocket-version": "13"}
    assert client.get("/api/runs", headers=upgrade).status_code == 400


def test_reports_of_others_may_only_show_themselves(client: TestClient, guard: Guard, tmp_path: Path) -> None:
    """A report may hold anything: it runs no script, asks for nothing, and its address opens nothing else."""
    for name in ("foreign", "own"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "report.html").write_text("<script>fetch('/api/runs', {method: 'POST'})</script>")
    sent = client.get("/runs/foreign/report.html")
    assert sent.status_code == 303
    address = sent.headers["location"]
    assert guard.path.strip("/") not in address
    client.cookies.clear()
    answer = client.get(f"http://127.0.0.1:8799{address}")
    assert "<script>" in answer.text, "the address is enough"
    policy = answer.headers["content-security-policy"]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["sandbox"] == ""
    assert rules["default-src"] == "'none'"
    assert not {"script-src", "connect-src", "form-action", "frame-src"} & set(rules)
    root = address.partition("/runs/")[0]
    for other in (
        f"{root}/runs/own/report.html",
        f"{root}/runs/foreign/metrics.json",
        f"{root}/runs/foreign/../own/report.html",
        f"{root}/api/runs",
        f"{root}/",
        f"{guard.path}runs/own/report.html",
    ):
        assert client.get(f"http://127.0.0.1:8799{other}").status_code == 403, other
    assert client.post(f"http://127.0.0.1:8799{address}", json={}).status_code == 405


def test_cookies_of_the_same_name_lock_nobody_out(client: TestClient, tmp_path: Path) -> None:
    """Every server of this host can set one, and browsers send both, in either order."""
    ((name, value),) = client.cookies.items()
    client.cookies.clear()
    for both in (f"{name}=x; {name}={value}", f"{name}={value}; {name}=x"):
        assert client.get("/", headers={"cookie": both}).status_code == 200
    assert client.get("/", headers={"cookie": f"{name}=x; {name}=y"}).status_code == 403
    another = Guard(client.app, 8799)
    other = TestClient(another, base_url=f"http://127.0.0.1:8799{another.path}")
    assert cookie_of(other.get(another.new_link())).key != name, "nor can a name be foreseen"
