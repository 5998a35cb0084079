"""Errors in protection: what they took from private data is left out, in one place for all of them."""

from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from airmixml.devices import is_out_of_memory
from airmixml.errors import AirMixError, DataError, private

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")


def hide_values(call: Callable[[], _Result], how_to_see: str, *, hide: bool = True) -> _Result:
    """Return what ``call`` returns; where it fails, its error says nothing about a row, unless ``hide`` is False.

    ``how_to_see`` tells the owner of the data what to do. An error of a library may quote what it was given, so that
    only its kind is told. A full disk or memory, or a missing package, is about the machine, and stays as it is.
    """
    if not hide:
        return call()
    try:
        return call()
    except AirMixError as problem:
        found: AirMixError = problem.hidden(how_to_see)
    except Exception as problem:
        if isinstance(problem, ImportError) or is_out_of_memory(problem) or getattr(problem, "errno", None):
            raise
        kind = type(problem).__name__
        found = DataError(f"{kind} in the code that private rows went through{private(f': {problem}')}")
        found = found.hidden(how_to_see)
    raise found  # here: the new error is not chained to the old one, whose message and frames hold values


def hides_values(call: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Hide values in the errors of a function where it is called with ``private``, and without ``show_values``."""

    @wraps(call)
    def guarded(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        hide = bool(kwargs.get("private")) and not kwargs.get("show_values")
        return hide_values(partial(call, *args, **kwargs), "the owner sees them with --show-values", hide=hide)

    return guarded
