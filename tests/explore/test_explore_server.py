"""``airmix explore`` as a process: its address, its port, and its end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., subprocess.Popen[str]]
COMMAND = ("-m", "airmixml", "explore", "--no-browser")


def address_of(explorer: subprocess.Popen[str]) -> str:
    assert explorer.stdout is not None
    line = explorer.stdout.readline()
    found = re.fullmatch(r"airmix explore: (http://127\.0\.0\.1:\d+/\?token=[\w-]{32}) \(Ctrl-C ends it\)\n", line)
    assert found, (line, explorer.communicate())
    return found[1]


def test_it_serves_until_ctrl_c(start_python: Start, tmp_path: Path) -> None:
    explorer = start_python(*COMMAND, "--port", "0")
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    address = address_of(explorer)
    with opener.open(address) as page:
        assert "AirMixML explorer" in page.read().decode()
    with opener.open(address.partition("?")[0] + "api/runs") as runs:  # waits until it is ready
        assert runs.read() == b'{"runs":[]}'
    explorer.send_signal(signal.SIGINT)
    out, err = explorer.communicate()
    assert (explorer.returncode, out, err) == (0, "airmix explore: ended\n", "")
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_ended_before_it_is_ready(start_python: Start) -> None:
    explorer = start_python(*COMMAND, "--port", "0")
    address_of(explorer)
    explorer.send_signal(signal.SIGINT)
    explorer.communicate()
    assert explorer.returncode in (0, 130)


def test_a_port_in_use(start_python: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        explorer = start_python(*COMMAND, "--port", str(port))
        out, err = explorer.communicate()
        assert (explorer.returncode, out) == (2, "")
        assert re.fullmatch(rf"airmix: error: --port {port}: cannot be used \(.+\); choose another, .+\n", err)


def test_two_at_once_take_different_ports(start_python: Start) -> None:
    assert len({address_of(start_python(*COMMAND)).partition("?")[0] for _ in range(2)}) == 2


def test_only_the_loopback_address_is_listened_on() -> None:
    from airmixml.explore.server import bind

    with bind(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("arguments", [("--port", "70000"), ("--port", "-1"), ("--runs", "file")])
def test_mistakes_are_one_line(
    airmix: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("")
    done = airmix("explore", "--no-browser", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"airmix: error: {arguments[0]}")
    assert done.stderr.count("\n") == 1
