"""One table: as Markdown, CSV and HTML, and on a terminal, where nothing of it is cut."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.files import write_together

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as RichTable

_ELSEWHERE: Final = "a wider terminal, --json or the files"
_LONGEST_UNBROKEN: Final = 24  # a longer word, such as a path, is broken


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of texts below heads.

    On a terminal words wrap, and where numbers do not fit, whole columns go and are named.
    """

    columns: Sequence[str]  # their heads; where all are empty no head is shown
    rows: Sequence[Sequence[str]]  # texts, which are shown as they are
    title: str = ""  # stands above the table
    note: str = ""  # an explanation, in files
    words: int = 1  # how many columns hold words; they are aligned on the left and wrap
    sections: tuple[int, ...] = ()  # numbers of rows below which a terminal draws a line
    options: Mapping[str, Any] = field(default_factory=dict)  # others of ``rich.table.Table``

    def to_markdown(self) -> str:
        """Return the table with its title and note, where it has them."""
        above = (f"### {self.title}" if self.title else "", self.note)
        lines = [line for text in above if text for line in (text, "")]
        head, *body = (
            "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in (self.columns, *self.rows)
        )
        lines += [head, "|" + "---|" * len(self.columns), *body]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        return _csv([self.columns, *self.rows])

    def to_html(self) -> str:
        """Return the table in a box that scrolls, with its title as caption; one without stands below a heading."""
        heads = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in self.columns)
        head = f"<thead><tr>{heads}</tr></thead>\n" if any(self.columns) else ""
        body = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{html_cell(cell)}</td>" for cell in cells)}</tr>'
            for name, *cells in self.rows
        )
        caption, hidden = escape(self.title or "Table"), "" if self.title else ' class="hidden"'
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">\n<table>\n'
            f"<caption{hidden}>{caption}</caption>\n{head}<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        )

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RichTable]:
        """Yield the table with the columns that fit the terminal; a line below names the others."""
        from rich.table import Table as RichTable
        from rich.text import Text

        width = options.max_width
        widths = self._fit(width)
        heads, gone = self.columns[: len(widths)], self.columns[len(widths) :]
        note = f"too wide for {width} characters, not shown: {', '.join(gone)}; see {_ELSEWHERE}" if gone else None
        styles: dict[str, Any] = {"title_style": "bold", "title_justify": "left", "caption_justify": "left"}
        title = Text(self.title) if self.title else None
        table = RichTable(title=title, caption=note, show_header=any(heads), **styles, **self.options)
        for place, (name, own_width) in enumerate(zip(heads, widths, strict=True)):
            justify: Any = "left" if place < self.words else "right"
            style = None if place else "cyan"
            table.add_column(Text(name), style=style, justify=justify, overflow="fold", width=own_width)
        for number, row in enumerate(self.rows, start=1):
            texts = (Text(cell, "bold red" if isinstance(cell, Marked) else "") for cell in row[: len(widths)])
            table.add_row(*texts, end_section=number in self.sections)
        yield table

    def _fit(self, width: int) -> list[int]:
        """Return the widths of the columns that are shown, which are the first ones."""
        texts = [[name, *(row[place] for row in self.rows)] for place, name in enumerate(self.columns)]
        # A head may wrap between its words; so may words below it, but no number.
        least = []
        for place, (head, *body) in enumerate(texts):
            wrapping, whole = ([head, *body], []) if place < self.words else ([head], body)
            longest_word = max((cell_width(word) for text in wrapping for word in text.split()), default=1)
            least.append(max([min(longest_word, _LONGEST_UNBROKEN), *map(cell_width, whole)]))
        while len(least) > 1 and sum(least) + self._edges(len(least)) > width:
            least.pop()
        widths = [max(map(cell_width, column)) for column in texts[: len(least)]]
        while sum(widths) + self._edges(len(widths)) > width:
            shrinking = [place for place, own in enumerate(widths) if own > least[place]]
            if not shrinking:
                break
            widths[max(shrinking, key=widths.__getitem__)] -= 1
        return widths

    def _edges(self, shown: int) -> int:
        """Return how many characters so many columns take beside their texts."""
        from rich.padding import Padding

        _, right, _, left = Padding.unpack(self.options.get("padding", (0, 1)))
        bar = 0 if self.options.get("box", "") is None else 1
        return (left + right + bar) * shown + bar


class Marked(str):
    """A cell to notice: it differs from its neighbours, or says that something is wrong."""

    __slots__ = ()


def html_cell(cell: str) -> str:
    """Return a cell for HTML."""
    return f"<mark>{escape(cell)}</mark>" if isinstance(cell, Marked) else escape(cell)


def rows_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with the same keys as CSV, for other programs."""
    return _csv([rows[0], *(row.values() for row in rows)])


def _csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def write_all(stem: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write one file for each suffix, all or none, and return the files."""
    contents = {stem.with_name(stem.name + suffix): text.encode("utf-8") for suffix, text in texts.items()}
    write_together(contents)
    return list(contents)


def cell_width(text: str) -> int:
    """Return how many characters of the terminal the longest line of a text takes."""
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))
