"""The report of a folder as one self-contained HTML file, and of several folders side by side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from airmixml.errors import AirMixError, RunFolderError
from airmixml.output.page import Cards, Code, Folded, Notices, Page, Part
from airmixml.output.tables import Marked, Table
from airmixml.reports.content import MOST_BYTES, PROTECTED, Content, draw_curves, embed, section
from airmixml.reports.folders import find_folder, flat, is_report, recorded_command, shown_value
from airmixml.storage.files import corrupt_file, write_text, writing_to
from airmixml.storage.run_folder import REPORT, SCENARIO
from airmixml.wording import NONE, against, plural

_MOST_FOLDERS: Final = 12


def write_report(
    folder: Path | str,
    *,
    command: Sequence[str] = (),
    out: Path | None = None,
    work: Path | None = None,
    drawn: bool = False,
) -> Path:
    """Write ``report.html`` into a folder that a command has made, and return its path.

    Everything in it comes from the files of the folder. Of a protected run these hold only what its statements cover.

    Args:
        folder: of a run, attack, audit, plan, comparison, sweep, study of tolerances or reproduction.
        command: the words that made it; without them those of an earlier report, or what the files tell.
        out: file to write instead; only a page of ours is replaced.
        work: where its files still are, of a folder that is about to get its name.
        drawn: draw what the folder has as numbers only: what each worker of a simulated run spent.
    """
    folder = Path(folder)
    content = read_content(folder, work, drawn=drawn)
    words = tuple(command) or recorded_command(work or folder)
    if content.kind == PROTECTED:
        words = ()  # what else was typed, the statements do not cover
    path = _write((work or folder) / REPORT if out is None else out, content.page(words))
    return folder / REPORT if out is None else path


def write_side_by_side(folders: Sequence[Path | str], out: Path) -> Path:
    """Write one page about several folders and return its path; only a page of ours is replaced."""
    if not 2 <= len(folders) <= _MOST_FOLDERS:
        raise RunFolderError(f"give 2 to {_MOST_FOLDERS} folders to put side by side, not {len(folders)}")
    if out.name == REPORT and (out.parent / "metrics.json").exists():
        raise RunFolderError(f"{out}: is the report of a single folder; choose another name with --out")
    return _write(out, side_by_side([read_content(Path(folder)) for folder in folders]))


def _write(path: Path, page: Page) -> Path:
    if path.is_dir():
        raise RunFolderError(f"{path}: is a folder; name a file with --out, such as {path / REPORT}")
    if path.exists() and not is_report(path):
        raise RunFolderError(f"{path}: is there already and is no report of airmix; choose another name with --out")
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page.to_html())
    return path


def read_content(folder: Path, work: Path | None = None, *, drawn: bool = False) -> Content:
    """Return what a folder tells; refuse one that airmix did not make, or that was changed.

    ``work`` is where its files are before it gets its name; ``drawn`` is that of ``write_report``.
    """
    found = find_folder(folder, work)
    try:
        if found.kind == "run":
            from airmixml.reports.of_runs import run_content  # here: it loads torch, which others need not

            return run_content(found, drawn=drawn)
        from airmixml.reports.of_studies import CONTENTS

        return CONTENTS[found.kind](found)
    except AirMixError:
        raise
    except OSError as problem:
        where = problem.filename or folder
        raise RunFolderError(f"{where}: cannot be read ({problem.strerror}); is {SCENARIO} there?") from problem
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as problem:
        raise corrupt_file(found.file, problem, delete=f"the folder {folder}") from problem


def side_by_side(contents: Sequence[Content]) -> Page:
    """Return the page about several folders."""
    names = short_names([content.folder for content in contents])
    pairs = list(zip(names, contents, strict=True))
    curves = [
        replace(curve, label=name if len(content.curves) == 1 else f"{name}, {curve.label}")
        for name, content in pairs
        for curve in content.curves
    ]
    scenarios = [{} if each.scenario is None else flat(each.scenario) for each in contents]
    told = [{key: shown_value(value) for key, value in scenario.items()} for scenario in scenarios]
    differences = _beside("Keys that differ", names, told, first="key", differing=True)
    asked: list[Part] = [
        f"{name} ({content.kind}): {content.title}{f'. {content.verdict}' if content.verdict else ''}"
        for name, content in pairs
    ]
    asked += (
        ["Marked values are not those of the first column; all keys that are not listed are equal.", *differences]
        if differences
        else ["Nothing: the scenarios are equal."]
    )
    learning = draw_curves(curves, named=True)
    results = (
        *_beside("What came out", names, [dict(content.results) for content in contents]),
        *_beside("Smallest epsilon against each adversary", names, list(map(_epsilons, contents))),
        *_beside("Energy, power and time on the air", names, [dict(content.costs) for content in contents]),
        *((learning,) if learning is not None else ()),
    )
    privacy: list[Part] = []
    pictures: list[Part] = []
    again: list[Part] = []
    for name, content in pairs:
        if not content.cards:
            privacy.append(f"{name}: no epsilon is stated.")
        for group in content.cards:
            title = name if len(content.cards) == 1 else f"{name}: {group.title}"
            privacy += [Cards(title=title, cards=group.cards), Notices(content.notices)]
        drawn = embed(content.pictures, MOST_BYTES // len(contents))
        pictures.append(
            Folded(summary=f"{name}: {plural(len(drawn), 'picture')}", parts=tuple(drawn), open=len(names) < 4)
        )
        again += [name, Code(shlex.join(recorded(content)))]
    asked += _beside("What was asked", names, [dict(content.asked) for content in contents])
    return Page(
        kind="side by side",
        title=f"{len(contents)} results side by side: {', '.join(names)}",
        sections=(
            section("differences", "What was asked, and what differs", *asked, link="What differs"),
            section("results", "What came out", *results),
            section("privacy", "Who learns what", *privacy),
            section("pictures", "Pictures", *pictures),
            section("again", "Make them again", *again),
        ),
    )


def recorded(content: Content) -> tuple[str, ...]:
    """Return the command of a folder: of its report, or what its files tell."""
    return content.command if content.kind == PROTECTED else recorded_command(content.folder) or content.command


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts of paths, as many as tell them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(each[-1:])} ({number})" for number, each in enumerate(parts, start=1)]


def _beside(
    title: str, names: Sequence[str], columns: Sequence[dict[str, str]], *, first: str = "", differing: bool = False
) -> tuple[Table, ...]:
    """Return every name that some column has with all values: one table, or none.

    Where only ``differing`` rows are shown, values that are not those of the first column are marked.
    """
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column if name):
        values = [column.get(name, NONE) for column in columns]
        if not differing:
            rows.append((name, *values))
        elif len(set(values)) > 1:
            rows.append((name, *(value if value == values[0] else Marked(value) for value in values)))
    return (Table(title=title, columns=(first, *names), rows=tuple(rows)),) if rows else ()


def _epsilons(content: Content) -> dict[str, str]:
    """Return what is promised against each adversary; of several settings, that of the first."""
    cards = content.cards[0].cards if content.cards else ()
    told = {against(card.adversary): f"{card.epsilon} ({card.promise})" for card in cards}
    if told and content.scenario is not None:  # an epsilon is never a bare number
        privacy = content.scenario.privacy
        told |= {"delta": f"{privacy.delta:.3g}", "neighbours": privacy.adjacency}
    return told
