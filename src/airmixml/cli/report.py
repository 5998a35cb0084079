"""``airmix report``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.terminal import report_lines, show
from airmixml.errors import ScenarioError

_LONGEST_NAME = 100


def report_command(
    folders: Annotated[
        list[Path] | None,
        Argument(metavar="RUN [RUN ...]", help="Folders that airmix made.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="File to write [default: report.html in the folder; of several, a name below runs/]."),
    ] = None,
    opened: Annotated[bool, Option("--open", help="Open the report in the browser.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the report of a folder again, or put several folders side by side on one page.

    Every command that makes a folder writes its report.html; this makes that of an older folder. Several folders show
    what differs between their scenarios, results, privacy and learning curves.
    """
    if not folders:
        raise ScenarioError("give one or more folders that airmix made, such as runs/NAME")
    from airmixml.reports import write_report, write_side_by_side

    if len(folders) == 1:
        path = write_report(folders[0], out=out)
    else:
        names = "-".join(folder.absolute().name for folder in folders)[:_LONGEST_NAME]
        path = write_side_by_side(folders, out or Path("runs") / f"report-{names}.html")
    report = {"report": str(path)}
    show(as_json, {**report, "folders": [str(folder) for folder in folders]}, *report_lines(report))
    if opened:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
