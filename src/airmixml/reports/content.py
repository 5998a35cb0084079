"""What a report says, whatever kind of folder it is about, and the page that it becomes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airmixml.output.page import Cards, Code, Facts, Folded, Page, Part, Picture, Rows, Section
from airmixml.reports.commands import needs_file
from airmixml.reports.pictures import Curve, curve_table, draw_curves, embed
from airmixml.scenario import Scenario

PROTECTED = "protected run"
_CARDS = (
    "One card for each adversary. Epsilon is the smallest that any accountant certifies for the worst worker; 1 is a "
    "strong promise, 10 a weak one."
)


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything that a report says about a folder."""

    folder: Path
    kind: str
    title: str  # what was done, in a few words
    verdict: str = ""  # what came out in one sentence
    notices: tuple[str, ...] = ()  # what a reader must know before reading any number
    headline: Rows = ()  # the few numbers to see first
    asked: Rows = ()
    results: Rows = ()
    costs: Rows = ()  # power, energy and time on the air
    cards: tuple[Cards, ...] = ()  # who learns what, for each setting
    curves: tuple[Curve, ...] = ()  # how learning went, one for each seed
    tables: tuple[Part, ...] = ()
    pictures: tuple[Picture, ...] = ()
    scenario: Scenario | None = None  # None where there are many
    command: tuple[str, ...] = ()  # words that make the folder again
    made_with: Rows = ()  # versions and device

    def page(self, command: Sequence[str] = ()) -> Page:
        """Return the page about the folder, which ``command`` makes again."""
        words = tuple(command) or self.command
        protected = self.kind == PROTECTED
        cards: tuple[Part, ...] = (_CARDS, *self.cards) if self.cards else ()
        costs = "Time on the air" if protected else "Energy, power and time on the air"
        return Page(
            kind=self.kind,
            title=self.title,
            verdict=self.verdict,
            notices=self.notices,
            headline=self.headline,
            command=words,
            sections=(
                section("asked", "What was asked", Facts(caption="The question", rows=self.asked)),
                section("results", "What came out", Facts(caption="The answer", rows=self.results), *self._learning()),
                section("privacy", "Who learns what", *cards),
                section("costs", costs, *_facts("The cost", self.costs), link="Energy and air"),
                section("tables", "Tables", *self.tables),
                section("pictures", "Pictures", *embed(self.pictures)),
                section("again", "Make it again", Code(shlex.join(words)), *self._again(words, protected=protected)),
            ),
        )

    def _learning(self) -> tuple[Part, ...]:
        drawn = draw_curves(self.curves)
        if drawn is None:
            return ()
        return drawn, Folded(summary="The learning curve as a table", parts=tuple(map(curve_table, self.curves)))

    def _again(self, words: Sequence[str], *, protected: bool) -> list[Part]:
        parts: list[Part] = []
        if needs_file(words):
            parts.append("with the scenario below saved as scenario.toml.")
        if protected:
            parts.append(
                "Each repetition is another release of the same data and reveals more: it draws new noise, and its "
                "model differs."
            )
        if self.scenario is not None:
            parts.append(Folded(summary="The whole scenario", parts=(Code(self.scenario.to_toml()),)))
        if self.made_with:
            parts.append(Folded(summary="Made with", parts=_facts("Versions and time", self.made_with)))
        return parts


def _facts(caption: str, rows: Rows) -> tuple[Part, ...]:
    return (Facts(caption=caption, rows=rows),) if rows else ()


def section(name: str, heading: str, *parts: Part, link: str = "") -> Section:
    """Return parts below a heading; ``link`` is shorter, for the list of contents."""
    return Section(name=name, link=link or heading, heading=heading, parts=parts)
