"""How the command line speaks: results on stdout, progress and errors on stderr."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from airmixml.cli.interrupt import work_begins
from airmixml.progress import Progress

console = Console(highlight=False)
_stderr = Console(stderr=True, highlight=False)


def print_json(result: dict[str, Any]) -> None:
    """Print exactly one JSON object on stdout."""
    sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a Progress callable that draws one bar per stage on stderr (only on a terminal); the work begins here."""
    bars = Bars(
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=_stderr,
        disable=not _stderr.is_terminal,
    )
    tasks: dict[str, TaskID] = {}
    work_begins()
    with bars:

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            elif done == 0:
                bars.reset(tasks[stage], total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report
