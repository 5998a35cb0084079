"""What attacks found in each setting: its grade, a verdict in words that need no table, tables, CSV and JSON."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airmixml.attacks.grades import EXPOSED, GRADES, TOO_FEW, Findings, grade_of, naming_bound
from airmixml.attacks.target import Outcome
from airmixml.notebook import html_lines
from airmixml.output.numbers import epsilon_text
from airmixml.output.tables import Table, rows_csv
from airmixml.registries import ATTACKS
from airmixml.scenario import Scenario, keys_in_force
from airmixml.wording import NOTHING_PROMISED, against

LISTENERS: Final = ("release", "eavesdropper", "everyone")
_WHO: Final = {
    "server": "the server",
    "release": "an adversary who sees only the mixtures",
    "eavesdropper": "an eavesdropper {metres:g} m from a worker",
    "everyone": "an adversary who hears each worker without noise and knows all others",
}
_INFORMED: Final = {
    "server": "the informed server",
    "release": "an informed adversary who sees only the mixtures",
    "eavesdropper": "an informed eavesdropper {metres:g} m from a worker",
    "everyone": "an informed adversary who hears each worker without noise",
}
_SHORT: Final = {name: f"the {name}" for name in ("server", "release", "eavesdropper")}  # in the verdict
_TO_WHOM: Final = {
    "hidden": "from",
    NOTHING_PROMISED: "against",
    TOO_FEW: "for",
    "leaks": "to",
    "exposed": "to",
}
_LEGEND: Final = {"per row": "epsilon of a row with all its copies"}


def _joined(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, kw_only=True, eq=False)
class Found(Outcome):
    """What the attack of that name found in one setting, by which adversary, and how long it took."""

    attack: str
    adversary: str
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        return {**self.findings.to_dict(), "seconds": self.seconds}


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Attacks of one adversary with findings of one kind, and the claim against it; the best of them speaks for all."""

    adversary: str
    found: list[Found]
    bound: float  # on naming a sample, by the claim that covers what was attacked

    @property
    def best(self) -> Found:
        """The attack that learned most, judged with the truth at hand."""
        return max(self.found, key=lambda each: each.findings.strength)

    @property
    def grade(self) -> str:
        """The worst grade of all."""
        findings = [each.findings for each in self.found]
        grades = (grade_of(each.level, self.bound, too_few=bool(each.too_few())) for each in findings)
        return max(grades, key=GRADES.index)

    def in_words(self, who: str) -> str:
        """Return what that adversary learns."""
        best = self.best.findings
        if self.grade == TOO_FEW:
            return f"{who} has {best.too_few()}"
        return f"{who} {best.nothing() if self.grade == 'hidden' else _joined(best.learned())}"


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseResult:
    """What each attack, by its name, found in one setting."""

    label: str  # what tables and pictures call it
    scenario: Scenario
    claimed: dict[str, float | None]  # least epsilon of a worker against each adversary; None for no claim
    found: dict[str, Found]
    left_out: dict[str, str]  # attacks that do not fit, and why
    held: int  # different samples that workers hold, among which one is named
    # the epsilons of a row, with all its copies; empty where every row is a worker of its own
    claimed_per_row: dict[str, float | None] = field(default_factory=dict)
    copies: int = 1  # the most workers that hold the same row

    @property
    def groups(self) -> list[Group]:
        """All that was found, by adversary and kind of findings."""
        groups: dict[tuple[str, type], Group] = {}
        for each in self.found.values():
            bound = self.naming_bound(each.adversary, each.findings.among(self.held))
            group = Group(adversary=each.adversary, found=[], bound=bound)
            groups.setdefault((each.adversary, type(each.findings)), group).found.append(each)
        return list(groups.values())

    def per_row(self, adversary: str) -> float | None:
        """Return the epsilon of a row, with all its copies."""
        return self.claimed_per_row.get(adversary, self.claimed[adversary])

    def naming_bound(self, adversary: str, among: int = 0) -> float:
        """Return the largest probability that the claims leave of naming a sample among all held, or so many.

        Attacks look for workers and rows, so the larger epsilon of both counts.
        """
        both = (self.claimed[adversary], self.per_row(adversary))
        covering = None if None in both else max(each for each in both if each is not None)
        privacy = self.scenario.privacy
        return naming_bound(covering, privacy.delta, privacy.adjacency, among or self.held)

    def group_of(self, attack: str) -> Group:
        """Return the group of an attack."""
        return next(group for group in self.groups if any(each.attack == attack for each in group.found))

    @property
    def deciding(self) -> list[Group]:
        """All groups but those that cannot tell where informed attacks of the same adversary, the strongest, can."""
        groups = self.groups
        told = {each.adversary for each in groups if each.best.findings.informed and each.grade != TOO_FEW}
        return [each for each in groups if each.grade != TOO_FEW or each.adversary not in told]

    @property
    def grade(self) -> str:
        """The worst grade over all adversaries that attacked."""
        return max((group.grade for group in self.deciding), key=GRADES.index)

    @property
    def promised(self) -> str:
        """What holds against the scenario's own adversary, for a worker and for a row."""
        adversary = self.scenario.privacy.adversary
        who, worker = against(adversary), self.claimed.get(adversary)
        if worker is None:
            return f"nothing is promised {who}"
        text = f"epsilon {epsilon_text(worker)} per worker and {epsilon_text(self.per_row(adversary))} per row"
        if self.naming_bound(adversary) < EXPOSED:
            return f"promised {who}: {text}"
        held = f"a row that up to {self.copies:,} workers hold" if self.copies > 1 else "a row"
        return f"too weak {who} to hide {held}: {text}"

    @property
    def verdict(self) -> str:
        """One line for a person who decides: the grade, by which adversaries, and what is promised."""
        grade = self.grade
        whose = dict.fromkeys(group.adversary for group in self.deciding if group.grade == grade)
        nothing = ", nothing found" if grade in ("hidden", NOTHING_PROMISED) else ""
        names = _joined([_SHORT.get(each, each) for each in whose])
        own = self.scenario.privacy.adversary
        said = grade == NOTHING_PROMISED and own in whose and self.claimed.get(own) is None
        promised = "" if said else f"; {self.promised}"
        return f"{grade.upper()} {_TO_WHOM[grade]} {names}{nothing}{promised}."

    @property
    def details(self) -> list[str]:
        """What each adversary found, who found most first, and whose noise the promise rests on; a line each."""
        metres, deciding = self.scenario.privacy.eavesdropper_distance_metres, self.deciding
        lines: dict[str, None] = {}
        silent: list[str] = []
        for group in sorted(self.groups, key=lambda group: -GRADES.index(group.grade)):
            names = _INFORMED if group.best.findings.informed else _WHO
            name = names.get(group.adversary, group.adversary).format(metres=metres)
            if group.grade == NOTHING_PROMISED:
                silent.append(name)
                continue
            weak = all(group.found != each.found for each in deciding)
            more = "; the informed attack, which is stronger, decides" if weak else ""
            lines[f"{group.in_words(name)}{more}"] = None
        if silent:
            lines[f"found nothing, but no promise rules out a stronger attack: {_joined(silent)}"] = None
        adversary, kind = self.scenario.privacy.adversary, self.scenario.privacy.noise_kind
        if self.claimed.get(adversary) is not None:
            receiver = "eavesdropper's" if adversary == "eavesdropper" else "server's"
            noise = "the workers' own noise" if kind.brought else f"the noise of the {receiver} receiver"
            lines[f"the epsilon {against(adversary)} rests on {noise}"] = None
        return list(lines)

    @property
    def server(self) -> Group | None:
        """The server's reconstructions."""
        return next((group for group in self.groups if group.best.findings.kind == "server"), None)

    def graded(self, attack: str) -> dict[str, Any]:
        """Return the figures of an attack with the grade of what was found against its adversary."""
        return {**self.found[attack].to_dict(), "grade": self.group_of(attack).grade}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; inversion and attacks of other packages have an entry of their own."""
        scenario, server = self.scenario, self.server
        methods = {} if server is None else {each.attack: each.to_dict() for each in server.found}
        informed: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, each in self.found.items():
            if each.findings.kind == "informed":
                informed[each.adversary] = self.graded(name)
            elif name not in (*methods, *LISTENERS):
                others[name] = {"adversary": each.adversary, **self.graded(name)}
        return {
            "label": self.label,
            "name": scenario.name,
            "air": keys_in_force(scenario.air),
            "workers": scenario.workers.count,
            "slots": scenario.radio.slots,
            "scheduled": scenario.radio.scheduled,
            "eavesdropper_distance_metres": scenario.privacy.eavesdropper_distance_metres,
            "server": server and {"best": server.best.attack, "grade": server.grade, "methods": methods},
            **{name: self.graded(name) if name in self.found else None for name in LISTENERS},
            "informed": informed,
            **({"other_attacks": others} if others else {}),
            "claimed": {"delta": scenario.privacy.delta, "adjacency": scenario.privacy.adjacency, **self.claimed},
            "claimed_per_row": {name: self.per_row(name) for name in self.claimed},
            "copies": self.copies,
            "naming_bound": {name: self.naming_bound(name) for name in self.claimed},
            "held": self.held,
            "left_out": self.left_out,
            "scenario": scenario.to_json(),
            "grade": self.grade,
            "verdict": self.verdict,
            "details": self.details,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackResult:
    """Everything that one command found, setting by setting; ``to_dict`` is its ``metrics.json``."""

    cases: list[CaseResult]
    seconds: float
    device: str
    run_dir: Path

    def _repr_html_(self) -> str:
        told = (line for case in self.cases for line in (f"{case.label}: {case.verdict}", *case.details))
        return html_lines([*told, f"Tables and picture: {self.run_dir}/attack.md"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; name, seed, verdict and grade are those of the first setting."""
        first = self.cases[0]
        return {
            "name": first.scenario.name,
            "seed": first.scenario.seed,
            "mode": "simulation",
            "cases": [case.to_dict() for case in self.cases],
            "verdict": first.verdict,
            "grade": first.grade,
            "seconds": self.seconds,
            "device": self.device,
            "run_dir": str(self.run_dir),
        }


