"""Several finished folders on one page: which keys differ, and scores, epsilons and costs with a column for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airmixml.errors import RunFolderError
from airmixml.output.cards import flat, shown_value
from airmixml.output.figures import BLUE, figure_bytes, finish_axis, new_figure
from airmixml.output.page import Cards, Code, Facts, Page, Part, Picture, section
from airmixml.output.tables import Table
from airmixml.reports.folders import find_folder
from airmixml.reports.pages import ONLY_COVERED, STUDY, read_report, write_page
from airmixml.wording import NONE, against

_MOST_FOLDERS: Final = 12
_OF_ATTACKS: Final = "largest certain success of an attack, less that of guessing"
_TOGETHER: Final = "An epsilon covers its own folder: several folders about the same people reveal more together."


def write_side_by_side(folders: Sequence[Path | str], out: Path) -> Path:
    """Write one page about 2 to 12 folders that commands have made, and return its path; see ``write_report``."""
    if not 2 <= len(set(map(str, folders))) == len(folders) <= _MOST_FOLDERS:
        rule = f"must be 2 to {_MOST_FOLDERS} folders to put side by side; name each once"
        raise RunFolderError(f"{' '.join(map(str, folders))}: {rule}")
    pages = {str(folder): read_report(Path(folder)) for folder in folders}
    keys, scores = {}, {}
    for name in pages:
        found = find_folder(name)
        scenario = found.scenario()
        keys[name] = {} if scenario is None else {key: shown_value(value) for key, value in flat(scenario).items()}
        scores[name] = _main_score(found.plain)
    shared = set.intersection(*(set(each.items()) for each in keys.values()))
    differing = {name: dict(row for row in each.items() if row not in shared) for name, each in keys.items()}
    titles = (f"{name} ({page.kind}): {page.title}. {page.verdict}" for name, page in pages.items())
    privacy, again = list[Part](), list[Part]()
    for name, page in pages.items():
        privacy += [replace(cards, title=f"{name}: {cards.title}", note="") for cards in page.all(Cards)]
        privacy += [f"{name}: {notice}" for notice in page.notices if notice not in (ONLY_COVERED, STUDY)]
        again += [name, *page.all(Code, "again")]
    protected = all(ONLY_COVERED in page.notices for page in pages.values())
    told = Page(
        kind="side by side",
        title=f"{len(pages)} results side by side",
        notices=(_TOGETHER,) if protected else (_TOGETHER, STUDY),
        sections=(
            section("differences", "What differs", *titles, *_beside("Keys that differ", differing)),
            section(
                "results",
                "What came out",
                *_pictures({name: score for name, score in scores.items() if score}),
                *_beside("Results", {name: _facts(page, "results") for name, page in pages.items()}),
                *_beside("Epsilon", {name: _epsilons(page) for name, page in pages.items()}),
                *_beside("On the air", {name: _facts(page, "costs") for name, page in pages.items()}),
            ),
            section("privacy", "Who learns what", *privacy),
            section("again", "Make them again", *again),
        ),
    )
    return write_page(out, told)


def _beside(title: str, columns: Mapping[str, Mapping[str, str]]) -> list[Table]:
    """Return a table with a row for each name that some column has; nothing where there is no row."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [(name, *(column.get(name, NONE) for column in columns.values())) for name in names]
    return [Table(title=title, columns=("", *columns), rows=rows)] if rows else []


def _facts(page: Page, name: str) -> dict[str, str]:
    return {row[0].strip(): row[1] for facts in page.all(Facts, name) for row in facts.rows if row[0]}


def _epsilons(page: Page) -> dict[str, str]:
    """Return what the first cards promise against each adversary, what was found, and what all of them assume."""
    told: dict[str, str] = {}
    assumed: dict[str, str] = {}
    for card in next((group.cards for group in page.all(Cards)), ()):
        facts, whom = dict(card.facts), against(card.adversary)
        told[whom] = f"{card.epsilon} ({card.promise})"
        told |= {f"{whom}, found": facts["found"]} if "found" in facts else {}
        assumed |= {name: facts[name] for name in ("delta", "neighbours") if name in facts}
    return told | assumed


def _main_score(plain: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return what the main score of a run or an attack is called, and the score; None where there is none."""
    if plain.get("accuracy"):
        return "accuracy", plain["accuracy"]["final"]
    if "measured" in plain:
        gains = (each["rate"] - each["guessing"] for each in plain["measured"] if each["beyond_chance"])
        return _OF_ATTACKS, max(gains, default=0.0)
    return next(iter(plain.get("scores", {}).items()), None)


def _pictures(scores: Mapping[str, tuple[str, float]]) -> list[Picture]:
    """Draw a bar for each folder, in one picture for each kind of score."""
    pictures = []
    for kind in dict.fromkeys(kind for kind, _ in scores.values()):
        bars = {name.replace("$", r"\$"): score for name, (own, score) in scores.items() if own == kind}
        figure = new_figure(7.0, 0.9 + 0.35 * len(bars))
        axis = figure.subplots()
        axis.bar_label(axis.barh(list(bars), list(bars.values()), color=BLUE), fmt="%.3g", padding=3)
        axis.margins(x=0.12)
        axis.invert_yaxis()
        finish_axis(axis)
        shows = f"{kind} of each folder, as in the table of results"
        pictures.append(Picture(caption=kind.capitalize(), shows=shows, content=figure_bytes(figure, "png")))
    return pictures
