"""The device, the memory and the CPU threads that work is done with.

Work is cut into parts, one on each core: a part stays in the cache. Each of its steps is over sooner than torch's own
threads can be woken; two cores took longer than one so. Threads of both kinds at once would be worst of all: those that
wait for work keep the cores busy.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

from airmixml.errors import ScenarioError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import torch  # takes seconds to load, and not everybody who asks for the memory needs it


def torch_is_missing() -> bool:
    """Whether torch is not installed: accounts of numbers and reports do without."""
    try:
        return find_spec("torch") is None
    except (ImportError, ValueError):  # whatever stands in its place
        return True


def needs_torch(what: str) -> str:
    """Return that something needs torch, and how to get it, in one line."""
    how = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    return f"{what} needs PyTorch, which is not installed; get it by: {how}"


def physical_memory_bytes() -> int:
    """Return the memory of this machine; where the system does not say (Windows), more than any has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def find_device(name: str) -> torch.device:
    """Return the device, or say in one line that it is not there."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise ScenarioError(f"device = {name!r}: must be cpu or cuda (cuda:1 for the second one)")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        has = "no CUDA device" if count == 0 else f"{count} CUDA device(s), cuda:0 to cuda:{count - 1}"
        raise ScenarioError(f"device = {name!r}: this machine has {has}; use device cpu")
    return device


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Let torch use that many CPU threads for a while (0: as many as it does now)."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_MOST_THREADS: Final = 16

Part = TypeVar("Part")
Made = TypeVar("Made")


def in_order(work: Callable[[Part], Made], parts: Sequence[Part], threads: int = 0) -> Iterator[Made]:
    """Yield what ``work`` makes of each part, in order, a few made ahead on several threads; torch uses one in each.

    The first part is done before all others: what is drawn or loaded when it is first needed is there for them. A
    single part uses torch's own threads. 0 threads: as many as torch uses. Where torch is not installed, one
    part follows another.
    """
    if torch_is_missing():
        yield from map(work, parts)
        return
    from concurrent.futures import ThreadPoolExecutor  # here: a worker makes no threads

    import torch  # here: an account needs no torch

    at_once = min(_MOST_THREADS, threads or torch.get_num_threads(), os.cpu_count() or 1, len(parts) - 1)
    if at_once < 2:
        for part in parts:
            with using_threads(threads):
                made = work(part)
            yield made
        return
    with using_threads(1):
        made = work(parts[0])
    yield made
    before = torch.get_num_threads()
    pending: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(at_once, "airmix", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for part in parts[1:]:
            pending.append(pool.submit(work, part))
            if len(pending) > at_once:  # no more ahead: each may be large
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(before)  # some libraries below torch know one number for all threads


def without_torch(work: Callable[[int], None], parts: Sequence[int]) -> None:
    """Call ``work``, which never calls torch, with each part, all at once."""
    if len(parts) == 1:
        work(parts[0])
        return
    # Consumed, so that a problem in a thread is raised here.
    list(_pool(os.getpid()).map(work, parts))


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has none of its parent's."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(os.cpu_count() or 1, f"airmix-{process}")
