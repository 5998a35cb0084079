"""Errors a user can mend: each message names the field, the value, what it must be and what to do.

Where private data are at fault, the message marks what it takes from them: ``private(value, instead)``. A simulation
shows it. In protection ``hide_values`` puts in what stands instead, so that an error which ends up in a log or
in a notebook tells nothing about a row.
"""

import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Final, ParamSpec, Self, TypeVar

# Around what is private, and before what stands instead: characters that no message has otherwise.
_BEGIN, _INSTEAD, _END = "\ue000", "\ue001", "\ue002"
_MARKED: Final = re.compile(f"{_BEGIN}([^{_END}]*){_INSTEAD}([^{_END}]*){_END}")
_MARKS: Final = str.maketrans("", "", _BEGIN + _INSTEAD + _END)
_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")


def private(text: object, instead: str = "") -> str:
    """Return a part of an error's message that comes from private data, with what is said instead in protection."""
    return f"{_BEGIN}{str(text).translate(_MARKS)}{_INSTEAD}{instead}{_END}"


class AirMixError(ValueError):
    """Base of all errors that a user's input or machine causes; the command line prints it and exits with 2.

    Attributes:
        public: the message without what is ``private``.
    """

    def __init__(self, message: str = "") -> None:
        self.public = _MARKED.sub(r"\2", message)
        super().__init__(_MARKED.sub(r"\1", message))

    def hidden(self, how_to_see: str) -> Self:
        """Return the error without what is private, with a word on how its owner can see that."""
        found = type(self).__new__(type(self))  # whatever its own constructor takes
        cut = self.public != str(self)
        AirMixError.__init__(found, f"{self.public} (no row or value is shown; {how_to_see})" if cut else self.public)
        return found


class ScenarioError(AirMixError):
    """A scenario key is unknown, or its value is of the wrong type or out of range."""


class DataError(AirMixError):
    """A data set is missing, broken or cannot be used for classification."""


class PrivacyError(AirMixError):
    """A privacy target cannot be certified by the chosen bound."""


class ProtocolError(AirMixError):
    """A message of the mask protocol is wrong, or one that a worker must not answer.

    Attributes:
        culprit: the worker whose message was wrong, where that is known.
    """

    culprit: int | None = None


class RunFolderError(AirMixError):
    """A run folder cannot be written, is incomplete, or belongs to another scenario."""


class LedgerError(AirMixError):
    """A ledger of budgets cannot be read or written, or is about other workers than those of the run."""


class PluginError(AirMixError):
    """There is no encoder, learner, accountant, ... of that name, or the package that brings it is broken."""


class UnknownObjectError(ScenarioError, PluginError):
    """A name stands for an object that was given in Python, and this process does not have it."""


class AirMixWarning(UserWarning):
    """Base of our own warnings; the command line prints each as one line."""


class BoundsWarning(AirMixWarning):
    """Declared bounds leave little of the data."""


class RepeatedFitWarning(AirMixWarning):
    """Protected fits of one process release the same rows several times."""


class NameWarning(AirMixWarning):
    """Names in a ledger that look like one person's."""


class LeftoverWarning(AirMixWarning):
    """What an earlier run or version left in a folder matters for the privacy of the data."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether memory ran out: in Python, in NumPy, or in torch, on a GPU or in its allocator on the CPU."""
    said = str(problem) if isinstance(problem, RuntimeError) else ""
    return isinstance(problem, MemoryError) or "out of memory" in said or "DefaultCPUAllocator" in said


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
