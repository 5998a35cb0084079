"""Work on many rows, a block at a time on each core."""

from collections.abc import Callable

from airmixml.threads import in_order


def for_each_block(work: Callable[[slice], None], rows: int, rows_at_once: int) -> None:
    """Call ``work`` with slices that cover all rows, on several threads."""
    for _ in in_order(work, [slice(first, first + rows_at_once) for first in range(0, rows, rows_at_once)]):
        pass
