"""The last step of every command that makes a folder: its report, and what is printed."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airmixml.cli.terminal import print_error_line, print_report_place, show
from airmixml.output.tables import Table
from airmixml.wording import in_plain_words

if TYPE_CHECKING:
    from airmixml.storage.run_folder import Finish, RunFolder


def report_into(places: list[dict[str, str]], *, typed: bool = True) -> "Finish":
    """Return what writes the report of a folder before that gets its name, and adds to ``places`` where it will be."""

    def finish(folder: "RunFolder") -> None:
        places.append(add_report(folder.final, work=folder.work, typed=typed))

    return finish


def show_study(
    as_json: bool,
    plain: dict[str, Any],
    *parts: str | Table,
    name: str,
    out: Path,
    files: Sequence[Path],
    seconds: float,
    kept: str = "",
    picture: bool = True,
) -> None:
    """Write the report of a study and print what it found: its files are called ``name``; ``kept`` was there before.

    Where its ``picture`` is, which the report has too, is said unless a screen has no line to spare.
    """
    report = add_report(out)
    show(as_json, {**plain, "out": str(out), "files": list(map(str, files)), "seconds": seconds, **report}, *parts)
    if not as_json:
        note = f" ({kept} already finished)" if kept else ""
        drawn = picture and out / f"{name}.png" in files
        print_report_place(out, name, report, note=note, picture=drawn)


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
