"""How the command line speaks: results on stdout, progress and errors on stderr; and how a command ends.

The last step of every command that makes a folder is its report, and what is printed of it.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rich.console import Console
from rich.text import Text
from typer import Exit

from airmixml.cli.main import STARTED, raise_when_interrupted
from airmixml.messages import ScenarioError, duration, in_plain_words, shown
from airmixml.output.cards import card_rows
from airmixml.output.page import Cards, Facts, Page, Rows
from airmixml.output.tables import Table
from airmixml.progress import Progress

if TYPE_CHECKING:
    from rich.progress import TaskID

    from airmixml.storage.folders import RunFolder

# A terminal that does not know its width says that it is 0; on one of 0 columns nothing would be seen.
_ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if (name, value) != ("COLUMNS", "0")}
console = Console(highlight=False, _environ=_ENVIRONMENT)
stderr_console = Console(stderr=True, highlight=False, _environ=_ENVIRONMENT)
_ON_SCREEN: Final = (str, Facts, Table)
_MOST_FAILURES: Final = 5


def print_json(result: dict[str, Any]) -> None:
    """Print exactly one JSON object on stdout."""
    sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


def print_line(text: str, style: str | None = None) -> None:
    """Print a line as it is: nothing in it is markup, and however long it is, no path in it is broken."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def show(as_json: bool, plain: dict[str, Any], *parts: str | Text | Table | Page) -> None:
    """Print a result: as one JSON object, or as pages, lines and tables; in lines nothing is markup."""
    if as_json:
        print_json(plain)
        return
    for part in parts:
        if isinstance(part, Page):
            print_page(part)
        elif isinstance(part, str):
            print_line(part)
        else:
            console.print(part, soft_wrap=isinstance(part, Text))


def print_page(page: Page) -> None:
    """Print a page: title, verdict, notices, then facts in one table, tables and lines in their order."""
    print_line(page.title, style="bold")
    for line in filter(None, (page.verdict, *page.notices)):
        console.print(line, markup=False)
    parts = (part for kept in page.sections for part in kept.parts)
    told = (
        Facts(caption="", rows=card_rows(part.cards)) if isinstance(part, Cards) and part.on_screen else part
        for part in parts
    )
    shown: Iterator[Any] = (part for part in told if isinstance(part, _ON_SCREEN) and getattr(part, "rows", True))
    for is_facts, some in groupby(shown, key=lambda part: isinstance(part, Facts)):
        for part in [_one_table([each.rows for each in some])] if is_facts else some:
            console.print(part, markup=False)


def _one_table(facts: list[Rows]) -> Table:
    return Table(columns=("", ""), rows=tuple(chain(*facts)), words=2, sections=tuple(accumulate(map(len, facts))))


def report_lines(report: Mapping[str, str]) -> list[str]:
    """Return where the report is, if there is one."""
    return [f"{name}: {path}" for name, path in report.items()]


def command_seconds() -> float:
    """Return how long the command has taken so far, imports included."""
    return time.monotonic() - STARTED


def seconds_of(variable: str, otherwise: float) -> float:
    """Return the seconds that an environment variable sets, or others where it sets none; refuse what is no number."""
    text = os.environ.get(variable) or str(otherwise)
    with suppress(ValueError):
        if (seconds := float(text)) >= 0.0:
            return seconds
    raise ScenarioError(f"{variable} = {shown(text)}: must be a number of seconds of at least 0; correct or unset it")


