"""The last step of every command that makes a folder: its report, and what is printed."""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airmixml.cli.terminal import print_error_line, print_places, progress_bars, show
from airmixml.output.page import Page
from airmixml.output.tables import Table
from airmixml.wording import in_plain_words

if TYPE_CHECKING:
    from airmixml.storage.run_folder import Finish, RunFolder


@dataclass(frozen=True, kw_only=True)
class Made:
    """The folder of a run, an attack or an audit, as its ``metrics.json`` has it."""

    metrics: dict[str, Any]
    report: dict[str, str]  # its place, by its name in JSON; empty where there is none
    before: bool  # whether it was finished before, so that nothing was computed


def make_or_find(make: Callable[..., Any], *given: Any, out: Path | None, **how: Any) -> Made:
    """Return what ``make`` gives, or what the same command has finished before in the same folder."""
    from airmixml.storage.run_folder import PROTECTION, REPORT, FinishedBefore

    reports: list[dict[str, str]] = []
    try:
        with progress_bars() as progress:
            result = make(*given, out=out, **how, progress=progress, finish=report_into(reports), again=False)
    except FinishedBefore as found:
        page, metrics = found.folder / REPORT, found.metrics
        say_finished_before(found.folder, protected=metrics.get("mode") == PROTECTION, may_force=out is not None)
        return Made(metrics=metrics, report={"report": str(page)} if page.is_file() else {}, before=True)
    # As the file has it, so that a screen is the same whenever it is shown.
    metrics = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    return Made(metrics=metrics, report=reports[0], before=False)


def say_finished_before(folder: Path, *, protected: bool = False, may_force: bool = False) -> None:
    """Say on stderr that what was asked for is there already, and how to compute it again."""
    or_force = ", or --force to replace it" if may_force else ""
    spends = ", which spends epsilon once more" if protected else ""
    unknown = " (whether the rows changed since is not known)" if protected else ""
    print_error_line(
        f"airmix: {folder}: finished before and shown again{unknown}; to compute it again{spends}, give another "
        f"--out{or_force}"
    )


def show_made(as_json: bool, made: Made, page: Page, name: str) -> None:
    """Print an attack or an audit, whose files are called ``name``, and where they are."""
    show(as_json, {**made.metrics, **made.report}, page)
    if not as_json:
        stem = Path(made.metrics["run_dir"]) / name
        print_places(f"{stem}.md", made.report, picture=f"{stem}.png")


def report_into(places: list[dict[str, str]], *, typed: bool = True) -> "Finish":
    """Return what writes the report of a folder before that gets its name, and adds to ``places`` where it will be."""

    def finish(folder: "RunFolder") -> None:
        places.append(add_report(folder.final, work=folder.work, typed=typed))

    return finish


def show_study(
    as_json: bool,
    plain: dict[str, Any],
    *parts: str | Table | Page,
    name: str,
    out: Path,
    write: Callable[[], Sequence[Path]],
    seconds: float,
    kept: str = "",
    beside: Sequence[str] = (),
) -> None:
    """Write a study and its report and print what it found; what the same command wrote before stays as it is.

    Its files are called ``name``, and those ``beside``; ``write`` makes them. ``kept``: what was there before.
    """
    from airmixml.storage.run_folder import REPORT
    from airmixml.storage.study import written_files

    found = written_files(out / name, plain, beside)
    if found:
        say_finished_before(out)
    files = found or write()
    report = {"report": str(out / REPORT)} if found else add_report(out)
    show(as_json, {**plain, "out": str(out), "files": list(map(str, files)), "seconds": seconds, **report}, *parts)
    if not as_json:
        note = f" ({kept} already finished)" if kept else ""
        drawn = out / f"{name}.png"
        print_places(out / f"{name}.md", report, note=note, picture=str(drawn) if drawn in files else "")


def add_report(folder: Path | str, *, work: Path | None = None, typed: bool = True) -> dict[str, str]:
    """Write ``report.html`` into a finished folder and return its place by its name in JSON.

    Results are there already: where the report fails, a line says so, and nothing else is lost. ``work`` is where the
    folder is before it gets its name. ``typed``: what was typed makes this folder again, and no others.
    """
    from airmixml.reports import REPORT, write_report  # here: a report is the last thing that a command needs
    from airmixml.reports.folders import typed_command

    try:
        return {"report": str(write_report(folder, command=typed_command() if typed else (), work=work))}
    except Exception as problem:  # whatever a drawing or a disk says
        print_error_line(
            f"airmix: no {REPORT} in {folder}: {in_plain_words(problem)}; airmix report {folder} tries again"
        )
        with contextlib.suppress(OSError):
            ((work or Path(folder)) / REPORT).unlink(missing_ok=True)  # of an earlier command: it no longer fits
        return {}
