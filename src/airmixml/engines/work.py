"""What engines pass on: work and how it is prepared, what is told meanwhile, what went wrong, what was lost."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airmixml.errors import AirMixError
from airmixml.wording import one_line

Tell = Callable[[Any], None]
"""Told how far an item is, where anybody listens."""
Work = Callable[[Any, Tell], Any]
"""Makes the result of an item."""
Prepare = Callable[[Any], Work]
"""Makes of what all items share, once in each process, what makes their results."""


@dataclass(frozen=True)
class Lost:
    """Stands for the result of an item whose process or node was lost; ``why`` is one line."""

    why: str


@dataclass(frozen=True)
class Raised:
    """Stands for the result of an item whose work raised."""

    problem: Exception


def attempt(work: Work, item: Any, tell: Tell) -> Any:
    """Return the result of an item, or what it raised in a shape that another process can read."""
    try:
        return work(item, tell)
    except Exception as problem:
        if not isinstance(problem, AirMixError):
            problem.add_note(traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:
            problem = AirMixError(one_line(f"{type(problem).__name__}: {problem}"))
        return Raised(problem)