def occasional_lines(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return a Progress callable that writes a line to stderr at most every half minute, the first after one.

    The environment variable AIRMIX_PROGRESS_SECONDS sets another time; 0 asks for no lines.
    """
    started = said = clock()
    between = seconds_of("AIRMIX_PROGRESS_SECONDS", 30.0) or math.inf

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
    stderr_console.print(text, markup=False, soft_wrap=True)


def report_failures(failures: Sequence[str], more: str, after: str) -> NoReturn:
    """Print the first failures on stderr, ``more`` with the number of others, and what comes ``after``; exit with 1."""
    for failure in failures[:_MOST_FAILURES]:
        print_error_line(f"airmix: failed: {failure}")
    if len(failures) > _MOST_FAILURES:
        print_error_line(f"airmix: failed: {len(failures) - _MOST_FAILURES} {more}")
    print_error_line(f"airmix: {after}")
    raise Exit(1)


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a Progress callable that draws one bar per stage on stderr; the work begins here.

    Where stderr is no terminal, such as in a log file, long work writes a line now and then instead.
    """
    raise_when_interrupted()
    if not stderr_console.is_terminal:
        yield occasional_lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bars = Bars(TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), *times, console=stderr_console)
    tasks: dict[str, TaskID] = {}
    with bars:

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            elif done == 0:
                bars.reset(tasks[stage], total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report


def make_or_find(make: Callable[..., Any], *given: Any, out: Path | None, **how: Any) -> dict[str, Any]:
    """Return the metrics of what ``make`` gives, or of what the same command has finished before in the same folder."""
    from airmixml.scenario.scenario import PROTECTION
    from airmixml.storage.folders import FinishedBefore

    try:
        with progress_bars() as progress:
            result = make(*given, out=out, **how, progress=progress, finish=finish_with_report, again=False)
    except FinishedBefore as found:
        protected = found.metrics.get("mode") == PROTECTION
        or_force = ", or --force to replace it" if out is not None else ""
        spends = ", which spends epsilon once more" if protected else ""
        unknown = " (whether the rows changed since is not known)" if protected else ""
        print_error_line(
            f"airmix: {found.folder}: finished before and shown again{unknown}; to compute it again{spends}, give "
            f"another --out{or_force}"
        )
        return found.metrics
    # As the file has it, so that a screen is the same whenever it is shown.
    metrics: dict[str, Any] = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    return metrics


def show_made(
    as_json: bool, plain: dict[str, Any], page: Page, folder: Path, *, file: str = "", picture: str, note: str = ""
) -> None:
    """Print what a command made, and where its ``file``, its report and its ``picture`` are, which may be a pattern."""
    report = report_in(folder)
    drawn = sorted(map(str, folder.glob(picture)))
    seen = f", picture in {drawn[0]}" if drawn else ""
    where = f"{duration(command_seconds())}{note}; everything in {folder / file}{seen}"
    show(as_json, {**plain, **report}, page, where, *report_lines(report))


def show_study(
    as_json: bool, plain: dict[str, Any], page: Page, files: Sequence[Path], *, seconds: float, kept: str = ""
) -> None:
    """Write the report of a study beside its ``files``, and print what it found; ``kept`` is what was there before."""
    written = next(path for path in files if path.suffix == ".md")
    out, name = written.parent, written.stem
    _add_report(out)
    plain = {**plain, "out": str(out), "files": list(map(str, files)), "seconds": seconds}
    note = f" ({kept} already finished)" if kept else ""
    show_made(as_json, plain, page, out, file=f"{name}.md", picture=f"{name}.png", note=note)


def finish_with_report(folder: "RunFolder") -> None:
    """Write the report of a folder before that gets its name."""
    _add_report(folder.final, folder.work)


def report_in(folder: Path) -> dict[str, str]:
    """Return where the report of a folder is, by its name in JSON, if there is one."""
    from airmixml.storage.folders import REPORT

    return {"report": str(folder / REPORT)} if (folder / REPORT).is_file() else {}


def _add_report(folder: Path, work: Path | None = None) -> None:
    """Write ``report.html`` into a finished folder, which is at ``work`` before it gets its name.

    Results are there already: where the report fails, a line says so, and nothing else is lost.
    """
    from airmixml.reports import REPORT, write_report  # here: a report is the last thing that a command needs

    try:
        write_report(folder, work=work)
    except Exception as problem:  # whatever a drawing or a disk says
        print_error_line(
            f"airmix: no {REPORT} in {folder}: {in_plain_words(problem)}; airmix report {folder} tries again"
        )
        with suppress(OSError):
            ((work or folder) / REPORT).unlink(missing_ok=True)  # of an earlier command: it no longer fits
