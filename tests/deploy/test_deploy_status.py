"""What a server shows of its run on its status page, in a real browser too."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import numpy as np
import pytest
from deploy_histories import WORKERS, keys, small_contract
from one_process import carry, new_ledger

from airmixml.deploy.compiling import data_of
from airmixml.deploy.endpoint import Endpoint
from airmixml.deploy.journal import Journal
from airmixml.deploy.server import Server
from airmixml.deploy.server_process import Status
from airmixml.deploy.trial import ROWS, deal_rows
from airmixml.deploy.worker import Device
from airmixml.explore.server import serving_status
from airmixml.streams import Streams
from airmixml.workers.population import deploy

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

SERVER = Endpoint("server", "127.0.0.1", 4000, WORKERS)
Start = Callable[..., "subprocess.Popen[str]"]


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(tmp_path: Path) -> Server:
    contract = small_contract()
    return Server(contract, keys()[1], Journal(tmp_path / "journal", contract.run))


def devices(server: Server, folder: Path) -> dict[int, Device]:
    contract, signing, ledger = server.contract, list(keys()[0].values()), new_ledger(server.contract, folder)

    def vector(kind: int, told: Any) -> Any:
        return np.zeros(contract.kinds[kind].numbers)

    return {number: Device(number, contract, key, vector, ledger) for number, key in enumerate(signing)}


def watching(clock: Clock, endpoint: Endpoint = SERVER, log: Callable[[str], None] = lambda line: None) -> Status:
    return Status(endpoint, 10.0, lambda sums: 0.5 + len(sums) / 10, log, clock)


def test_a_worker_is_silent_when_it_lets_a_deadline_pass_and_alive_when_it_is_heard(
    server: Server, clock: Clock, tmp_path: Path
) -> None:
    status, others = watching(clock), devices(server, tmp_path)
    hellos = [others[number].hello() for number in range(WORKERS)]
    status(server, hellos)
    assert status.plain["alive"] == WORKERS
    (order,) = server.asking()
    server.handle([answer for number in range(1, WORKERS) for answer in others[number].handle(order.message)])
    clock.now = 9.0
    status(server, [])
    assert status.plain["alive"] == WORKERS, "its deadline has not passed"
    clock.now = 11.0
    status(server, [])
    told = status.plain
    assert [each["alive"] for each in told["endpoints"]] == [0, *[1] * (WORKERS - 1)]
    assert [each["waited_for"] for each in told["endpoints"]] == [1, *[0] * (WORKERS - 1)]
    clock.now = 12.0
    status(server, hellos[:1])
    assert status.plain["alive"] == WORKERS


def test_all_workers_behind_a_gateway_are_heard_by_one_of_them_and_counted(
    server: Server, clock: Clock, tmp_path: Path
) -> None:
    status = watching(clock, Endpoint("server", "127.0.0.1", 4000, WORKERS, gateways=2))
    status(server, [devices(server, tmp_path)[0].hello()])
    first, second = status.plain["endpoints"]
    assert (first["workers"], first["alive"], first["name"]) == (WORKERS // 2, WORKERS // 2, "gateway-0")
    assert (second["alive"], second["heard_seconds"]) == (0, None)


def test_a_run_is_told_by_its_phases_and_sums(server: Server, clock: Clock, tmp_path: Path) -> None:
    from airmixml.workers.payloads import Broadcast

    kind = server.contract.kinds[1]
    outputs = len(server.contract.outputs)
    told = Broadcast(
        weights=np.zeros((kind.numbers // outputs, outputs)),
        biases=np.zeros(outputs),
        clip=1.0,
        link=server.contract.plan.score_link,
    )
    server._tell = lambda sums: told
    lines: list[str] = []
    status = watching(clock, log=lines.append)
    status(server, [])
    before = status.plain
    assert (before["rounds_done"], before["rounds_planned"], before["phase"]) == (0, 2, "announcing")
    assert before["spent"] == 0.0
    carry(server, devices(server, tmp_path))
    clock.now = 2.5
    status(server, [])
    after = status.plain
    contract = server.contract
    assert after["spent"] == pytest.approx(sum(each.cost for each in contract.kinds) / contract.budget)
    assert (after["rounds_done"], after["phase"], after["accuracy"]) == (2, "over", [0.6, 0.7])
    assert lines == ["round 0: announcing", "all rounds are over"]


@pytest.mark.parametrize("gateways", [0, 2])
def test_rows_are_dealt_as_a_simulation_deals_them(tmp_path: Path, gateways: int) -> None:
    contract = small_contract()
    scenario, endpoint = contract.plan, Endpoint("server", "127.0.0.1", 4000, WORKERS, gateways)
    dataset = data_of(scenario)
    for name in endpoint.names:
        own = tmp_path / ("gateways" if gateways else "devices") / name
        own.mkdir(parents=True)
        Endpoint(name, "127.0.0.1", 4000, WORKERS, gateways).write(own)
    assert deal_rows(scenario, dataset, tmp_path, endpoint) == [5] * WORKERS
    holdings = deploy(scenario.workers, dataset, Streams(scenario.seed)).holdings
    assert holdings is not None
    for name in endpoint.names:
        path = tmp_path / ("gateways" if gateways else "devices") / name / ROWS
        with np.load(path) as file:
            inputs, labels = contract.encoder.encode(file["inputs"]), file["labels"]
        rows = np.concatenate([holdings.rows[number] for number in endpoint.numbers(name)])
        np.testing.assert_array_equal(inputs, dataset.train_inputs[rows])
        assert labels.tolist() == [dataset.class_names[each] for each in dataset.train_labels[rows]]
        contract.payload(0, path, len(endpoint.numbers(name)))


def told_by_a_server() -> dict[str, Any]:
    def endpoint(number: int, **others: Any) -> dict[str, Any]:
        own = {"name": f"worker-{number:02}", "workers": 1, "alive": 1, "waited_for": 0, "spent": 0.33}
        return {**own, "heard_seconds": 0.2, **others}

    return {
        "name": "<b>trial</b>",  # a scenario's name is a user's
        "round": 2,
        "attempt": 1,
        "phase": "sending",
        "rounds_done": 2,
        "rounds_planned": 5,
        "workers": 16,
        "alive": 15,
        "fewest": 14,
        "spent": 0.308,
        "epsilon": 10.0,
        "delta": 1e-5,
        "accuracy": [0.817, 0.733],
        "failure": "",
        "endpoints": [
            *(endpoint(number) for number in range(15)),
            endpoint(15, alive=0, waited_for=1, spent=0.095, heard_seconds=14.0),
        ],
    }


def test_the_status_page_is_guarded_as_the_explorer_is() -> None:
    links: list[str] = []
    with serving_status(told_by_a_server, links.append):
        page = links[0].partition("?")[0]
        with pytest.raises(HTTPError, match="403") as refused:
            urlopen(f"{page}api/status")
        assert "airmix server --status" in refused.value.read().decode()
        opener = build_opener(HTTPCookieProcessor())
        for address in (links[0], page, f"{page}pages/status.js"):
            with opener.open(address) as answer:
                assert answer.status == 200
        with opener.open(f"{page}api/status") as answer:
            assert json.load(answer) == told_by_a_server()
        with pytest.raises(HTTPError, match="403"):
            urlopen(links[0])  # a link works once


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1360, False), (390, False), (390, True)])
def test_the_page_in_a_browser(width: int, dark: bool) -> None:
    kit = pytest.importorskip("explore_kit")
    if kit.why_no_browser():
        pytest.skip(kit.why_no_browser())
    state = told_by_a_server()
    with (
        serving_status(lambda: state, lambda link: None) as new_link,
        kit.open_browser(width, 800, dark=dark) as browser,
    ):
        browser.get(new_link(lambda: None))

        def text(place: str) -> str:
            return str(browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", place))

        kit.wait_until(lambda: "15 of 16" in text("#facts"), "the facts")
        assert text("#name") == "<b>trial</b>"
        assert text("#verdict") == "Round 2, attempt 1: sending."
        for fact in ("2 of 5", "31 %", "epsilon 10, delta 1e-5", "73.3 %"):
            assert fact in text("#facts")
        assert text("[data-name=worker-15]") == "worker-15silent9.5 %14 s ago"
        assert browser.execute_script("return document.querySelectorAll('#accuracy circle').length") == 2
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        inside = "return document.querySelector('.scroll').scrollWidth <= document.querySelector('.scroll').clientWidth"
        assert browser.execute_script(inside), "nothing of the table is cut"
        small = "return Math.min(...[...document.querySelectorAll('td')].map((e) => e.getBoundingClientRect().height))"
        assert browser.execute_script(small) >= 20
        state["phase"], state["accuracy"], state["rounds_done"] = "over", [0.817, 0.733, None, 0.9, 0.95], 5
        kit.wait_until(lambda: text("#verdict") == "All rounds are done.", "the end")
        assert "95.0 %" in text("#facts")
        assert kit.problems_of(browser) == []


@pytest.mark.deploy
@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists(), reason="mosquitto is not there"
)
def test_a_server_prints_the_link_of_its_page_and_ends_it_with_itself(
    start_python: Start, airmix: Any, tmp_path: Path
) -> None:
    assert airmix("deploy", "init", "--preset", "trustless-wine", "--out", "system").returncode == 0
    server = start_python("-m", "airmixml", "server", "system", "--with-broker", "--status")
    assert server.stderr is not None
    while not (found := re.search(r"status page at (http://127\.0\.0\.1\S+)", line := server.stderr.readline())):
        assert line, "the server has ended"
    page, opener = found[1].partition("?")[0], build_opener(HTTPCookieProcessor())
    opener.open(found[1]).close()
    while True:
        with opener.open(f"{page}api/status") as answer:
            if told := json.load(answer):
                break
    assert (told["name"], told["workers"], told["alive"], told["phase"]) == ("trustless-wine", 16, 0, "announcing")
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 130
    with pytest.raises(OSError, match="refused"):
        urlopen(page)
