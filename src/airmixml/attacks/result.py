"""What attacks found: a grade, and a verdict in words that need no table."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from airmixml.attacks.measured import EXPOSED, FALSE_ALARMS, GRADES, Measured, beyond_chance, grade_of, guessing_bound
from airmixml.attacks.target import Outcome
from airmixml.messages import NONE, NOTHING_PROMISED, PROMISE_TOO_WEAK, against, epsilon_text, plural
from airmixml.notebook import html_lines
from airmixml.scenario import Scenario

_LISTENERS: Final = ("release", "eavesdropper", "everyone")
_TO_WHOM: Final = {"exposed": "EXPOSED to", "leaks": "LEAKS to"}
_LARGEST_LIMIT: Final = 0.995  # as good as none
_NO_LIMIT: Final = "no limit"
_LEVELS: Final = ("", "leaks", "exposed")


def _joined(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _the(adversary: str) -> str:
    return against(adversary).removeprefix("against ")


@dataclass(frozen=True, kw_only=True, eq=False)
class Found(Outcome):
    """What the attack of that name found, by which adversary, and how long it took."""

    attack: str
    adversary: str
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**self.findings.to_dict(), "seconds": self.seconds}


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Attacks of one adversary with findings of one kind; the best of them speaks for all."""

    adversary: str
    found: list[Found]
    figures: list[tuple[str, Measured]]  # of all these attacks, each with the name of its attack
    certain: list[Measured]  # those beyond chance
    grade: str  # what is found and promised

    @property
    def best(self) -> Found:
        """The attack that learned most, judged with the truth at hand."""
        return max(self.found, key=lambda each: each.findings.strength)

    @property
    def figure(self) -> Measured:
        """The figure that says most: the largest one beyond chance, or else the least likely one."""
        if self.certain:
            return largest(self.certain)
        return max((each for _, each in self.figures), key=lambda each: (-each.p_value, each.share))

    @property
    def attacker(self) -> str:
        """The adversary, and what it knows or does beside."""
        findings = self.best.findings
        how = self.best.attack if findings.kind == "other" else findings.kind if findings.informed else ""
        return f"{self.adversary}, {how}" if how else self.adversary


