"""Where ``airmix`` starts and ends: streams, Ctrl-C, errors as one line, and the commands of small devices.

No command is imported before Ctrl-C has an answer and closed streams are replaced. Before the work begins Ctrl-C ends
the process at once; afterwards it is an exception that cleans up. While libraries are imported an exception is not
enough: Python may drop it, or a library may turn it into another one.

``airmix worker`` and ``airmix gateway`` start without Typer, Rich and all that other commands need. Only ``--name
value`` is read here. Whatever else is on the command line, ``--help`` and mistakes too, is left to the command's full
form (``cli/deploy.py``), which does the same.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time

TYPE_CHECKING = False  # typing takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
_RESUMABLE = ("run", "attack", "audit", "compare", "sweep", "reproduce")
STARTED = time.monotonic()  # of the command, before anything else is imported
FOLDER = "deployment"
PATIENCE_SECONDS = 600.0
_LONGEST_LINE = 1000
_EXTRAS = {"cryptography": "deploy", "paho": "deploy", "zmq": "deploy", "starlette": "explore", "uvicorn": "explore"}
_NO_MEMORY = "not enough memory; use fewer slots, workers or features, a smaller network, or a smaller --block-slots"
# What takes the place of options that earlier versions had.
_INSTEAD = {
    "airmix run --engine": "--threads",
    "airmix run --jobs": "--threads",
    "airmix attack --vary": "airmix sweep --command attack --grid KEY=V1,V2",
    "airmix attack --beside": "airmix report with several folders",
    "airmix compare --vary": "airmix sweep --grid KEY=V1,V2",
    "airmix compare --ledger": "airmix run --ledger",
    "airmix sweep --ledger": "airmix run --ledger",
    "airmix sweep --fault": "airmix audit --fault",
    "airmix deploy up --rounds": "--set learner.rounds=N",
}
_LIGHT = ("worker", "gateway")
_LIGHT_OPTIONS = {"--data": str, "--id": str, "--folder": str, "--patience": float}


def main() -> None:
    """Run the command line: 0 when done, 2 and one line for a user's mistake, 130 when interrupted.

    The code says what became of the work. A closed or full stderr does not change it, and a closed stdout is as good
    as /dev/null; a result that cannot be printed is 2, and 1 where its reader went away.
    """
    # Processes that are started import nothing from the working folder, which may hold what a stranger sent.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        take_streams()
        end_when_interrupted()
        try:
            code = answer_light(sys.argv[1:])
            if code is None:
                code = answer()
        finally:
            raise_when_interrupted()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        report_interruption()
    sys.exit(code)


def answer() -> int:
    """Run what the command line asks for and return the exit code; a user's mistake is one line on stderr."""
    import warnings

    from typer import BadParameter

    from airmixml.cli.options import app
    from airmixml.messages import AirMixError, reason
    from airmixml.registry import naming_objects

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still gets its table
    warnings.showwarning = _warn
    # Typer exports BadParameter alone; its base is the family of usage errors, wherever Typer keeps Click.
    usage_error: type[Exception] = BadParameter.__bases__[0]
    try:
        if "--out=" in sys.argv or ("--out", "") in zip(sys.argv, sys.argv[1:], strict=False):
            raise AirMixError("--out = '': must not be empty; give a name, or leave it out")
        try:
            os.getcwd()  # libraries look for their parts from it, and end the process where it is not there
        except OSError:
            raise AirMixError("the current directory was removed; change to another one") from None
        with naming_objects():
            code = app(prog_name="airmix", standalone_mode=False)
        sys.stdout.flush()
    except usage_error as problem:
        said_by = getattr(getattr(problem, "ctx", None), "command_path", "airmix")
        instead = _INSTEAD.get(f"{said_by} {getattr(problem, 'option_name', '')}", "")
        said = getattr(problem, "message", "") if instead else getattr(problem, "format_message", problem.__str__)()
        if instead:
            said, instead = said.removesuffix("."), f"use {instead}; "
        return _fail(f"{said} ({instead}see {said_by} --help)")
    except AirMixError as problem:
        return _fail(_as_typed(str(problem)))
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to say
        discard(sys.stdout)
        return 1
    except _OutputError as problem:
        discard(sys.stdout)
        return _fail(f"the output cannot be written ({reason(problem)}); free space or write it elsewhere")
    except (OSError, ModuleNotFoundError, MemoryError, RuntimeError) as problem:
        lacks = _lacking(problem)
        if not lacks:
            raise
        return _fail(lacks)
    return code if isinstance(code, int) else 0


def _lacking(problem: Exception) -> str:
    """Return which package or memory a command lacks, or what the system refused; empty: none of these."""
    from airmixml.arrays import needs_torch
    from airmixml.messages import is_out_of_memory, reason

    if isinstance(problem, OSError):  # of a library that cannot be loaded, of a disk
        return f"{problem.filename}: {reason(problem)}" if problem.filename else reason(problem)
    missing = (getattr(problem, "name", "") or "").split(".")[0]
    command = f"airmix {sys.argv[1]}" if len(sys.argv) > 1 else "airmix"
    if missing == "torch":
        return needs_torch(command)
    if missing in _EXTRAS:
        return f"{command} needs the package {missing}; pip install 'airmixml[{_EXTRAS[missing]}]'"
    return _NO_MEMORY if is_out_of_memory(problem) else ""


