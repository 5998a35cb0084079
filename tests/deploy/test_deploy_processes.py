"""The loops of server and workers over a line that loses, repeats and falls silent; times are made up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from runs_for_tests import WORKERS, check_sum, deploy, write_rows

from airmixml.deploy.endpoint import SIGNING_KEYS, DeployError, Lines, find_folder, load_contract, read_keys
from airmixml.deploy.server import Server
from airmixml.deploy.server_process import drive_server, open_server
from airmixml.deploy.wire import Message, Type, run_over, unpacked
from airmixml.deploy.worker_process import Workers, drive_workers, open_workers
from airmixml.messages import DataError, ProtocolError

Lost = Callable[[Message, int], int]  # how often a message arrives at, or from, a worker


class Line:
    """The server's end of a line on which workers answer at once; when nothing is on its way, time passes."""

    def __init__(self, workers: dict[int, Workers], copies: Lost = lambda message, worker: 1) -> None:
        self.now, self.sent = 0.0, 0
        self._workers, self._copies = workers, copies
        self._arrived: list[bytes] = []

    def send(self, message: bytes, to: int | None = None) -> None:
        self.sent += 1
        for worker in self._workers if to is None else [to]:
            if worker in self._workers:
                for _ in range(self._copies(unpacked(message), worker)):
                    for answer in chain(*self._workers[worker].answers([unpacked(message)])):
                        self._arrived += [answer.packed()] * self._copies(answer, worker)

    def receive(self, timeout: float) -> list[bytes]:
        if not self._arrived:
            self.now += timeout
        found, self._arrived = self._arrived, []
        return found

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def clock(self) -> float:
        return self.now


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    deploy(tmp_path / "deployment", spare=1)
    return tmp_path / "deployment"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def workers(deployment: Path, tmp_path: Path, lines: list[str]) -> dict[int, Workers]:
    found = {}
    for number in range(WORKERS):
        data = write_rows(tmp_path / f"{number}.npz", range(number, number + 1))
        found[number] = open_workers(find_folder(deployment, f"worker-{number}"), data, lines.append)
    return found


@pytest.fixture
def server(deployment: Path, lines: list[str]) -> Server:
    return open_server(deployment, lines.append)


DEADLINE, TRIES = 10.0, 5


def drive(server: Server, line: Line, lines: list[str]) -> None:
    drive_server(server, line, lines.append, DEADLINE, clock=line.clock)


def test_a_round_without_losses_waits_for_nothing(
    server: Server, workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    line = Line(workers)
    drive(server, line, lines)
    assert (line.now, lines) == (0.0, [])
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, deployment, tmp_path)


def test_what_is_lost_once_is_asked_for_again(
    server: Server, workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    met: set[tuple[Type, int]] = set()

    def first_is_lost(message: Message, worker: int) -> int:
        known = (message.type, worker) in met
        met.add((message.type, worker))
        return 2 if known else 0

    line = Line(workers, first_is_lost)
    drive(server, line, lines)
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, deployment, tmp_path)
    assert set(server.spent.values()) == {server.contract.kinds[0].cost}
    assert not any("silent" in each for each in lines)  # no deadline passed


def test_a_worker_that_dies_after_its_frame_is_waited_for_and_its_frame_counts(
    server: Server, workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    late = {Type.ABSENT, Type.SIGNED, Type.SIGNATURES, Type.ANSWER}
    line = Line(workers, lambda message, worker: 0 if worker == 3 and message.type in late else 1)
    drive(server, line, lines)
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, deployment, tmp_path)
    assert DEADLINE <= line.now <= 3 * DEADLINE


