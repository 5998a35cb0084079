"""A page: what a result looks like, as facts, tables, cards and pictures; as Markdown, and as one HTML file."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from typing import Any, Final, TypeVar, assert_never

from airmixml.messages import NO_GUARANTEE
from airmixml.output.tables import Table, html_cell
from airmixml.version import __version__

Rows = Sequence[tuple[str, str]]
"""Names and values, in order."""

GENERATOR: Final = "airmix report"
_CARDS: Final = (
    "One card for each adversary. Epsilon is the smallest that any accountant certifies for the worst worker; 1 is a "
    "strong promise, 10 a weak one."
)
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names and values."""

    caption: str  # for those who do not see the heading above them
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is promised against one adversary, in words."""

    adversary: str  # its name, as scenarios have it
    who: str  # who that is
    epsilon: str  # where nothing is promised, words that say so
    promise: str  # how much that is: "strong promise", "protects nobody", ...
    level: str  # the same for the page's colours: strong, moderate, weak or none
    is_target: bool  # whether the scenario's own target is against this adversary
    words: str  # what the adversary can conclude at most
    facts: Rows  # delta, neighbours, trust
    details: Rows = ()  # accountant, noise and the other statements


@dataclass(frozen=True, kw_only=True)
class Cards:
    """The cards of one setting."""

    title: str
    cards: tuple[Card, ...]
    note: str = ""  # how to read them
    on_screen: bool = False  # whether a terminal has them too


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A PNG, in the page itself; Markdown names its file."""

    caption: str
    shows: str  # for those who do not see it
    content: bytes
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class Folded:
    """Parts that a reader unfolds."""

    summary: str
    parts: tuple[Part, ...]
    open: bool = False


@dataclass(frozen=True)
class Code:
    """A text to copy."""

    text: str


Kind = TypeVar("Kind")
Part = str | Facts | Table | Cards | Picture | Folded | Code