def tables_of(result: AttackResult) -> list[Table]:
    """Return one table for each adversary and kind of findings, with a row for each setting and attack."""
    found: dict[tuple[str, type[Findings]], list[tuple[CaseResult, Found]]] = {}
    for case in result.cases:
        for each in case.found.values():
            kind = type(each.findings)
            adversary = "" if "" in kind.titles else each.adversary
            found.setdefault((adversary, kind), []).append((case, each))
    return [_table(*kind, rows) for kind, rows in found.items()]


def _table(adversary: str, kind: type[Findings], rows: list[tuple[CaseResult, Found]]) -> Table:
    names = dict.fromkeys(each.attack for _, each in rows)
    about = "; ".join(f"{name}: {ATTACKS.load(name).about}" for name in names if adversary not in kind.titles)
    method = kind.informed or kind.kind == "server" or len(names) > 1
    cells = dict.fromkeys(column for _, each in rows for column in each.findings.cells())
    return Table(
        title=kind.titles.get(adversary, f"{adversary}, {about}"),
        note=kind.note([each.findings for _, each in rows]),
        columns=("setting", "epsilon per worker", "per row", *(("method",) if method else ()), *cells),
        rows=tuple(
            (
                case.label,
                epsilon_text(case.claimed[each.adversary]),
                epsilon_text(case.per_row(each.adversary)),
                *((each.attack,) if method else ()),
                *(each.findings.cells().get(column, "") for column in cells),
            )
            for case, each in rows
        ),
    )


