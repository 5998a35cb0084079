"""Bits of messages: values cut to a readable length, the nearest valid word, why the system refused, simulation."""

import difflib
from collections.abc import Sequence

_LONGEST_SHOWN = 60
_MOST_COMPARED = 1000


def shown(value: object) -> str:
    """Return the value as Python writes it, cut where it would flood the line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, a list nested without end
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def shown_name(name: str) -> str:
    """Return a name as it is, or as Python writes it where it is long or not printable."""
    return name if name and name.isprintable() and len(name) <= _LONGEST_SHOWN else shown(name)


def nearest(word: str, options: Sequence[str]) -> str:
    """Return the option most like ``word``.

    Only the beginnings are compared: a broken file may hold very long or very many names, and the comparison
    is quadratic in their length.
    """
    by_beginning = {option[:_LONGEST_SHOWN]: option for option in reversed(options[:_MOST_COMPARED])}
    best = difflib.get_close_matches(word[:_LONGEST_SHOWN], list(by_beginning), n=1, cutoff=0.0)
    return by_beginning[best[0]]


def simulated(seed: int) -> str:
    """Return what to say beside an epsilon whose noise and schedule follow from a seed."""
    undone = f"noise and schedule follow from seed {seed}, so anyone can remove them"
    return f"simulation: {undone}; for real data use airmix run --private"


def reason(problem: BaseException) -> str:
    """Return why the system or a library refused, on one line."""
    strerror = getattr(problem, "strerror", None)
    return one_line(strerror if isinstance(strerror, str) else str(problem)) or type(problem).__name__


def one_line(text: str) -> str:
    """Return the text without line breaks, cut to a readable length."""
    return " ".join(text.split())[:200]
