"""Threads that make random words side by side; NumPy does not hold the interpreter while it makes them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache


def run_in_threads(work: Callable[[int], None], parts: Sequence[int]) -> None:
    """Call ``work`` with each part, all at once; torch must not be called in it: its own threads would multiply."""
    if len(parts) == 1:
        work(parts[0])
        return
    # Consumed, so that a problem in a thread is raised here.
    list(_pool(os.getpid()).map(work, parts))


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has none of its parent's."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix=f"airmix-words-{process}")