def _as_typed(message: str) -> str:
    """Return a message about a parameter by the name of its option, where that was given."""
    option = f"--{message.partition(' = ')[0].replace('_', '-')}"
    given = any(word.partition("=")[0] == option for word in sys.argv)
    return f"{option}{message[len(option) - 2 :]}" if given else message


def _warn(message: Warning | str, category: type[Warning], *_where: object, **_how: object) -> None:
    """Print our own warnings as a line, and leave out those of libraries, with which a user can do nothing."""
    from airmixml.messages import AirMixWarning

    if issubclass(category, AirMixWarning):
        sys.stderr.write(f"airmix: warning: {message}\n")


def _fail(message: str) -> int:
    sys.stderr.write(f"airmix: error: {' '.join(message.split())[:_LONGEST_LINE]}\n")
    return 2


def answer_light(arguments: Sequence[str]) -> int | None:
    """Run the command and return its exit code, or None where it is not one of these, or not so simple."""
    given = _read(arguments[1:]) if arguments and arguments[0] in _LIGHT else {}
    if not {"--data", "--id"} <= given.keys():
        return None
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads take memory, and a worker multiplies nothing large
    from airmixml.messages import AirMixError

    try:
        run_light(given.pop("--data"), given.pop("--id"), **{name[2:]: value for name, value in given.items()})
    except (AirMixError, ModuleNotFoundError) as problem:
        return _fail(_lacking(problem) or str(problem))
    return 0


def run_light(
    data: Path | str,
    name: str,
    folder: Path | str = FOLDER,
    patience: float = PATIENCE_SECONDS,
    *,
    show_values: bool = False,
) -> None:
    """Be the worker or gateway of that name until the run is over."""
    from pathlib import Path

    from airmixml.deploy.worker_process import run_workers

    raise_when_interrupted()
    run_workers(Path(folder), name, Path(data), patience, show_values=show_values)


def _read(words: Sequence[str]) -> dict[str, Any]:
    """Return the options by name; nothing where they are not so simple."""
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or len(dict(pairs)) != len(pairs) or any(name not in _LIGHT_OPTIONS for name, _ in pairs):
        return {}
    try:
        return {name: _LIGHT_OPTIONS[name](text) for name, text in pairs}
    except ValueError:
        return {}


def take_streams() -> None:
    """Lead streams that the caller closed to nowhere, and make writing to stderr something that cannot fail.

    What fails on stdout is an ``_OutputError``, unlike errors of other files.

    Otherwise the next file that is opened would get the number of a closed stream, and whatever a library prints.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free, which is this
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (until the process ends)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if not isinstance(sys.stderr, _Unfailing):
        sys.stderr = _Unfailing(sys.stderr)
    if not isinstance(sys.stdout, _Output):
        sys.stdout = _Output(sys.stdout)


def discard(stream: Any) -> None:
    """Lead a stream to nowhere, with what could not be written, so that Python does not try again when it exits."""
    with contextlib.suppress(OSError, ValueError):  # it is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _OutputError(OSError):
    """Stdout cannot be written, though its reader is there."""


class _Stream:
    """A stream with its own way to fail; for all the rest it is the stream behind it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Output(_Stream):
    """Stdout: what its disk refuses differs from what other files are refused."""

    def write(self, text: str) -> int:
        """Write the text, or raise what says that stdout failed."""
        with _as_output_error():
            return int(self._stream.write(text))

    def flush(self) -> None:
        with _as_output_error():
            self._stream.flush()


@contextlib.contextmanager
def _as_output_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise _OutputError(*problem.args) from problem


class _Unfailing(_Stream):
    """A stream for remarks: where its disk is full or its reader went away, they are lost, and nothing else is."""

    def write(self, text: str) -> int:
        """Write the text, or lose it and all that follows."""
        try:
            self._stream.write(text)
        except OSError:
            discard(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            discard(self._stream)


def report_interruption() -> None:
    """Say in one line that the command was interrupted; a second Ctrl-C ends the process without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kept = len(sys.argv) > 1 and sys.argv[1] in _RESUMABLE and "--private" not in sys.argv
    with contextlib.suppress(OSError):  # nobody reads
        os.write(2, f"airmix: interrupted{'; repeat the command to resume' if kept else ''}\n".encode())


def end_when_interrupted() -> None:
    """End the process at once on Ctrl-C, until ``raise_when_interrupted``; a caller that ignores it is left alone.

    Until then no garbage is collected either: imports leave none, and looking for it takes a tenth of their time.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_when_interrupted() -> None:
    """Let Ctrl-C raise KeyboardInterrupt: from now on files may be half written, and garbage is collected."""
    if not gc.get_freeze_count():
        gc.freeze()  # nobody looks through what was imported again; once: what is frozen is never collected
    gc.enable()
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_signal: int, _frame: FrameType | None) -> None:
    report_interruption()
    os._exit(INTERRUPTED)
