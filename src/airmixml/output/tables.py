"""The same table as Markdown, CSV and LaTeX, and tables for the terminal."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airmixml.storage.files import write_text

if TYPE_CHECKING:
    from rich.table import Table

_LATEX = str.maketrans(
    {"→": r"$\to$", "µ": r"\textmu{}", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "^": r"\^{}", "±": r"$\pm$"}
    | {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "~": r"\~{}", "[": "{[}", "<": "$<$", ">": "$>$"}
)


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of texts with a title and a line of explanation."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """Return the table with its title and note."""
        lines = [f"### {self.title}", "", self.note, ""] if self.note else [f"### {self.title}", ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + "---|" * len(self.columns))
        lines += ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Return the columns and rows."""
        return _csv([self.columns, *self.rows])

    def to_latex(self, *, booktabs: bool = True) -> str:
        """Return a ``tabular``, with the rules of the package booktabs or of LaTeX itself; the note is a comment."""
        body = [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        head = " & ".join(rf"\textbf{{{_latex(name)}}}" for name in self.columns) + r" \\"
        needs = r"; needs \usepackage{booktabs}" if booktabs else ""
        note = [] if booktabs else [f"% {line}" for line in self.note.splitlines()]
        begin = f"% {self.title}{needs}", *note, rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}"
        top, middle, bottom = (r"\toprule", r"\midrule", r"\bottomrule") if booktabs else (r"\hline",) * 3
        return "\n".join([*begin, top, head, middle, *body, bottom, r"\end{tabular}", ""])


def rows_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with the same keys as CSV, for other programs."""
    return _csv([rows[0], *(row.values() for row in rows)])


def _csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def write_all(stem: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write one file for each suffix and return the files."""
    paths = [stem.with_name(stem.name + suffix) for suffix in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def terminal_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", words: int = 1, **options: Any
) -> Table:
    """Return a table for the terminal: names in the first column, numbers on the right.

    Args:
        columns: their heads; where all are empty no head is shown.
        rows: texts, in which Rich's markup counts.
        title: stands above the table.
        words: how many columns hold words, which are aligned on the left.
        options: others of ``rich.table.Table``; with a box of its own it may be wider than the terminal.
    """
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", title_style="bold", show_header=any(columns), **options)
    for place, name in enumerate(columns):
        table.add_column(
            name,
            style=None if place else "cyan",
            justify="left" if place < words else "right",
            overflow="fold",
            no_wrap="box" in options,
        )
    for row in rows:
        table.add_row(*row)
    return table


def _latex(text: str) -> str:
    """Return the text for LaTeX: special characters escaped; powers of ten, Greek letters, minus signs as maths."""
    escaped = text.translate(_LATEX)
    for pattern, maths in (
        (r"10\\\^\{\}(\d+)", r"$10^{\1}$"),
        (r"\b(epsilon|alpha)\b", r"$\\\1$"),
        (r"(?<![\w$])-(?=\d)", "$-$"),
    ):
        escaped = re.sub(pattern, maths, escaped)
    return escaped
