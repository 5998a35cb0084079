"""What takes seconds, in a process of its own: slow accountants and better designs.

The process is forked from a server that has imported everything already; ending it is how a page cancels.
"""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from airmixml.explore.design import (
    LIGHT_ACCOUNTANTS,
    Part,
    account_part,
    is_light,
    light_parts,
    plan_part,
    told,
)
from airmixml.registries import ACCOUNTANTS
from airmixml.scenario import Scenario

_AT_A_TIME: Final = max(1, (os.cpu_count() or 2) - 1)
_LOOK_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 90.0
_PREPARED: Final = "airmixml.explore.heavy"

# Forked from a server that has imported everything, a process starts in milliseconds; elsewhere it takes seconds.
_METHOD: Final = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_context: Final[Any] = multiprocessing.get_context(_METHOD)


def prepare() -> None:
    """Start what processes are forked from; it imports in the background."""
    if _METHOD == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


class Jobs:
    """Runs functions in processes, a few at a time; others wait."""

    def __init__(self) -> None:
        if _METHOD == "forkserver":
            _context.set_forkserver_preload([_PREPARED])
        self._places = asyncio.Semaphore(_AT_A_TIME)

    async def answers(
        self, work: Callable[..., None], argument: str, is_gone: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[Any]:
        """Yield what ``work(argument, pipe)`` sends, until it ends, or ``is_gone()``: then it is ended."""
        async with self._places:
            reader, writer = _context.Pipe(duplex=False)
            process = _context.Process(target=work, args=(argument, writer), daemon=True)
            loop, deadline = asyncio.get_running_loop(), time.monotonic() + LONGEST_SECONDS
            starting = loop.run_in_executor(None, process.start)
            # However this ends, even while the process is being started, it is killed.
            try:
                await asyncio.shield(starting)
                writer.close()
                while not await is_gone():
                    if time.monotonic() > deadline:
                        yield {"part": "late", "seconds": LONGEST_SECONDS}
                        return
                    if await loop.run_in_executor(None, reader.poll, _LOOK_SECONDS):
                        yield await loop.run_in_executor(None, reader.recv)
            except EOFError:  # it is done, or was killed
                return
            finally:
                starting.add_done_callback(lambda _: _end(process, reader, writer))


def _end(process: Any, *pipes: Any) -> None:
    if process.pid is not None:
        process.kill()
    for pipe in pipes:
        pipe.close()


_NICENESS: Final = 10
_SECONDS_BETWEEN_REPORTS: Final = 0.3


def compute(text: str, answers: Connection) -> None:
    """Send all heavy parts of a scenario (TOML) through the pipe, then close it; the process does nothing else."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # what answers at once comes first
    scenario = Scenario.from_toml(text)
    with answers, suppress(BrokenPipeError):  # nobody waits any more
        for part in heavy_parts(scenario, answers.send):
            answers.send(part)


def heavy_parts(scenario: Scenario, report: Callable[[Part], Any]) -> Iterator[Part]:
    """Yield what the light parts left out; ``report`` is told how far a long one is."""

    said = 0.0

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said < _SECONDS_BETWEEN_REPORTS:
            return
        said = time.monotonic()
        report({"part": "progress", "stage": stage, "done": done, "total": total})

    if not is_light(scenario):
        yield from light_parts(scenario)
    slow = tuple(name for name in ACCOUNTANTS.names if name not in LIGHT_ACCOUNTANTS)
    yield told(lambda: account_part(scenario, slow)[0])
    yield told(lambda: plan_part(scenario, alternatives=True, progress=progress))
