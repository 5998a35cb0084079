"""The pages: what a folder tells as one self-contained HTML file, and several folders side by side."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.errors import AirMixError, RunFolderError
from airmixml.reports.cards import against
from airmixml.reports.commands import GENERATOR, META, flat, is_report, needs_file, recorded_command, shown_value
from airmixml.reports.content import Content
from airmixml.reports.folders import find_folder
from airmixml.reports.of_studies import CONTENTS
from airmixml.reports.pictures import MOST_BYTES, curve_table, draw_curves, embed
from airmixml.storage.files import write_text, writing_to
from airmixml.storage.results import corrupt_file
from airmixml.storage.run_folder import REPORT, SCENARIO
from airmixml.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

PROTECTED: Final = "protected run"
_MOST_FOLDERS: Final = 12


def write_report(
    folder: Path | str, *, command: Sequence[str] = (), out: Path | None = None, work: Path | None = None
) -> Path:
    """Write ``report.html`` into a folder that a command has made, and return its path.

    Everything in it comes from the files of the folder. Of a protected run these hold only what its statements cover.

    Args:
        folder: of a run, attack, audit, plan, comparison, sweep, study of tolerances or reproduction.
        command: the words that made it; without them those of an earlier report, or what the files tell.
        out: file to write instead; only a page of ours is replaced.
        work: where its files still are, of a folder that is about to get its name.
    """
    folder = Path(folder)
    content = read_content(folder, work)
    words = tuple(command) or recorded_command(work or folder) or content.command
    if content.kind == PROTECTED:
        words = content.command  # what else was typed, the statements do not cover
    path = _write((work or folder) / REPORT if out is None else out, render_report(content, words))
    return folder / REPORT if out is None else path


def write_side_by_side(folders: Sequence[Path | str], out: Path) -> Path:
    """Write one page about several folders and return its path; only a page of ours is replaced."""
    if not 2 <= len(folders) <= _MOST_FOLDERS:
        raise RunFolderError(f"give 2 to {_MOST_FOLDERS} folders to put side by side, not {len(folders)}")
    if out.name == REPORT and (out.parent / "metrics.json").exists():
        raise RunFolderError(f"{out}: is the report of a single folder; choose another name with --out")
    contents = [read_content(Path(folder)) for folder in folders]
    return _write(out, render_side_by_side(contents))


def _write(path: Path, page: str) -> Path:
    if path.is_dir():
        raise RunFolderError(f"{path}: is a folder; name a file with --out, such as {path / REPORT}")
    if path.exists() and not is_report(path):
        raise RunFolderError(f"{path}: is there already and is no report of airmix; choose another name with --out")
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page)
    return path


def read_content(folder: Path, work: Path | None = None) -> Content:
    """Return what a folder tells; refuse one that airmix did not make, or that was changed.

    ``work`` is where its files are before it gets its name.
    """
    found = find_folder(folder, work)
    try:
        if found.kind != "run":
            return CONTENTS[found.kind](found)
        from airmixml.reports.of_runs import run_content  # here: it loads torch, which others need not

        return run_content(found)
    except AirMixError:
        raise
    except OSError as problem:
        where = problem.filename or folder
        raise RunFolderError(f"{where}: cannot be read ({problem.strerror}); is {SCENARIO} there?") from problem
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        StopIteration,
    ) as problem:
        raise corrupt_file(found.file, problem, delete=f"the folder {folder}") from problem


def render_report(content: Content, command: Sequence[str] = ()) -> str:
    """Return the page about one folder."""
    words = tuple(command) or content.command
    learning = draw_curves(content.curves)
    page: str = _template("report.html").render(
        **_about(content.title, words),
        content=content,
        cards=any(group.cards for group in content.cards),
        learning=learning,
        curve_tables=[curve_table(curve) for curve in content.curves] if learning else [],
        pictures=embed(content.drawings),
        command=shlex.join(words),
        needs_file=needs_file(words),
        toml="" if content.scenario is None else content.scenario.to_toml(),
        protected=content.kind == PROTECTED,
    )
    return page


def render_side_by_side(contents: Sequence[Content]) -> str:
    """Return the page about several folders."""
    names = short_names([content.folder for content in contents])
    curves = [
        type(curve)(label=name if len(content.curves) == 1 else f"{name}, {curve.label}", columns=curve.columns)
        for name, content in zip(names, contents, strict=True)
        for curve in content.curves
    ]
    share = MOST_BYTES // len(contents)
    page: str = _template("side_by_side.html").render(
        **_about(f"{len(contents)} results side by side: {', '.join(names)}", ()),
        names=names,
        contents=contents,
        differences=differences(contents),
        asked=_beside([dict(content.asked) for content in contents]),
        facts={
            "What came out": _beside([dict(content.results) for content in contents]),
            "Smallest epsilon against each adversary": _beside([_epsilons(content) for content in contents]),
            "Energy, power and time on the air": _beside([dict(content.costs) for content in contents]),
        },
        learning=draw_curves(curves, named=True),
        pictures=[embed(content.drawings, share) for content in contents],
        commands=[shlex.join(recorded(content)) for content in contents],
    )
    return page


def recorded(content: Content) -> tuple[str, ...]:
    """Return the command of a folder: of its report, or what its files tell."""
    return content.command if content.kind == PROTECTED else recorded_command(content.folder) or content.command


def differences(contents: Sequence[Content]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return every key in which the scenarios differ: its values, and whether each is not that of the first."""
    known = [{} if content.scenario is None else flat(content.scenario) for content in contents]
    keys = dict.fromkeys(key for values in known for key in values)
    found = []
    for key in keys:
        values = [shown_value(values[key]) if key in values else "–" for values in known]
        if len(set(values)) > 1:
            found.append((key, [(value, value != values[0]) for value in values]))
    return found


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts of paths, as many as tell them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(each[-1:])} ({number})" for number, each in enumerate(parts, start=1)]


def _beside(columns: Sequence[dict[str, str]]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return every name that some column has with all values, and whether each differs from the first column's."""
    names = dict.fromkeys(name for column in columns for name in column if name)
    rows = []
    for name in names:
        values = [column.get(name, "–") for column in columns]
        rows.append((name, [(value, value != values[0]) for value in values]))
    return rows


def _epsilons(content: Content) -> dict[str, str]:
    """Return what is promised against each adversary; of several settings, that of the first."""
    cards = content.cards[0].cards if content.cards else ()
    told = {against(card.adversary): f"{card.epsilon} ({card.promise})" for card in cards}
    if told and content.scenario is not None:  # an epsilon is never a bare number
        privacy = content.scenario.privacy
        told |= {"delta": f"{privacy.delta:.3g}", "neighbours": privacy.adjacency}
    return told


def _about(title: str, command: Sequence[str]) -> dict[str, Any]:
    return {
        "title": title,
        "generator": f"{GENERATOR} {__version__}",
        "version": __version__,
        "meta": META,
        "command_json": json.dumps(list(command)),
    }


def _template(name: str) -> Any:
    return _environment().get_template(name)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # here: no other part of a command needs it

    environment = Environment(
        loader=PackageLoader("airmixml.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["zip"] = zip
    return environment
