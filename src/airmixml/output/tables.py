"""The same table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

_LATEX = str.maketrans(
    {"→": r"$\to$", "µ": r"\textmu{}", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "^": r"\^{}", "±": r"$\pm$"}
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
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def to_latex(self) -> str:
        """Return a ``tabular`` for use with the package booktabs."""
        body = [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        head = " & ".join(rf"\textbf{{{_latex(name)}}}" for name in self.columns) + r" \\"
        return "\n".join(
            [
                rf"% {self.title}; needs \usepackage{{booktabs}}",
                rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )


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
