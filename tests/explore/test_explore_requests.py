"""Whatever is sent gets an answer that says what is wrong: never an error of the server."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from airmixml.explore.guard import Guard

JSON = {"content-type": "application/json"}
POSTED = ("/api/design", "/api/watch", "/api/runs", "/api/runs/x/cancel", "/api/runs/x/resume")
DEEP = '{"overrides": ' * 5000 + "1" + "}" * 5000


def test_a_long_name_of_a_page_is_none(client: TestClient) -> None:
    for name in ("n" * 300, "n" * 5000 + ".js", "%00", "a%00.js", "\u00e9.js", "%ff.js"):
        assert client.get(f"/pages/{name}").status_code == 404


BODIES = {
    "half a pair": '{"preset": "\\ud800"}',
    "half a pair in a file": '{"toml": "name = \\"\\ud800\\""}',
    "half a pair in a key": '{"preset": "paper-iris", "overrides": {"\\udfff": 1}}',
    "half a pair in a value": '{"preset": "paper-iris", "overrides": {"workers.dataset": "\\ud800.csv"}}',
    "nothing": "",
    "half": '{"preset": "paper-',
    "no UTF-8": b'{"preset": "\xff"}',
    "UTF-16": '{"preset": "paper-iris"}'.encode("utf-16")[:-1],
    "a byte-order mark": b'\xef\xbb\xbf{"preset": 1}',
    "deep": DEEP,
    "deep lists": "[" * 100_000,
    "a list": "[]",
    "a word": '"preset"',
    "a number": "1e999",
    "NaN": "NaN",
    "a huge number": "9" * 5000,
    "a huge seed": '{"preset": "paper-iris", "overrides": {"seed": ' + "9" * 4000 + "}}",
    "a huge fraction": '{"preset": "paper-iris", "overrides": {"privacy.epsilon": 1e400}}',
    "no number": '{"preset": "paper-iris", "overrides": {"privacy.epsilon": NaN}}',
    "a list for a number": '{"preset": "paper-iris", "overrides": {"radio.slots": [1, 2]}}',
    "a list of overrides": '{"preset": "paper-iris", "overrides": [1]}',
    "a name that is none": '{"preset": ["paper-iris"]}',
    "both": '{"preset": "paper-iris", "toml": ""}',
    "a file that is none": '{"toml": 5}',
    "an object as a file": '{"toml": {"a": 1}, "file": ["x"]}',
    "a path as a name": '{"toml": "a = = 1", "file": "../../etc/passwd\\u0000"}',
    "a nested file": json.dumps({"toml": "a = " + "[" * 5000}),
    "a pipe": json.dumps({"toml": '[workers]\ndataset = "/dev/stdin.csv"'}),
    "a table for a key": '{"preset": "paper-iris", "overrides": {"workers": 1}}',
    "an empty key": '{"preset": "paper-iris", "overrides": {"": 1}}',
    "an equals sign": '{"preset": "paper-iris", "overrides": {"a=b": "c=d"}}',
    "many": json.dumps({"preset": "paper-iris", "overrides": {f"k{n}": n for n in range(500)}}),
    "twice": '{"preset": "nope", "preset": "nor this"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_an_odd_body_is_refused(client: TestClient, body: str | bytes) -> None:
    for path in ("/api/watch", "/api/runs"):
        answer = client.post(path, content=body, headers=JSON)
        assert answer.status_code == 400, (path, answer.text)
        assert answer.json()["line"].count("\n") == 0
    answer = client.post("/api/design", content=body, headers=JSON)
    assert answer.status_code in (200, 400)
    assert json.loads(answer.text.splitlines()[0])["line"]


SLOTS: tuple[Any, ...] = (10**400, True, 1.5, None, "1", [1])
PLACES: tuple[Any, ...] = ({}, ["1", 2], [True, 1], "ab", [10**400, 1], [[], []])


@pytest.mark.parametrize("odd", [*({"slot": each} for each in SLOTS), *({"place": each} for each in PLACES)])
def test_an_odd_slot_is_refused(client: TestClient, odd: dict[str, Any]) -> None:
    assert client.post("/api/watch", json={"preset": "paper-iris", **odd}).status_code == 400


async def ask(guard: Guard, method: str, path: str, events: list[dict[str, Any]], **headers: str) -> Any:
    """Ask as a server does whose client sends these events; return the status."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return events.pop(0) if events else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1:8799", "content-type": "application/json", "content-length": "100", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8799),
        "method": method,
        "path": guard.path[:-1] + unquote(path.partition("?")[0]),
        "query_string": path.partition("?")[2].encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    await guard(scope, receive, send)
    return sent[0]["status"]


