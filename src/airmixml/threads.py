"""Work cut into parts, one on each core: a part stays in the cache, and small steps need no waking.

Each step of a part is over sooner than torch's own threads can be woken; two cores took longer than one so. Threads of
both kinds at once would be worst of all: those that wait for work keep the cores busy.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_MOST_THREADS: Final = 16

Part = TypeVar("Part")
Made = TypeVar("Made")


def in_order(work: Callable[[Part], Made], parts: Sequence[Part], threads: int = 0) -> Iterator[Made]:
    """Yield what ``work`` makes of each part, in order, a few made ahead on several threads; torch uses one in each.

    The first part is done before all others: what is drawn or loaded when it is first needed is there for them. A
    single part uses torch's own threads. 0 threads: as many as torch uses. Where torch is not installed, such as for
    predictions of linear models, one part follows another.
    """
    from airmixml.devices import torch_is_missing, using_threads

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
