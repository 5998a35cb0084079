"""Connections that show no cookie are few and short, however many come; those of the page always get in."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest
from explorer_process import ExplorerProcess

from airmixml.explore.guard import Callers


class Line(asyncio.Transport):
    """A connection that only knows whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    def abort(self) -> None:
        self.ended.set()


def test_the_oldest_goes_where_there_are_too_many() -> None:
    async def check() -> list[bool]:
        callers, lines = Callers(most=3, seconds=600), [Line() for _ in range(6)]
        for number, line in enumerate(lines):
            callers.came(("127.0.0.1", number), line)
            if number == 1:
                callers.admit(("127.0.0.1", 1))  # it shows the cookie, and counts no more
        return [line.ended.is_set() for line in lines]

    assert asyncio.run(check()) == [True, False, True, False, False, False]


def test_waiting_ends() -> None:
    async def check() -> tuple[bool, bool]:
        callers, waits, admitted, last = Callers(seconds=0.01), Line(), Line(), Line()
        callers.came(("127.0.0.1", 1), admitted)
        callers.admit(("127.0.0.1", 1))
        callers.came(("127.0.0.1", 2), waits)
        await waits.ended.wait()
        callers.came(("127.0.0.1", 3), last)
        await last.ended.wait()  # long after the first would have been ended
        return admitted.ended.is_set(), waits.ended.is_set()

    assert asyncio.run(check()) == (False, True)


def test_one_that_has_gone_already_is_let_go() -> None:
    async def check() -> bool:
        callers, gone = Callers(), Line()
        callers.came(None, gone)
        callers.admit(None)
        return gone.ended.is_set()

    assert asyncio.run(check())


@pytest.mark.long
def test_half_open_connections_keep_nobody_out(explorer: ExplorerProcess) -> None:
    """Each sends half a request, or nothing, and stays."""
    opener, page = explorer.enter()
    asked = 0
    with ExitStack() as stack:
        for number in range(401):
            if number % 100 == 0:  # the first waits until the explorer is ready
                with opener.open(page + "api/runs") as answer:
                    asked += answer.read() == b'{"runs": []}'
            line = stack.enter_context(socket.create_connection(("127.0.0.1", explorer.port)))
            with suppress(OSError):  # it was ended already
                line.sendall(b"GET / HTTP/1.1\r\nhost: " if number % 2 else b"")
    assert asked == 5
    assert explorer.end() == (0, "airmix explore: ended\n", "")
