"""How the command line speaks: results on stdout, progress and errors on stderr."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from airmixml.cli.interrupt import raise_when_interrupted
from airmixml.output.numbers import plural
from airmixml.progress import Progress
from airmixml.scenario import Workers
from airmixml.workers import encoder_of

console = Console(highlight=False)
_stderr = Console(stderr=True, highlight=False)
_SECONDS_BETWEEN_LINES: Final = 30.0
_VARIABLE: Final = "AIRMIX_PROGRESS_SECONDS"


def print_json(result: dict[str, Any]) -> None:
    """Print exactly one JSON object on stdout."""
    sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


def print_line(text: str, style: str | None = None) -> None:
    """Print a line as it is: nothing in it is markup, and however long it is, no path in it is broken."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a line about the result on stderr, so that the result itself can go into a pipe."""
    _stderr.print(text, markup=False, soft_wrap=True)


def print_report_place(seconds: float, folder: Path, name: str, *, note: str = "", picture: bool = True) -> None:
    """Print how long the work took, and where its report and its picture are, both called ``name``."""
    path = escape(str(folder / name))
    drawn = f", picture in {path}.png" if picture else ""
    console.print(f"{seconds:.1f} s{note}; everything in [bold]{path}.md[/bold]{drawn}", soft_wrap=True)


def inputs_in_words(workers: Workers, encoded_dim: int) -> str:
    """Return how many inputs or features a sample has; the constant that the encoder appends is none of the user's."""
    count = encoded_dim - (1 if workers.constant else 0)
    return plural(count, "input" if encoder_of(workers).keeps_inputs else "feature")


def occasional_lines(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return a Progress callable that writes a line to stderr at most every half minute, the first after one.

    The environment variable AIRMIX_PROGRESS_SECONDS sets another time; 0 asks for no lines.
    """
    started = said = clock()
    try:
        between = float(os.environ.get(_VARIABLE, _SECONDS_BETWEEN_LINES)) or math.inf
    except ValueError:
        between = _SECONDS_BETWEEN_LINES

    def report(stage: str, done: int, total: int) -> None:
        nonlocal said
        now = clock()
        if now - said >= between:
            said = now
            share = f" ({100 * done / total:.0f} %)" if total else ""
            print_error_line(f"airmix: {stage}: {done:,} of {total:,}{share} after {now - started:.0f} s")

    return report


def print_error_line(text: str) -> None:
    """Print a line on stderr as it is."""
    _stderr.print(text, markup=False, soft_wrap=True)


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a Progress callable that draws one bar per stage on stderr; the work begins here.

    Where stderr is no terminal, such as in a log file, long work writes a line now and then instead.
    """
    raise_when_interrupted()
    if not _stderr.is_terminal:
        yield occasional_lines()
        return
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bars = Bars(TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), *times, console=_stderr)
    tasks: dict[str, TaskID] = {}
    with bars:

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            elif done == 0:
                bars.reset(tasks[stage], total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report


def integers_in_words(facts: Mapping[str, Any]) -> str:
    """Return how sums of integers are taken, from the facts of a report or a plan."""
    rounding = f"rounding is {facts['rounding_share']:.1%} of the noise in the sum"
    noise = f"Skellam noise of {facts['noise_in_steps']:,.0f} steps"
    beyond = f" up to {facts['assumed_range']:g} times the root mean square" if facts["assumed_range"] else ""
    wraps = f"no sum{beyond} wraps around, except with probability {facts['wrap_failure']:g}"
    return f"modulo 2^{facts['bits']:g}: {noise}, {rounding}; {wraps}"