def largest(figures: Iterable[Measured]) -> Measured:
    """Return the figure of the worst level; of several the one that found the largest part."""
    return max(figures, key=lambda each: (_LEVELS.index(each.level), each.share))


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackResult:
    """What each attack, by its name, found; ``to_dict`` is the command's ``metrics.json``."""

    scenario: Scenario
    claimed: dict[str, float | None]  # least epsilon of a worker against each adversary; None for no claim
    found: dict[str, Found]
    left_out: dict[str, str]  # attacks that do not fit, and why
    held: int  # different samples that workers hold, among which one is named
    # the epsilons of a row, with all its copies; empty where every row is a worker of its own
    claimed_per_row: dict[str, float | None] = field(default_factory=dict)
    copies: int = 1  # the most workers that hold the same row
    claimed_by: dict[str, str] = field(default_factory=dict)  # accountants of ``claimed``
    asked: tuple[str, ...] = ()  # names of the attacks, where they are not those that are run by default
    seconds: float = 0.0
    device: str = "cpu"
    run_dir: Path = Path()

    @cached_property
    def groups(self) -> list[Group]:
        """All that was found, by adversary and kind of findings; all figures are tested at once."""
        figures = {name: each.findings.measured() for name, each in self.found.items()}
        every = [each for some in figures.values() for each in some]
        kinds: dict[tuple[str, type], list[Found]] = {}
        for each in self.found.values():
            kinds.setdefault((each.adversary, type(each.findings)), []).append(each)
        cutoff, groups = beyond_chance(every), []
        for (adversary, _), found in kinds.items():
            some = [(each.attack, one) for each in found for one in figures[each.attack]]
            certain = [each for _, each in some if each.p_value <= cutoff]
            bound = self.naming_bound(adversary, found[0].findings.among(self.held))
            grade = grade_of(largest(certain).level if certain else "", bound)
            groups.append(Group(adversary=adversary, found=found, figures=some, certain=certain, grade=grade))
        return groups

    def per_row(self, adversary: str) -> float | None:
        """Return the epsilon of a row, with all its copies."""
        return self.claimed_per_row.get(adversary, self.claimed[adversary])

    def naming_bound(self, adversary: str, among: int = 0) -> float:
        """Return the largest probability that the claims leave of naming a sample among all held, or so many."""
        privacy = self.scenario.privacy
        guessing = 1.0 / (among or self.held)
        return guessing_bound(self._covering(adversary), privacy.delta, privacy.adjacency, guessing)

    def _covering(self, adversary: str) -> float | None:
        """Return the epsilon that covers a worker and a row, both of which attacks look for."""
        both = (self.claimed[adversary], self.per_row(adversary))
        return None if None in both else max(each for each in both if each is not None)

    def _covers(self, figure: Measured) -> bool:
        """Whether epsilons of the scenario's neighbours limit a figure."""
        return bool(figure.of) and not (figure.from_silence and self.scenario.privacy.adjacency != "remove-one")

    def limit(self, figure: Measured, adversary: str) -> float:
        """Return how large the claim against an adversary lets a figure be; 1 for no limit."""
        privacy = self.scenario.privacy
        if not self._covers(figure):
            return 1.0
        epsilon = self.claimed[adversary] if figure.of == "worker" else self._covering(adversary)
        bound = guessing_bound(epsilon, privacy.delta, privacy.adjacency, figure.guessing)
        return bound if bound < _LARGEST_LIMIT else 1.0

    @property
    def graded(self) -> dict[str, str]:
        """The worst grade of each adversary."""
        worst: dict[str, str] = {}
        for group in self.groups:
            worst[group.adversary] = max(group.grade, worst.get(group.adversary, "hidden"), key=GRADES.index)
        return worst

    @property
    def grade(self) -> str:
        """The worst grade over all adversaries that attacked."""
        return max(self.graded.values(), key=GRADES.index)

    @cached_property
    def limited(self) -> list[Measured]:
        """Figures that the epsilon against the scenario's own adversary limits."""
        own = self.scenario.privacy.adversary
        figures = (each for group in self.groups if group.adversary == own for _, each in group.figures)
        return [each for each in figures if self.limit(each, own) < 1.0]

    @property
    def broken(self) -> bool:
        """Whether a figure is larger than its epsilon allows, beyond chance (Bonferroni)."""
        own, share = self.scenario.privacy.adversary, FALSE_ALARMS / max(1, len(self.limited))
        return any(each.p_value_beyond(self.limit(each, own)) < share for each in self.limited)

    @property
    def _promise(self) -> str:
        """What the scenario promises against its own adversary, and whether that survived."""
        adversary = self.scenario.privacy.adversary
        worker, who = self.claimed.get(adversary), against(adversary)
        if worker is None:
            return f"{NOTHING_PROMISED.upper()} {who}"
        row = self.per_row(adversary)
        text = f"{who}: epsilon {epsilon_text(worker)}"
        by = f" by {self.claimed_by[adversary]}" if self.claimed_by.get(adversary) else ""
        text = f"{text}{by}" if row == worker else f"{text} per worker{by}, {epsilon_text(row)} per row"
        if self.broken:
            return f"PROMISE BROKEN {text}"
        if self.naming_bound(adversary) >= EXPOSED:
            return f"{PROMISE_TOO_WEAK.upper()} {text}"
        return f"PROMISED {text}, {'which no attack broke' if self.limited else 'untested'}"

    @property
    def verdict(self) -> str:
        """For a person who decides: what is promised, whether that survived, who found something and the most of it."""
        worst = self.graded
        whom = {grade: [_the(who) for who, found in worst.items() if found == grade] for grade in worst.values()}
        found = [f"{words} {_joined(whom[grade])}" for grade, words in _TO_WHOM.items() if grade in whom]
        if not whom.keys() & {"leaks", "exposed"}:
            hints = dict.fromkeys(_the(group.adversary) for group in self.groups if group.certain)
            found.insert(0, f"only hints found, by {_joined(hints)}" if hints else "nothing found")
        own = _the(self.scenario.privacy.adversary)
        for words, claims in ((PROMISE_TOO_WEAK, True), (NOTHING_PROMISED, False)):
            some = {_the(who) for who in worst if (self.claimed[who] is not None) == claims} - {own}
            if others := [each for each in whom.get(NOTHING_PROMISED, ()) if each in some]:
                found.append(f"{words} against {_joined(others)}")
        sentences = [self._promise, "; ".join(found)]
        if certain := [group for group in self.groups if group.certain]:
            most = max(certain, key=lambda each: (_LEVELS.index(each.figure.level), each.figure.share))
            figure, who = most.figure, _the(most.adversary)
            who = who.replace("the ", "the informed ") if most.best.findings.informed else who
            sentences.append(f"{who} {figure.what}: {figure.text} (guessing {figure.like(figure.guessing)})")
        return " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences)

    @property
    def details(self) -> list[str]:
        """What the promise is about and assumes, and how figures were tested; a line each."""
        privacy = self.scenario.privacy
        tested = plural(sum(len(group.figures) for group in self.groups), "figure")
        certain = f"certain: beyond chance, with at most {100 * FALSE_ALARMS:g} % false alarms over all of them (Holm)"
        lines = [f"tested: {tested} at once; {certain}; allowed: by epsilon"]
        if self.claimed.get(privacy.adversary) is None:
            return lines
        receiver = "eavesdropper's" if privacy.adversary == "eavesdropper" else "server's"
        noise = "the workers' own noise" if privacy.noise_kind.brought else f"the noise of the {receiver} receiver"
        told = [f"delta {privacy.delta:.3g}", privacy.adjacency, f"assumes {noise}"]
        if self.scenario.mixing.power_policy.keeps_target:
            told.append(f"the target is epsilon {privacy.epsilon:g} by {privacy.accountant}")
        if self.copies > 1:
            told.append(f"up to {self.copies:,} workers hold one row")
        return [f"promise: {'; '.join(told)}", *lines]

    @property
    def measured(self) -> list[dict[str, Any]]:
        """Every figure as plain values, with its limit; ``main`` ones say most of what a group found."""
        found = []
        for group in self.groups:
            for attack, each in group.figures:
                limit, certain = self.limit(each, group.adversary), each in group.certain
                allowed = NONE if not self._covers(each) else each.like(limit) if limit < 1.0 else _NO_LIMIT
                place = {"adversary": group.adversary, "attack": attack, "attacker": group.attacker}
                texts = (each.what, each.text, each.like(each.guessing), allowed, "yes" if certain else "no")
                judged = {"texts": texts, "limit": limit, "beyond_chance": certain, "main": each is group.figure}
                found.append({**asdict(each), **place, **judged})
        return found

    @property
    def server(self) -> Group | None:
        return next((group for group in self.groups if group.best.findings.kind == "server"), None)

    def to_dict(self) -> dict[str, Any]:
        scenario, server = self.scenario, self.server
        methods = {} if server is None else {each.attack: each.to_dict() for each in server.found}
        listeners: dict[str, Any] = dict.fromkeys(_LISTENERS)
        informed: dict[str, Any] = {}
        others: dict[str, Any] = {}
        grades = {each.attack: group.grade for group in self.groups for each in group.found}
        for name, each in self.found.items():
            figures = {**each.to_dict(), "grade": grades[name]}
            if each.findings.kind == "informed":
                informed[each.adversary] = figures
            elif name in _LISTENERS:
                listeners[name] = figures
            elif name not in methods:
                others[name] = {"adversary": each.adversary, **figures}
        return {
            "name": scenario.name,
            "seed": scenario.seed,
            "mode": "simulation",
            "verdict": self.verdict,
            "grade": self.grade,
            "server": server and {"best": server.best.attack, "grade": server.grade, "methods": methods},
            **listeners,
            "informed": informed,
            **({"other_attacks": others} if others else {}),
            "claimed": {"delta": scenario.privacy.delta, "adjacency": scenario.privacy.adjacency, **self.claimed},
            "claimed_per_row": {name: self.per_row(name) for name in self.claimed},
            "copies": self.copies,
            "naming_bound": {name: self.naming_bound(name) for name in self.claimed},
            "held": self.held,
            **({"attacks": list(self.asked)} if self.asked else {}),
            "left_out": self.left_out,
            "details": self.details,
            "measured": self.measured,
            "seconds": self.seconds,
            "device": self.device,
            "run_dir": str(self.run_dir),
        }

    def _repr_html_(self) -> str:
        return html_lines([self.verdict, *self.details, f"Table and picture: {self.run_dir}/attack.md"])
