"""How results look in a notebook: small tables of names and values, in the colours of whatever theme there is."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_TABLE = "border-collapse:collapse;margin:0.3em 0;font-size:90%"
_CELL = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0;border:0;background:transparent;color:inherit"
_HEAD = f"{_CELL};font-weight:bold;border-bottom:1px solid currentColor"


def html_facts(title: str, facts: Mapping[str, str]) -> str:
    """Return names and values below a title; every text is escaped."""
    return html_table(title, (), facts.items())


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, with heads where there are any, below a title; every text is escaped."""
    head = "".join(f'<th style="{_HEAD}">{escape(name)}</th>' for name in columns)
    lines = ("".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in row) for row in rows)
    body = "".join(f'<tr style="background:transparent">{line}</tr>' for line in lines)
    heads = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f'<div><strong>{escape(title)}</strong><table style="{_TABLE}">{heads}<tbody>{body}</tbody></table></div>'


def html_lines(lines: Iterable[str]) -> str:
    """Return lines of text one below the other; every text is escaped."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
