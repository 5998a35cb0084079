"""How long work reports how far it is: a plain callable, so that no package depends on a terminal."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, units done, units in total)."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""
