"""Our own pages of Markdown, read back: headings, paragraphs, lists and the tables that ``TextTable`` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_RULE: Final = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_CELLS: Final = re.compile(r"(?<!\\)\|")
_PICTURE: Final = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_EMPHASIS: Final = re.compile(r"\*\*(.+?)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])|`([^`]+)`")
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One part of a page.

    Attributes:
        kind: "heading", "paragraph", "list" or "table".
        lines: the heading, the paragraph, or the items of the list.
        columns: heads of the table.
        rows: its rows.
    """

    kind: str
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def read_markdown(text: str) -> list[Block]:
    """Return the parts of a page as plain text, in order; pictures are left out."""
    return [block for lines in _paragraphs(text) for block in _blocks(lines)]


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Yield lines that no empty line, heading or change between table, list and text separates."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if lines and (not line.strip() or _kind(line) != _kind(lines[-1]) or _kind(line) == "heading"):
            yield lines
            lines = []
        if line.strip():
            lines.append(line)


def _kind(line: str) -> str:
    if line.startswith("#"):
        return "heading"
    if line.startswith("|"):
        return "table"
    return "list" if line.startswith("- ") else "paragraph"


def _blocks(lines: list[str]) -> Iterator[Block]:
    kind = _kind(lines[0])
    if kind == "heading":
        yield Block(kind=kind, lines=(_plain(lines[0].lstrip("#")),))
    elif kind == "table" and len(lines) > 1 and _RULE.fullmatch(lines[1].strip()):
        columns = _cells(lines[0])
        rows = tuple((*_cells(line), *("",) * len(columns))[: len(columns)] for line in lines[2:])
        yield Block(kind=kind, columns=columns, rows=rows)
    elif kind == "list":
        yield Block(kind=kind, lines=tuple(_plain(line[2:]) for line in lines))
    elif told := _plain(" ".join(lines)):
        yield Block(kind="paragraph", lines=(told,))


def _cells(line: str) -> tuple[str, ...]:
    inside = line.strip().removeprefix("|")
    inside = inside[:-1] if inside.endswith("|") and not inside.endswith(r"\|") else inside
    return tuple(_plain(cell.replace(r"\|", "|")) for cell in _CELLS.split(inside))


def _plain(text: str) -> str:
    """Return text without pictures, links, bold, italics and code marks."""
    without = _LINK.sub(r"\1", _PICTURE.sub("", text))
    return _EMPHASIS.sub(lambda found: next(filter(None, found.groups())), without).strip()
