"""A page: what a result looks like, as facts, tables, cards and pictures; one HTML file that needs no other."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from airmixml.output.tables import Table
from airmixml.version import __version__

Rows = tuple[tuple[str, str], ...]
"""Names and values, in order."""

COMMAND: Final = "airmix-command"
GENERATOR: Final = "airmix report"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names and values; the ``caption`` is for those who do not see the heading above them."""

    caption: str
    rows: Rows

    def to_html(self) -> str:
        """Return a table of two columns; nothing where there are no rows."""
        if not self.rows:
            return ""
        rows = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in self.rows
        )
        caption = f'<caption class="hidden">{escape(self.caption)}</caption>'
        return f'<table class="facts">\n{caption}\n<tbody>\n{rows}\n</tbody>\n</table>\n'


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is promised against one adversary, in words.

    Attributes:
        adversary: its name, as scenarios have it.
        who: who that is.
        epsilon: as text; where nothing is promised, words that say so.
        promise: how much that is: "strong promise", "protects nobody", ...
        level: the same for the page's colours: strong, moderate, weak or none.
        is_target: whether the scenario's own target is against this adversary.
        words: what the adversary can conclude at most.
        facts: delta, neighbours, trust.
        details: accountant, noise and the other statements.
    """

    adversary: str
    who: str
    epsilon: str
    promise: str
    level: str
    is_target: bool
    words: str
    facts: Rows
    details: Rows = ()

    def to_html(self) -> str:
        """Return the card."""
        tag = ' <span class="tag">the target’s adversary</span>' if self.is_target else ""
        who = f'<p class="who">{escape(self.who)}</p>\n' if self.who else ""
        more = Folded(summary="More about this epsilon", parts=(_Named(self.details),)).to_html()
        return (
            f'<article class="card {self.level}" aria-label="{escape(f"{self.adversary}: {self.promise}")}">\n'
            f'<h4>{escape(self.adversary)}{tag}</h4>\n{who}<p class="epsilon">epsilon {escape(self.epsilon)}</p>\n'
            f'<p class="promise">{escape(self.promise)}</p>\n<p>{escape(self.words)}</p>\n'
            f"{_Named(self.facts).to_html()}{more if self.details else ''}</article>\n"
        )


@dataclass(frozen=True, kw_only=True)
class Cards:
    """The cards of one setting."""

    title: str
    cards: tuple[Card, ...]

    def to_html(self) -> str:
        """Return them side by side below the setting."""
        return f'<h3>{escape(self.title)}</h3>\n<div class="cards">\n{_html(self.cards)}</div>\n'


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture: what stands below it, what it shows, for those who do not see it, and its data.

    Without data it was too large and is named by its ``file`` only.
    """

    caption: str
    shows: str
    content: bytes
    kind: str = "image/png"
    file: str = ""

    def to_html(self) -> str:
        """Return the picture as data that need no other file."""
        caption = escape(self.caption)
        shown = f"<p>Too large for this page: see {escape(self.file)} in the folder.</p>\n"
        if self.content:
            source = f"data:{self.kind};base64,{base64.b64encode(self.content).decode('ascii')}"
            image = f'<img class="wide" src="{source}" alt="{escape(self.shows)}">'
            shown = f'<div class="picture" tabindex="0" role="region" aria-label="{caption}">{image}</div>\n'
        return f"<figure>\n{shown}<figcaption>{caption}</figcaption>\n</figure>\n"


@dataclass(frozen=True, kw_only=True)
class Folded:
    """Parts that a reader unfolds."""

    summary: str
    parts: tuple[Part, ...]
    open: bool = False

    def to_html(self) -> str:
        """Return the parts below what unfolds them."""
        is_open = " open" if self.open else ""
        return f"<details{is_open}>\n<summary>{escape(self.summary)}</summary>\n{_html(self.parts)}</details>\n"


@dataclass(frozen=True)
class Code:
    """A text to copy."""

    text: str

    def to_html(self) -> str:
        """Return it as it is."""
        return f"<pre><code>{escape(self.text)}</code></pre>\n"


@dataclass(frozen=True)
class Lines:
    """Lines of a list, or of a ``notice``, which a reader must know before reading any number."""

    lines: Sequence[str]
    notice: bool = False

    def to_html(self) -> str:
        """Return the list; nothing where it is empty."""
        if not self.lines:
            return ""
        tag = "p" if self.notice else "li"
        body = "\n".join(f"<{tag}>{escape(line)}</{tag}>" for line in self.lines)
        return f'<div class="notice" role="note">\n{body}\n</div>\n' if self.notice else f"<ul>\n{body}\n</ul>\n"


@dataclass(frozen=True)
class _Named:
    rows: Rows

    def to_html(self) -> str:
        body = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in self.rows if value)
        return f"<dl>\n{body}\n</dl>\n"


Part = str | Facts | Table | Card | Cards | Picture | Folded | Code | Lines | _Named


def _html(parts: Iterable[Part]) -> str:
    return "".join(f"<p>{escape(part)}</p>\n" if isinstance(part, str) else part.to_html() for part in parts)


@dataclass(frozen=True, kw_only=True)
class Section:
    """Parts below a heading; ``link`` stands in the list of contents, ``name`` in its address."""

    name: str
    link: str
    heading: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything that a page says.

    Attributes:
        kind: of what it is.
        title: what was done, in a few words.
        verdict: what came out in one sentence; may be empty.
        notices: what a reader must know before reading any number.
        headline: the few numbers to see first.
        sections: the rest; those without parts are left out.
        command: words that make it again.
    """

    kind: str
    title: str
    verdict: str = ""
    notices: tuple[str, ...] = ()
    headline: Rows = ()
    sections: tuple[Section, ...]
    command: tuple[str, ...] = ()

    def to_html(self) -> str:
        """Return one file: nothing in it is fetched, and no script runs."""
        shown = [each for each in self.sections if each.parts]
        links = "\n".join(f'<li><a href="#{each.name}">{escape(each.link)}</a></li>' for each in shown)
        sections = "".join(
            f'<section aria-labelledby="{each.name}">\n<h2 id="{each.name}">{escape(each.heading)}</h2>\n'
            f"{_html(each.parts)}</section>\n"
            for each in shown
        )
        numbers = "\n".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in self.headline
        )
        headline = f'<dl class="headline">\n{numbers}\n</dl>\n' if numbers else ""
        verdict = f'<p class="verdict">{escape(self.verdict)}</p>\n' if self.verdict else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="generator" content="{GENERATOR} {__version__}">\n'
            f'<meta name="{COMMAND}" content="{escape(json.dumps(list(self.command)))}">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#main">Skip to the content</a>\n<header>\n'
            f'<p class="kind">AirMixML report: {escape(self.kind)}</p>\n<h1>{escape(self.title)}</h1>\n{verdict}'
            f"{Lines(self.notices, notice=True).to_html()}{headline}"
            f'<nav aria-label="Contents">\n<ul>\n{links}\n</ul>\n</nav>\n</header>\n'
            f'<main id="main">\n{sections}</main>\n'
            f"<footer>\n<p>Made by airmixml {__version__} from the files of the folder; nothing was fetched, and "
            "nothing is.</p>\n</footer>\n</body>\n</html>\n"
        )


@cache
def _style() -> str:
    return (files("airmixml.output") / "page.css").read_text(encoding="utf-8")