@dataclass(frozen=True, init=False)
class Section:
    """Parts below a heading, with a name for its address."""

    name: str
    heading: str
    parts: tuple[Part, ...]

    def __init__(self, name: str, heading: str, *parts: Part) -> None:
        vars(self).update(name=name, heading=heading, parts=parts)


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything that a page says.

    Files have all of it. A terminal has title, verdict, notices, facts, tables and lines: what is folded, pictures,
    code and most cards are left to files.
    """

    kind: str
    title: str  # what was done, in a few words
    verdict: str = ""  # what came out in one sentence
    notices: tuple[str, ...] = ()
    sections: tuple[Section, ...]  # those without parts are left out
    command: tuple[str, ...] = ()  # the name and the options that make it again, but for the scenario

    @classmethod
    def of_result(
        cls,
        *,
        asked: Rows = (),
        results: Rows = (),
        cards: Sequence[Cards] = (),
        costs: Rows = (),
        tables: Iterable[Part] = (),
        **others: Any,
    ) -> Page:
        """Return the page of a command's result; ``others`` are kind, title and other fields of a page.

        There is one group of ``cards`` for each setting.
        """
        explained = (replace(cards[0], note=_CARDS), *cards[1:]) if cards else ()
        return cls(
            sections=(
                Section("asked", "What was asked", Facts(caption="The question", rows=asked)),
                Section("results", "What came out", Facts(caption="The answer", rows=results)),
                Section("privacy", "Who learns what", *explained),
                Section("costs", "On the air", Facts(caption="The cost", rows=costs)),
                Section("tables", "Tables", *tables),
            ),
            **others,
        )

    def all(self, kind: type[Kind], name: str = "") -> Iterator[Kind]:
        """Yield the parts of a kind, of all sections or of that name."""
        parts = (part for each in self.sections if name in ("", each.name) for part in each.parts)
        return (part for part in parts if isinstance(part, kind))

    def to_markdown(self) -> str:
        """Return the page for a file that is read as it is; pictures are named."""
        texts = [f"# {self.title}", self.verdict, *(f"> {each}" for each in self.notices)]
        for each in self.sections:
            parts = list(filter(None, map(_markdown, each.parts)))
            texts += [f"## {each.heading}", *parts] if parts else []
        return "\n\n".join(text.strip("\n") for text in texts if text) + "\n"

    def to_html(self) -> str:
        """Return one file: nothing in it is fetched, and no script runs."""
        style = (files("airmixml.output") / "page.css").read_text(encoding="utf-8")
        shown = [(each, inside) for each in self.sections if (inside := _html(each.parts))]
        links = _each('<li><a href="#{}">{}</a></li>', ((each.name, each.heading) for each, _ in shown))
        sections = "".join(
            f'<section aria-labelledby="{each.name}">\n<h2 id="{each.name}">{escape(each.heading)}</h2>\n'
            f"{inside}</section>\n"
            for each, inside in shown
        )
        verdict = f'<p class="verdict">{escape(self.verdict)}</p>\n' if self.verdict else ""
        notices = f'<div class="notice" role="note">\n{_html(self.notices)}</div>\n' if self.notices else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="generator" content="{GENERATOR} {__version__}">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#main">Skip to the content</a>\n<header>\n'
            f'<p class="kind">AirMixML report: {escape(self.kind)}</p>\n<h1>{escape(self.title)}</h1>\n'
            f"{verdict}{notices}"
            f'<nav aria-label="Contents">\n<ul>\n{links}</ul>\n</nav>\n</header>\n'
            f'<main id="main">\n{sections}</main>\n<footer>\n<p>Made by airmixml {__version__} from the files of the '
            "folder; nothing was fetched, and nothing is.</p>\n</footer>\n</body>\n</html>\n"
        )


def _html(parts: Iterable[Part]) -> str:
    return "".join(map(_part, parts))


def _part(part: Part) -> str:
    """Return one part as HTML; nothing where it is empty."""
    match part:
        case str():
            html = f"<p>{escape(part)}</p>\n"
        case Table():
            html = part.to_html()
        case Facts(rows=()):
            html = ""
        case Facts():
            rows = "".join(
                f'<tr><th scope="row">{escape(name.strip())}</th><td>{html_cell(value)}</td></tr>\n'
                for name, value in part.rows
            )
            caption = f'<caption class="hidden">{escape(part.caption)}</caption>'
            html = f'<table class="facts">\n{caption}\n<tbody>\n{rows}</tbody>\n</table>\n'
        case Cards():
            cards = f'<div class="cards">\n{"".join(map(_card, part.cards))}</div>\n'
            html = f"{_html([part.note] if part.note else [])}<h3>{escape(part.title)}</h3>\n{cards}"
        case Folded():
            html = _folded(part.summary, _html(part.parts), is_open=part.open)
        case Code():
            html = f"<pre><code>{escape(part.text)}</code></pre>\n"
        case Picture():
            caption, source = escape(part.caption), base64.b64encode(part.content).decode("ascii")
            image = f'<img class="wide" src="data:image/png;base64,{source}" alt="{escape(part.shows)}">'
            shown = f'<div class="picture" tabindex="0" role="region" aria-label="{caption}">{image}</div>\n'
            html = f"<figure>\n{shown}<figcaption>{caption}</figcaption>\n</figure>\n"
        case _:
            assert_never(part)
    return html


def _markdown(part: Part) -> str:
    """Return one part as Markdown; nothing where it is empty."""
    match part:
        case str():
            text = part
        case Table():
            text = part.to_markdown()
        case Facts():
            text = Table(columns=("", ""), rows=tuple(part.rows)).to_markdown() if part.rows else ""
        case Cards():
            rows = tuple((card.adversary, card.epsilon, card.promise, card.words) for card in part.cards)
            columns = ("adversary", "epsilon", "promise", "what it means")
            text = Table(title=part.title, columns=columns, rows=rows).to_markdown()
        case Folded():
            text = "\n\n".join([f"### {part.summary}", *map(_markdown, part.parts)])
        case Code():
            text = f"```\n{part.text}\n```"
        case Picture():
            text = f"![{part.shows}]({part.file})"
        case _:
            assert_never(part)
    return text


def _each(form: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return a line for each row, its texts escaped."""
    return "".join(form.format(*map(escape, row)) + "\n" for row in rows)


def _named(rows: Rows) -> str:
    return f"<dl>\n{_each('<dt>{}</dt><dd>{}</dd>', (row for row in rows if row[1]))}</dl>\n"


def _folded(summary: str, inside: str, *, is_open: bool = False) -> str:
    return f"<details{' open' * is_open}>\n<summary>{escape(summary)}</summary>\n{inside}</details>\n"


def _card(card: Card) -> str:
    tag = ' <span class="tag">the target’s adversary</span>' if card.is_target else ""
    who = f'<p class="who">{escape(card.who)}</p>\n' if card.who else ""
    more = _folded("More about this epsilon", _named(card.details)) if card.details else ""
    epsilon = card.epsilon if card.epsilon == NO_GUARANTEE else f"epsilon {card.epsilon}"
    return (
        f'<article class="card {card.level}" aria-label="{escape(f"{card.adversary}: {card.promise}")}">\n'
        f'<h4>{escape(card.adversary)}{tag}</h4>\n{who}<p class="epsilon">{escape(epsilon)}</p>\n'
        f'<p class="promise">{escape(card.promise)}</p>\n<p>{escape(card.words)}</p>\n'
        f"{_named(card.facts)}{more}</article>\n"
    )
