"""A small folder of every kind, and a reader of pages that refuses what a browser would only guess at."""

from __future__ import annotations

import subprocess
from html.parser import HTMLParser

Finished = subprocess.CompletedProcess[str]
VOID = {"meta", "img", "br", "hr", "link", "input"}
SMALL = ("--set", "radio.slots=100", "--set", "learner.epochs=3")
COMMANDS = {
    "run": ("run", "--preset", "paper-iris", *SMALL),
    "closed-form": ("run", "--preset", "private-iris"),
    "rounds": ("run", "--preset", "private-iris", "--set", "learner.rounds=3"),
    "seeds": ("run", "--preset", "paper-iris", *SMALL, "--seeds", "2"),
    "protected": ("run", "--preset", "paper-iris", *SMALL, "--private"),
    "releases": ("run", "--preset", "private-iris", "--private", "--public-test", "--seeds", "2"),
    "audit": (
        "audit",
        "--preset",
        "private-iris",
        "--trials",
        "100",
    ),
    "attack": ("attack", "--preset", "private-iris", "--attacks", "release"),
    "compare": ("compare", "--preset", "private-iris", "--methods", "airmix,adassp"),
    "sweep": ("sweep", "--preset", "private-iris", "--grid", "privacy.epsilon=0.5,5", "--jobs", "1"),
    "tolerances": ("tolerances", "--preset", "private-iris", "--quick", "--only", "absent", "--jobs", "1"),
    "plan": ("plan", "--preset", "paper-iris"),
    "reproduce": ("reproduce", "fig2"),
}


class Page(HTMLParser):
    """A page whose tags are balanced: what is in it, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is there twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """What a reader reads, with single spaces."""
        return " ".join(" ".join(self.words).split())

    def all(self, *names: str) -> list[dict[str, str | None]]:
        """Attributes of every tag of these names."""
        return [attributes for tag, attributes in self.tags if tag in names]
