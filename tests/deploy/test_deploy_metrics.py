"""/healthz and /metrics: numbers of all workers together, in the format that Prometheus reads, and nobody's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from deploy_histories import WORKERS, keys, small_contract
from test_deploy_status import Clock, devices, watching

from airmixml.deploy.endpoint import DeployError, Endpoint
from airmixml.deploy.journal import Journal
from airmixml.deploy.metrics import METRICS, serving_metrics
from airmixml.deploy.server import Server
from airmixml.deploy.wire import Type

# A line of the text format 0.0.4 without labels, as its description at prometheus.io has it.
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*) (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)")
COMMENT = re.compile(r"# (HELP [a-zA-Z_:][a-zA-Z0-9_:]* .+|TYPE [a-zA-Z_:][a-zA-Z0-9_:]* (counter|gauge))")


def read(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return answer.status, answer.read().decode()
    except HTTPError as problem:
        return problem.code, problem.read().decode()


def samples(text: str) -> dict[str, float]:
    found, typed = {}, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("#"):
            assert COMMENT.fullmatch(line), line
            typed.add(line.split()[2])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert match[1] not in found
        assert match[1] in typed
        found[match[1].removeprefix("airmix_")] = float(match[2])
    return found


@pytest.fixture
def server(tmp_path: Path) -> Server:
    contract = small_contract()
    return Server(contract, keys()[1], Journal(tmp_path / "journal", contract.run))


def test_numbers_are_those_of_the_run(server: Server, tmp_path: Path) -> None:
    clock = Clock()
    watch, others = watching(clock), devices(server, tmp_path)
    with serving_metrics(watch, 0) as port:
        before = samples(read(port, "/metrics")[1])
        assert before.keys() == METRICS.keys()
        assert (before["workers_expected"], before["workers_present"], before["uptime_seconds"]) == (WORKERS, 0, 0)
        (order,) = server.asking()
        said = [answer for number in range(1, WORKERS) for answer in others[number].handle(order.message)]
        server.handle(said)
        clock.now = 11.0
        watch(server, said)
        server.handle(said[:1])  # came before
        clock.now = 12.0
        watch(server, [])
        after = samples(read(port, "/metrics?job=airmix")[1])
    assert {name: after[name] for name in ("workers_present", "round", "rounds_done", "rounds_planned")} == {
        "workers_present": WORKERS - 1,
        "round": 0,
        "rounds_done": 0,
        "rounds_planned": 2,
    }
    assert after["messages_received_total"] == WORKERS - 1
    assert after["bytes_received_total"] == sum(len(each.packed()) for each in said)
    assert after["messages_refused_total"] == 1
    assert after["uptime_seconds"] == 12.0
    assert after["released"] == 0
    watch.released = True
    assert watch.numbers()["released"] == 1


def test_silent_workers_and_refusals_are_counted(server: Server, tmp_path: Path) -> None:
    watch, others = watching(Clock()), devices(server, tmp_path)
    (order,) = server.asking()
    said = [answer for number in range(1, WORKERS) for answer in others[number].handle(order.message)]
    ledger = others[0].spending
    ledger.begin(0, 0, 0)
    (refusal,) = others[0].handle(order.message)
    assert refusal.type is Type.REFUSAL
    server.handle([*said, refusal])
    watch(server, [*said, refusal])
    assert watch.numbers()["worker_refusals_total"] == 1
    assert watch.numbers()["workers_dropped"] == 1


def test_nothing_tells_who_the_workers_are(server: Server, tmp_path: Path) -> None:
    """All that identifies somebody in the contract and the endpoints is looked for in all that the port answers."""
    endpoint = Endpoint("server", "127.0.0.1", 4000, WORKERS)
    watch, others = watching(Clock(), endpoint), devices(server, tmp_path)
    hellos = [each.hello() for each in others.values()]
    server.handle(hellos)
    watch(server, hellos)
    with serving_metrics(watch, 0) as port:
        told = "".join(
            read(port, path)[1] for path in ("/metrics", "/healthz", "/", "/metrics/worker-3", "/..", "/api/status")
        )
    contract = server.contract
    words = re.findall(r"[a-z0-9.:-]+", told.lower())
    for secret in (*endpoint.names, *(f"gateway-{number}" for number in range(WORKERS)), endpoint.host, "4000"):
        assert secret not in words
    for key in (*(each.verifying_key for each in contract.members), contract.server_key, contract.run.hex()):
        assert not any(key[start : start + 8] in told for start in range(0, len(key), 8))
    assert not re.search(r"[{}]", told), "no labels, which would tell workers apart"
    assert not re.search(r"worker-?\d|\d+\.\d+\.\d+\.\d+", told)


def test_health_is_lost_with_the_run(server: Server) -> None:
    clock = Clock()
    watch = watching(clock)
    with serving_metrics(watch, 0) as port:
        assert read(port, "/healthz") == (200, "ok\n")
        clock.now = 80.0  # a deadline of 10 s, and a minute
        assert read(port, "/healthz") == (503, "the run has stood still for 80 s\n")
        watch(server, [])
        assert read(port, "/healthz") == (200, "ok\n")
        assert read(port, "/api/status")[0] == 404
        with pytest.raises(HTTPError, match="501"):
            urlopen(Request(f"http://127.0.0.1:{port}/metrics", data=b"x", method="POST"), timeout=60)
        with pytest.raises(DeployError, match=f"--status-port = {port}: cannot be used"), serving_metrics(watch, port):
            pass
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60)


def test_a_server_refuses_a_port_that_is_none(airmix: Any) -> None:
    done = airmix("server", "nowhere", "--status-port", "70000")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--status-port" in done.stderr