@pytest.fixture
def cookie(client: TestClient) -> str:
    client.get("/api/runs")  # until it is ready
    (found,) = (f"{name}={value}" for name, value in client.cookies.items())
    return found


@pytest.mark.parametrize("path", POSTED[:3])
def test_a_body_that_is_cut_off_is_no_error_of_the_server(guard: Guard, cookie: str, path: str) -> None:
    begun = {"type": "http.request", "body": b'{"preset": "pa', "more_body": True}
    for events in ([begun], [], [begun, begun]):
        assert asyncio.run(ask(guard, "POST", path, list(events), cookie=cookie)) == 400


def test_no_address_makes_an_error_of_the_server(guard: Guard, cookie: str) -> None:
    """All methods at all kinds of addresses, and random bytes; what a server would print is raised here."""
    draw = random.Random(1)
    names = [
        "x",
        "",
        ".",
        "..",
        "%2e%2e",
        "..%2f",
        "%00",
        "%ff",
        "%ed%a0%80",
        "n" * 300,
        "a b",
        "a%5cb",
        "{}",
        "%",
        "%e2%80%ae",
    ]
    roots = ["/", "/pages/", "/api/", "/api/choices", "/api/runs/", "/runs/", "/runs/x/", "/plotly.min.js", "//", "/?"]
    tails = [
        "",
        "/",
        "/cancel",
        "/resume",
        "/forget",
        "/nope",
        "/figures/a.png",
        "/report.html",
        "/metrics.json",
        "?a=%ff",
    ]
    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW", ""]
    paths = [root + name + tail for root in roots for name in names for tail in tails]
    paths += ["/" + "".join(f"%{draw.randrange(256):02x}" for _ in range(12)) for _ in range(100)]

    async def ask_all() -> None:
        for path in paths:
            body = {"type": "http.request", "body": b"{}", "more_body": False}
            how = {
                "range": draw.choice(["", "bytes=5-1", "bytes=-", "x", "bytes=0-"]),
                "if-range": "\xe9",
                "cookie": cookie,
            }
            status = await ask(guard, method := draw.choice(methods), path, [body], **how)
            assert status < 500, (method, path, status)

    asyncio.run(ask_all())


def test_no_body_makes_an_error_of_the_server(client: TestClient) -> None:
    """JSON of random shape, with the keys that are known, at every address that reads one."""
    draw = random.Random(2)
    leaves = [None, True, 0, -1, 1.5, 10**30, "", "a", "\x00", "é", "1e5", [], {}, "paper-iris", "x.csv", 1e308, [1, 2]]
    keys = [
        "preset",
        "toml",
        "overrides",
        "file",
        "slot",
        "place",
        "light",
        "workers.dataset",
        "radio.slots",
        "seed",
        "é",
    ]
    texts = [
        "",
        "seed = 1",
        "[workers]\ncount = 0",
        "[air]\npreset = 5",
        "extends = 1",
        "[privacy]\nepsilon = nan",
        "\x00",
    ]

    def odd(depth: int) -> Any:
        if depth == 0 or draw.random() < 0.3:
            return draw.choice(leaves)
        return {draw.choice(keys): odd(depth - 1) for _ in range(draw.randrange(5))}

    for _ in range(60):
        body = {"overrides": odd(1), **{draw.choice(keys): odd(2) for _ in range(draw.randrange(4))}, "light": True}
        if draw.random() < 0.5:
            body.pop("preset", None)
            body["toml"] = draw.choice(texts)
        for path in ("/api/design", "/api/watch"):
            assert client.post(path, json=body).status_code < 500, (path, body)
        if "preset" not in body or body["preset"] != "paper-iris":
            body["overrides"] = [body.get("overrides")]  # so that no run is started
            assert client.post("/api/runs", json=body).status_code == 400
    for path in POSTED[3:]:
        assert client.post(path, json=odd(2)).status_code < 500
