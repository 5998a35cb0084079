"""Several finished folders on one page: which keys differ, and scores, epsilons and costs with a column for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from airmixml.errors import RunFolderError
from airmixml.output.cards import flat, shown_value
from airmixml.output.page import Cards, Code, Facts, Page, Part, section
from airmixml.output.tables import Table
from airmixml.reports.pages import ONLY_COVERED, STUDY, find_folder, read_report, write_page
from airmixml.wording import NONE, against

_MOST_FOLDERS: Final = 12
_TOGETHER: Final = "An epsilon covers its own folder: several folders about the same people reveal more together."


def write_side_by_side(folders: Sequence[Path | str], out: Path) -> Path:
    """Write one page about 2 to 12 folders that commands have made, and return its path; see ``write_report``."""
    if not 2 <= len(set(map(str, folders))) == len(folders) <= _MOST_FOLDERS:
        rule = f"must be 2 to {_MOST_FOLDERS} folders to put side by side; name each once"
        raise RunFolderError(f"{' '.join(map(str, folders))}: {rule}")
    pages = {str(folder): read_report(Path(folder)) for folder in folders}
    keys = {}
    for name in pages:
        scenario = find_folder(name).scenario()
        keys[name] = {} if scenario is None else {key: shown_value(value) for key, value in flat(scenario).items()}
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
