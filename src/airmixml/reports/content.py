"""What a report says, whatever kind of folder it is about; the pages decide how it looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from airmixml.output.markdown import Block
from airmixml.scenario import Scenario

Facts = tuple[tuple[str, str], ...]
"""Names and values, in order."""


@dataclass(frozen=True, kw_only=True)
class PrivacyCard:
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
    facts: Facts
    details: Facts = ()


@dataclass(frozen=True, kw_only=True)
class CardGroup:
    """The cards of one setting; ``title`` is empty where there is only one setting."""

    title: str = ""
    cards: tuple[PrivacyCard, ...]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A picture of the folder: its file, what stands below it, and what it shows, for those who do not see it."""

    path: Path
    caption: str
    shows: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learning curve: per column of the CSV file (training_loss, test_accuracy, ...) the epochs and values."""

    label: str
    columns: dict[str, tuple[tuple[int, float], ...]]


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything that a report says about a folder.

    Attributes:
        folder: what is reported on.
        kind: run, protected run, attack, audit, comparison, sweep, study of tolerances, plan, reproduction.
        title: what was done, in a few words.
        verdict: what came out in one sentence; may be empty.
        notices: what a reader must know before reading any number.
        headline: the few numbers to see first.
        asked: what was asked for.
        results: what came out.
        costs: power, energy and time on the air.
        cards: who learns what.
        curves: how learning went, one for each seed.
        pages: tables with headings and notes, as the folder's own Markdown has them.
        drawings: pictures.
        scenario: what was run; None where there are many.
        command: words that make the folder again.
        made_with: versions and device.
    """

    folder: Path
    kind: str
    title: str
    verdict: str = ""
    notices: tuple[str, ...] = ()
    headline: Facts = ()
    asked: Facts = ()
    results: Facts = ()
    costs: Facts = ()
    cards: tuple[CardGroup, ...] = ()
    curves: tuple[Curve, ...] = ()
    pages: tuple[Block, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    scenario: Scenario | None = None
    command: tuple[str, ...] = ()
    made_with: Facts = field(default=())
