"""Tables of results: Markdown below their marks in a page, and CSV files for what a page leaves out."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from airmixml.messages import NO_GUARANTEE, NONE

Table = tuple[list[str], list[list[str]]]  # head, lines


def markdown(table: Table) -> str:
    head, *lines = ("| " + " | ".join(line) + " |\n" for line in (table[0], *table[1]))
    return head + "|" + "---|" * len(table[0]) + "\n" + "".join(lines)


def with_tables(text: str, tables: Mapping[str, Table]) -> str:
    """Return a page with each table below its mark, ``<!-- table: NAME -->``."""
    for name, table in tables.items():
        mark = f"<!-- table: {name} -->\n"
        new = mark + markdown(table)
        text, times = re.subn(rf"{re.escape(mark)}(\|.*\n)*", lambda _, new=new: new, text)
        assert times == 1, name
    return text


def csv_text(table: Table) -> str:
    """Return the table for other programs: numbers as they read them."""
    head, lines = table
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *([plain(cell) for cell in line] for line in lines)])
    return text.getvalue()


def plain(cell: str) -> str:
    """Return "10,600" as 10600, "36.7 billion" as 36700000000, "no guarantee" as inf, a dash as nothing."""
    found = re.fullmatch(r"([\d,]+(?:\.\d+)?)( million| billion)?", cell)
    if found is None:
        return {NO_GUARANTEE: "inf", NONE: ""}.get(cell, cell)
    number, size = found[1].replace(",", ""), {" million": 1e6, " billion": 1e9}.get(found[2], 1.0)
    return number if size == 1.0 else f"{float(number) * size:.0f}"


def write_tables(page: Path, shown: Mapping[str, Table], folder: Path, files: Mapping[str, Table]) -> None:
    """Write the tables of a page and the files of all results."""
    page.write_text(with_tables(page.read_text(encoding="utf-8"), shown), encoding="utf-8")
    folder.mkdir(exist_ok=True)
    for name, table in files.items():
        (folder / f"{name}.csv").write_text(csv_text(table), encoding="utf-8")


def stale(page: Path, shown: Mapping[str, Table], folder: Path, files: Mapping[str, Table]) -> list[str]:
    """Return what differs from the results: the page, or the names of files."""
    text = page.read_text(encoding="utf-8")
    found = [] if with_tables(text, shown) == text else [page.name]
    there = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.csv")}
    made = {f"{name}.csv": csv_text(table) for name, table in files.items()}
    return found + sorted(name for name in there.keys() | made.keys() if there.get(name) != made.get(name))