def test_a_worker_that_dies_before_its_frame_does_not_block(
    server: Server, workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    late = {Type.DELIVERY, Type.ABSENT, Type.SIGNATURES}
    line = Line(workers, lambda message, worker: 0 if worker == 3 and message.type in late else 1)
    drive(server, line, lines)
    (found,) = server.sums
    assert found.present == (0, 1, 2, 4, 5, 6, 7)
    check_sum(found, deployment, tmp_path)
    assert DEADLINE <= line.now <= 3 * DEADLINE


def test_a_worker_that_was_never_there_is_left_out(
    server: Server, workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    del workers[5]
    line = Line(workers)
    drive(server, line, lines)
    (found,) = server.sums
    assert found.present == (0, 1, 2, 3, 4, 6, 7)
    check_sum(found, deployment, tmp_path)
    assert line.now == DEADLINE


def test_nobody_there_ends_in_bounded_time(server: Server, lines: list[str]) -> None:
    line = Line({})
    drive(server, line, lines)
    assert server.failure
    assert not server.sums
    assert line.now <= 100 * DEADLINE
    assert line.sent <= 100 * TRIES * WORKERS


def test_a_silence_of_all_is_not_for_ever(
    server: Server, workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    def copies(message: Message, worker: int) -> int:
        return 0 if message.type is Type.REVEAL and message.attempt == 0 else 1

    drive(server, Line(workers, copies), lines)
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, deployment, tmp_path)


def test_a_server_that_is_started_again_goes_on(
    workers: dict[int, Workers], lines: list[str], deployment: Path, tmp_path: Path
) -> None:
    class PowerCut(Exception):
        pass

    class Cut(Line):
        left = 12

        def receive(self, timeout: float) -> list[bytes]:
            self.left -= 1
            if not self.left:
                raise PowerCut
            return super().receive(timeout)[:3]  # what is behind is lost with the process

    ended = 0
    for _ in range(20):
        server = open_server(deployment, lines.append)
        try:
            drive(server, Cut(workers), lines)
            break
        except PowerCut:
            ended += 1
            server.close()
    assert ended
    assert server.is_over
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, deployment, tmp_path)


class Script:
    """A worker's end of a line, on which messages of a server arrive at given times."""

    def __init__(self, *arriving: tuple[float, bytes]) -> None:
        self.now, self.sent = 0.0, list[tuple[float, Message]]()
        self._arriving = sorted(arriving)

    def send(self, message: bytes, to: int | None = None) -> None:
        self.sent.append((self.now, unpacked(message)))

    def receive(self, timeout: float) -> list[bytes]:
        end = self.now + timeout
        if self._arriving and self._arriving[0][0] <= end:
            self.now, content = self._arriving.pop(0)
            return [content]
        self.now = end
        return []

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def clock(self) -> float:
        return self.now


def test_workers_go_when_the_run_is_over_and_only_the_server_can_say_so(
    deployment: Path, workers: dict[int, Workers], lines: list[str]
) -> None:
    run = load_contract(deployment / "server").run
    (key,) = read_keys(deployment / "server" / SIGNING_KEYS, 1)
    forged = run_over(run, bytes(32)).packed()
    script = Script((1.0, forged), (1.5, b"nonsense"), (2.0, run_over(run, key).packed()), (3.0, forged))
    drive_workers(workers[0], script, lines.append, 100.0, script.clock)
    assert script.now == 2.0
    assert len(lines) == 2
    assert all("refused" in each for each in lines)
    assert [message.type for _, message in script.sent] == [Type.HELLO] * 2


def test_workers_give_a_silent_server_up(workers: dict[int, Workers], lines: list[str]) -> None:
    script = Script()
    with pytest.raises(DeployError, match="silent for 100 s"):
        drive_workers(workers[0], script, lines.append, 100.0, script.clock)
    assert 100.0 <= script.now < 140.0
    assert 3 <= len(script.sent) <= 10  # it asks, less and less often


def test_a_worker_refuses_rows_that_are_not_its_own_number(deployment: Path, tmp_path: Path) -> None:
    two = write_rows(tmp_path / "two.npz", range(2))
    with pytest.raises(DataError, match="one for each of 1 workers"):
        open_workers(find_folder(deployment, "worker-0"), two, lambda line: None)


@pytest.mark.parametrize("left", [None, b"", b"airmixml"])
@pytest.mark.parametrize("gateways", [0, 2])
def test_without_its_ledger_no_worker_or_gateway_starts(tmp_path: Path, left: bytes | None, gateways: int) -> None:
    """It would not know what it has spent."""
    endpoint = deploy(tmp_path / "here", gateways=gateways)
    own = find_folder(tmp_path / "here", endpoint.names[0])
    rows = write_rows(tmp_path / "rows.npz", endpoint.numbers(endpoint.names[0]))
    ledger = own / "ledger"
    ledger.unlink()
    if left is not None:
        ledger.write_bytes(left)
    with pytest.raises(ProtocolError, match="ledger"):
        open_workers(own, rows, lambda line: None)
    assert (ledger.read_bytes() if ledger.exists() else None) == left


def test_one_process_at_a_time_is_a_worker(deployment: Path, workers: dict[int, Workers], tmp_path: Path) -> None:
    assert workers
    with pytest.raises(ProtocolError, match="another process"):
        open_workers(find_folder(deployment, "worker-0"), tmp_path / "0.npz", lambda line: None)


def test_a_gateway_writes_its_ledger_once_for_all(
    tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "behind"
    endpoint = deploy(folder, gateways=2)
    behind: dict[int, Workers] = {}
    for name in endpoint.names:
        numbers = endpoint.numbers(name)
        rows = write_rows(tmp_path / f"{name}.npz", numbers)
        behind[numbers[0]] = open_workers(find_folder(folder, name), rows, lines.append)

    class Behind(Line):
        """What is for a worker goes to the gateway that it is behind, in one batch."""

        waiting: dict[int, list[Message]] = {}  # noqa: RUF012

        def send(self, message: bytes, to: int | None = None) -> None:
            for first in behind if to is None else [endpoint.numbers(endpoint.standing_for(to))[0]]:
                self.waiting.setdefault(first, []).append(unpacked(message))

        def receive(self, timeout: float) -> list[bytes]:
            waiting, self.waiting = self.waiting, {}
            self.now += 0.0 if waiting else timeout
            return [each.packed() for first, batch in waiting.items() for each in chain(*behind[first].answers(batch))]

    written: list[int] = []
    import os

    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (written.append(number), real(number))[1])
    line = Behind(behind)
    server = open_server(folder, lines.append)
    before = len(written)
    drive(server, line, lines)
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, folder, tmp_path)
    journal = [number for number in written[before:] if number == max(set(written), key=written.count)]
    assert len(written) - before - len(journal) <= 2 * 2  # two gateways, each once at the start and once at the frames


def test_no_more_lines_are_written_than_a_disk_bears(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    lines = Lines("worker-0", lambda: now)
    for number in range(1000):
        lines(f"line {number}\nof two")
    now = 61.0
    lines("later")
    written = capsys.readouterr().err.splitlines()
    assert written[0] == "worker-0: line 0 of two"
    assert written[199:] == ["worker-0: line 199 of two", "worker-0: 800 more lines were left out", "worker-0: later"]
