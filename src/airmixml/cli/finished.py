"""The last step of every command that makes a folder: its report."""

import contextlib
from pathlib import Path

from airmixml.cli.terminal import print_error_line
from airmixml.wording import in_plain_words


def add_report(folder: Path | str, *, typed: bool = True) -> dict[str, str]:
    """Write ``report.html`` into a finished folder and return its place by its name in JSON.

    Results are there already: where the report fails, a line says so, and nothing else is lost. ``typed``: what was
    typed makes this folder again, and no others.
    """
    from airmixml.reports import REPORT, write_report  # here: a report is the last thing that a command needs
    from airmixml.reports.commands import typed_command

    try:
        return {"report": str(write_report(folder, command=typed_command() if typed else ()))}
    except Exception as problem:  # whatever a drawing or a disk says
        print_error_line(
            f"airmix: no {REPORT} in {folder}: {in_plain_words(problem)}; airmix report {folder} tries again"
        )
        with contextlib.suppress(OSError):
            (Path(folder) / REPORT).unlink(missing_ok=True)  # of an earlier command: it no longer fits
        return {}
