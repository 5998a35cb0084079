"""The last step of every command that makes a folder: its report, and what is printed."""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airmixml.cli.terminal import print_error_line, print_places, progress_bars, show
from airmixml.output.page import Page
from airmixml.wording import in_plain_words

if TYPE_CHECKING:
    from airmixml.storage.run_folder import RunFolder


def make_or_find(make: Callable[..., Any], *given: Any, out: Path | None, **how: Any) -> dict[str, Any]:
    """Return the metrics of what ``make`` gives, or of what the same command has finished before in the same folder."""
    from airmixml.storage.run_folder import PROTECTION, FinishedBefore

    try:
        with progress_bars() as progress:
            result = make(*given, out=out, **how, progress=progress, finish=finish_with_report, again=False)
    except FinishedBefore as found:
        protected = found.metrics.get("mode") == PROTECTION
        _say_finished_before(found.folder, protected=protected, may_force=out is not None)
        return found.metrics
    # As the file has it, so that a screen is the same whenever it is shown.
    metrics: dict[str, Any] = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    return metrics


def _say_finished_before(folder: Path, *, protected: bool = False, may_force: bool = False) -> None:
    """Say on stderr that what was asked for is there already, and how to compute it again."""
    or_force = ", or --force to replace it" if may_force else ""
    spends = ", which spends epsilon once more" if protected else ""
    unknown = " (whether the rows changed since is not known)" if protected else ""
    print_error_line(
        f"airmix: {folder}: finished before and shown again{unknown}; to compute it again{spends}, give another "
        f"--out{or_force}"
    )


def show_made(as_json: bool, metrics: dict[str, Any], page: Page, *, file: str = "", picture: str) -> None:
    """Print a run, an attack or an audit, and where its ``file`` and its ``picture`` are, which may be a pattern."""
    folder = Path(metrics["run_dir"])
    report = report_in(folder)
    show(as_json, {**metrics, **report}, page)
    if not as_json:
        drawn = sorted(map(str, folder.glob(picture)))
        print_places(folder / file, report, picture=next(iter(drawn), ""))


def show_study(
    as_json: bool,
    plain: dict[str, Any],
    page: Page,
    *,
    name: str,
    out: Path,
    write: Callable[[], Sequence[Path]],
    seconds: float,
    kept: str = "",
) -> None:
    """Write a study and its report and print what it found.

    Its files are called ``name``; ``write`` makes them. ``kept``: what was there before.
    """
    files = write()
    _add_report(out)
    report = report_in(out)
    show(as_json, {**plain, "out": str(out), "files": list(map(str, files)), "seconds": seconds, **report}, page)
    if not as_json:
        note = f" ({kept} already finished)" if kept else ""
        drawn = out / f"{name}.png"
        print_places(out / f"{name}.md", report, note=note, picture=str(drawn) if drawn in files else "")


def finish_with_report(folder: "RunFolder") -> None:
    """Write the report of a folder before that gets its name."""
    _add_report(folder.final, folder.work)


def report_in(folder: Path) -> dict[str, str]:
    """Return where the report of a folder is, by its name in JSON, if there is one."""
    from airmixml.storage.run_folder import REPORT

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
        with contextlib.suppress(OSError):
            ((work or folder) / REPORT).unlink(missing_ok=True)  # of an earlier command: it no longer fits
