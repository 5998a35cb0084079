"""Work on many rows, a block at a time on each core: a block stays in the cache, and small steps need no waking.

Each step on a block is over sooner than torch's own threads can be woken; two cores took longer than one so.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

MOST_THREADS: Final = 8


def for_each_block(work: Callable[[slice], None], rows: int, rows_at_once: int) -> None:
    """Call ``work`` with slices that cover all rows, on several threads; torch uses one thread in each.

    The first block is done before all others: what is drawn or loaded when it is first needed is there for them.
    """
    import torch  # here: an account needs no torch

    from airmixml.devices import using_threads

    blocks = [slice(first, first + rows_at_once) for first in range(0, rows, rows_at_once)]
    threads = min(MOST_THREADS, torch.get_num_threads(), os.cpu_count() or 1, len(blocks) - 1)
    if threads < 2:
        for block in blocks:
            work(block)
        return
    with using_threads(1):  # set once more in each thread, and set back for all in this one
        work(blocks[0])
        with ThreadPoolExecutor(threads, "airmix-rows", initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, blocks[1:]):
                pass
