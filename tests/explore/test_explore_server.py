"""``airmix explore`` as a process: its address, its port, and its end."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from explorer_process import LINK, ExplorerProcess

Start = Callable[..., subprocess.Popen[str]]
COMMAND = ("-m", "airmixml", "explore", "--no-browser")
RECORDING = """#!{python}
import os, sys
from pathlib import Path
Path({record!r} + ".new").write_text(sys.argv[1])
os.replace({record!r} + ".new", {record!r})
"""


def line_of(explorer: subprocess.Popen[str]) -> str:
    assert explorer.stdout is not None
    line = explorer.stdout.readline()
    assert re.fullmatch(rf"airmix explore: {LINK} \(works once; Ctrl-C ends it\)\n", line), (
        line,
        explorer.communicate(),
    )
    return line


def refusal(link: str) -> str:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(link)
    assert refused.value.code == 403
    return refused.value.read().decode()


def test_a_link_works_once_and_enter_gives_another(explorer: ExplorerProcess) -> None:
    first, second = explorer.link, explorer.another_link()
    assert "press Enter in the terminal of `airmix explore` for another" in refusal(first)
    explorer.enter(second)
    assert "works no more" in refusal(second)
    opener, page = explorer.enter(explorer.another_link())
    with opener.open(page) as answer:
        assert answer.status == 200


def test_the_browser_is_given_a_private_file_and_no_ticket(start_python: Start, tmp_path: Path) -> None:
    """Every user of a machine can read the command lines of all processes."""
    home, browser, record = tmp_path / "home", tmp_path / "browser", tmp_path / "opened"
    home.mkdir()
    browser.write_text(RECORDING.format(python=sys.executable, record=str(record)))
    browser.chmod(0o700)
    explorer = ExplorerProcess(start_python, environment={"BROWSER": f"{browser} %s", "HOME": str(home)})
    while not record.exists():
        assert explorer.process.poll() is None
        time.sleep(0.05)
    opened = record.read_text()
    assert explorer.link.partition("ticket=")[2] not in opened
    file = Path(urllib.request.url2pathname(urlsplit(opened).path))
    assert opened.startswith("file://")
    assert file.is_relative_to(home)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not any(part.startswith(".") for part in file.relative_to(home).parts), "snap hides such files"
    (link,) = set(re.findall(rf'(?:url=|href=")({LINK.replace("(", "(?:")})"', file.read_text()))
    explorer.enter(link)
    assert "works no more" in refusal(explorer.link)
    assert list(home.iterdir()) == [], "what a used link lies in is of no use"
    assert explorer.end()[0] == 0
    explorer.close()


def test_the_file_goes_with_the_explorer(start_python: Start, tmp_path: Path) -> None:
    explorer = ExplorerProcess(start_python, environment={"BROWSER": "true %s", "HOME": str(tmp_path)})
    refusal(explorer.page)  # until it is served
    assert [each.name.startswith("airmix-explore-") for each in tmp_path.iterdir()] == [True]
    assert explorer.end() == (0, "airmix explore: ended\n", "")
    explorer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_it_serves_whatever_is_sent_until_ctrl_c_and_prints_nothing(explorer: ExplorerProcess, tmp_path: Path) -> None:
    opener, page = explorer.enter()
    with opener.open(page) as answer:
        assert "AirMixML explorer" in answer.read().decode()
    with opener.open(page + "api/runs") as runs:  # waits until it is ready
        assert runs.read() == b'{"runs": []}'
    (cookies,) = (each for each in opener.handlers if isinstance(each, urllib.request.HTTPCookieProcessor))
    (cookie,) = (f"{each.name}={each.value}" for each in cookies.cookiejar)
    path = urlsplit(page).path
    known = f"host: 127.0.0.1:{explorer.port}\r\ncookie: {cookie}\r\n"
    websocket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: eA==\r\n"
    begun = f"POST {path}api/runs HTTP/1.1\r\n{known}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    other = known.replace("127.0.0.1", "evil.example") + "x-forwarded-host: 127.0.0.1\r\n"
    for request, status in {
        f"GET {path} HTTP/1.1\r\n{known}{websocket}\r\n": b"400",
        f"GET {path}api/runs HTTP/1.1\r\n{other}\r\n": b"403",
        f"GET {path}pages/{'n' * 300} HTTP/1.1\r\n{known}connection: close\r\n\r\n": b"404",
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{explorer.port}\r\n{websocket}\r\n": b"403",
        "no HTTP at all\r\n\r\n": b"400",
        "GET / HTTP/1.1\r\n" + "a" * 1_200_000: b"400",
        f"GET {path} HTTP/1.1\r\n" + f"cookie: b={'x' * 4000}\r\n" * 180 + f"{known}connection: close\r\n\r\n": b"200",
        f"POST / HTTP/1.1\r\n{known}transfer-encoding: chunked\r\n\r\nZZZZ\r\n": b"400",
        begun: b"",  # cut off: nobody is left to answer
    }.items():
        with socket.create_connection(("127.0.0.1", explorer.port)) as line:
            line.sendall(request.encode())
            if status:
                assert line.recv(12)[9:] == status, request[:200]
    assert explorer.end() == (0, "airmix explore: ended\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use(start_python: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        explorer = start_python(*COMMAND, "--port", str(port))
        out, err = explorer.communicate()
        assert (explorer.returncode, out) == (2, "")
        assert re.fullmatch(rf"airmix: error: --port {port}: cannot be used \(.+\); choose another, .+\n", err)


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