def legend(result: AttackResult) -> list[str]:
    """Return what the columns of the tables mean, in short lines for a terminal."""
    meanings = dict(_LEGEND)
    for case in result.cases:
        for each in case.found.values():
            meanings |= each.findings.legend
    columns = {column.partition(",")[0] for table in tables_of(result) for column in table.columns}
    return [f"{column}: {meaning}" for column, meaning in meanings.items() if column in columns]


def attack_markdown(result: AttackResult) -> str:
    """Return verdicts and tables of all cases."""
    lines = ["# What an adversary learns", ""]
    for case in result.cases:
        lines += [f"- **{case.label}**: {case.verdict}", *(f"  - {each}" for each in case.details)]
    lines += ["", "![originals and what was recovered](attack.png)", ""]
    lines += [table.to_markdown() for table in tables_of(result)]
    left_out = [f"- {case.label}, {name}: {why}" for case in result.cases for name, why in case.left_out.items()]
    return "\n".join([*lines, *(["Left out:", "", *left_out, ""] if left_out else [])])


def attack_csv(result: AttackResult) -> str:
    """Return all numbers, one line per setting and attack, for other programs."""
    rows = [_flat(case, each) for case in result.cases for each in case.found.values()]
    names = dict.fromkeys(name for row in rows for name in row)
    return rows_csv([{name: row.get(name, "") for name in names} for row in rows])


def _flat(case: CaseResult, found: Found) -> dict[str, Any]:
    flat: dict[str, Any] = {"setting": case.label, "adversary": found.adversary, "attack": found.attack}
    flat["epsilon_claimed"] = case.claimed[found.adversary]
    flat["epsilon_per_row"] = case.per_row(found.adversary)
    # The server's methods share one grade, which is in the JSON.
    figures = found.to_dict() if found.findings.kind == "server" else case.graded(found.attack)
    for name, value in figures.items():
        inner = value if isinstance(value, dict) else {"": value}
        for key, number in inner.items():
            if isinstance(number, int | float | str):
                flat[f"{name}_{key}".rstrip("_")] = number
    return flat
