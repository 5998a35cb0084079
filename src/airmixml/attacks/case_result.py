"""What attacks found in one setting: its grade, and a verdict in words that need no table."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from airmixml.attacks.grades import GRADES, TOO_FEW, grade_of, guessing_bound, naming_bound
from airmixml.attacks.measured import EXPOSED, FALSE_ALARMS, Measured, beyond_chance, beyond_guessing
from airmixml.attacks.target import Outcome
from airmixml.scenario import Scenario, keys_in_force
from airmixml.wording import NONE, NOTHING_PROMISED, against, epsilon_text, plural

LISTENERS: Final = ("release", "eavesdropper", "everyone")
# Who attacks and what each of them knows, for those who read the table alone.
_KNOWS: Final = {
    "server": "knows the schedule",
    "release": "only the mixtures",
    "eavesdropper": "listens {metres:g} m from a worker",
    "everyone": "hears each worker without noise",
    "informed": "knows all other samples",
    "inversion": "informed, solves for a sample behind its gradients",
}
_NO_LIMIT: Final = "no limit"
# Words of the table, and what they mean.
_LEGEND: Final = {
    "detects": "with the false alarms of guessing",
    "closest": "to what epsilon allows",
    "beyond": "more than epsilon allows",
    NONE: "epsilon does not limit it",
    _NO_LIMIT: "no epsilon, or so large a one that all is allowed",
}
_TO_WHOM: Final = {"exposed": "EXPOSED to", "leaks": "LEAKS to", TOO_FEW: "too few mixtures or workers to tell for"}
_LARGEST_LIMIT: Final = 0.995  # as good as none
SUMMARY: Final = ("attacker", "what it does", "success", "guessing", "epsilon allows", "beyond chance")


def _joined(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _the(adversary: str) -> str:
    return against(adversary).removeprefix("against ")


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
    figures: list[Measured]  # of all these attacks
    counts: float  # largest p-value that is beyond chance among all figures of the setting
    strict: float  # the same were all others by chance

    @property
    def best(self) -> Found:
        """The attack that learned most, judged with the truth at hand."""
        return max(self.found, key=lambda each: each.findings.strength)

    @property
    def certain(self) -> list[Measured]:
        """Figures beyond chance."""
        return [each for each in self.figures if each.p_value <= self.counts]

    @property
    def figure(self) -> Measured:
        """The figure that says most: the largest one beyond chance, or else the least likely one."""
        levels = ("", "leaks", "exposed")
        return max(
            self.certain or self.figures,
            key=lambda each: (levels.index(each.level), each.share) if self.certain else (-each.p_value, each.share),
        )

    @property
    def grade(self) -> str:
        """What is found and promised."""
        too_few = not self.certain and all(each.p_if_half > self.strict for each in self.figures)
        return grade_of(self.figure.level if self.certain else "", self.bound, too_few=too_few)

    @property
    def how(self) -> str:
        """What the adversary knows or does beside."""
        findings = self.best.findings
        return self.best.attack if findings.kind == "other" else findings.kind if findings.informed else ""

    @property
    def who(self) -> str:
        """The adversary in a sentence."""
        who = _the(self.adversary)
        return who.replace("the ", "the informed ") if self.best.findings.informed else who


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
    claimed_by: dict[str, str] = field(default_factory=dict)  # accountants of ``claimed``

    @cached_property
    def groups(self) -> list[Group]:
        """All that was found, by adversary and kind of findings."""
        kinds: dict[tuple[str, type], list[Found]] = {}
        for each in self.found.values():
            kinds.setdefault((each.adversary, type(each.findings)), []).append(each)
        figures = {kind: [one for each in found for one in each.findings.measured()] for kind, found in kinds.items()}
        every = [each for some in figures.values() for each in some]
        tested = {"counts": beyond_chance(every), "strict": FALSE_ALARMS / len(every)}
        return [
            Group(
                adversary=kind[0],
                found=found,
                bound=self.naming_bound(kind[0], found[0].findings.among(self.held)),
                figures=figures[kind],
                **tested,
            )
            for kind, found in kinds.items()
        ]

    def per_row(self, adversary: str) -> float | None:
        """Return the epsilon of a row, with all its copies."""
        return self.claimed_per_row.get(adversary, self.claimed[adversary])

    def naming_bound(self, adversary: str, among: int = 0) -> float:
        """Return the largest probability that the claims leave of naming a sample among all held, or so many.

        Attacks look for workers and rows, so the larger epsilon of both counts.
        """
        privacy = self.scenario.privacy
        return naming_bound(self._covering(adversary), privacy.delta, privacy.adjacency, among or self.held)

    def _covering(self, adversary: str) -> float | None:
        """Return the epsilon that covers a worker and a row."""
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

    @cached_property
    def limited(self) -> list[tuple[float, Group, Measured]]:
        """Figures that the epsilon against the scenario's own adversary limits; the part of it they use, largest last.

        A part above 1 is beyond the limit.
        """
        own, found = self.scenario.privacy.adversary, []
        for group in self.groups:
            for each in group.figures if group.adversary == own else ():
                if (limit := self.limit(each, own)) < 1.0:
                    found.append((each.share / beyond_guessing(limit, each.guessing), group, each))
        return sorted(found, key=lambda each: each[0])

    @property
    def broken(self) -> bool:
        """Whether a figure is larger than its epsilon allows, beyond chance (Bonferroni)."""
        own, figures = self.scenario.privacy.adversary, [each for *_, each in self.limited]
        return any(each.p_value_beyond(self.limit(each, own)) < FALSE_ALARMS / len(figures) for each in figures)

    @property
    def nearest(self) -> tuple[Group, Measured] | None:
        """The figure that uses most of what its epsilon allows; None where none exceeds guessing."""
        return next(((group, each) for used, group, each in self.limited[-1:] if used > 0.0), None)

    @property
    def _promise(self) -> str:
        """What the scenario promises against its own adversary, and whether that survived."""
        adversary = self.scenario.privacy.adversary
        worker, who = self.claimed.get(adversary), against(adversary)
        if worker is None:
            return f"NOTHING PROMISED {who}"
        row = self.per_row(adversary)
        text = f"{who}: epsilon {epsilon_text(worker)}"
        by = f" by {self.claimed_by[adversary]}" if self.claimed_by.get(adversary) else ""
        text = f"{text}{by}" if row == worker else f"{text} per worker{by}, {epsilon_text(row)} per row"
        if self.broken:
            return f"PROMISE BROKEN {text}"
        if self.naming_bound(adversary) >= EXPOSED:
            return f"PROMISE TOO WEAK {text}"
        return f"PROMISED {text}, {'which no attack broke' if self.limited else 'untested'}"

    @property
    def verdict(self) -> str:
        """One line for a person who decides: what is promised, whether that survived, what was found and by whom."""
        worst: dict[str, str] = {}
        for group in self.deciding:
            worst[group.adversary] = max(group.grade, worst.get(group.adversary, "hidden"), key=GRADES.index)
        graded = {grade: [_the(who) for who, found in worst.items() if found == grade] for grade in worst.values()}
        found = [f"{words} {_joined(graded[grade])}" for grade, words in _TO_WHOM.items() if grade in graded]
        if not graded.keys() & {"leaks", "exposed"}:
            hints = dict.fromkeys(_the(group.adversary) for group in self.groups if group.certain)
            found.insert(0, f"only hints found, by {_joined(hints)}" if hints else "nothing found")
        own = _the(self.scenario.privacy.adversary)
        if others := [each for each in graded.get(NOTHING_PROMISED, ()) if each != own]:
            found.append(f"no useful promise against {_joined(others)}")
        text = "; ".join(found)
        return f"{self._promise}. {text[0].upper()}{text[1:]}."

    def _told(self, group: Group, figure: Measured) -> str:
        limit = self.limit(figure, group.adversary)
        allowed = f", its epsilon allows {figure.like(limit)}" if limit < 1.0 else ""
        return f"{group.who} {figure.what}: {figure.text} (guessing {figure.guessing_text}{allowed})"

    @property
    def details(self) -> list[str]:
        """What is promised, whether it survived, what was found, how that was tested, what is assumed; a line each."""
        privacy, lines = self.scenario.privacy, []
        own, worker = privacy.adversary, self.claimed.get(privacy.adversary)
        if worker is not None:
            row, copies = self.per_row(own), f" that up to {self.copies:,} workers hold" if self.copies > 1 else ""
            of_row = " and a row" if row == worker else f", {epsilon_text(row)} for a row{copies}"
            promised = f"epsilon {epsilon_text(worker)} for a worker{of_row}"
            if by := self.claimed_by.get(own):
                promised = f"by {by} {promised}"
                if self.scenario.mixing.power_policy.keeps_target:
                    promised = f"target epsilon {privacy.epsilon:g} by {privacy.accountant}; {promised}"
            lines = [f"promised {against(own)}: {promised}; delta {privacy.delta:.3g}"]
        weak = worker is not None and self.naming_bound(own) >= EXPOSED
        unbroken = "not broken, but too weak to help" if weak else "yes"
        if self.nearest is not None:
            survived = "no" if self.broken else f"{unbroken}; closest"
            lines.append(f"survived: {survived}: {self._told(*self.nearest)}")
        elif self.limited:
            lines.append(f"survived: {unbroken}; no figure that its epsilon limits exceeds guessing")
        ranked = sorted((group for group in self.groups if group.certain), key=lambda each: -GRADES.index(each.grade))
        best = {group.adversary: group for group in reversed(ranked)}
        for group in (each for each in ranked if best[each.adversary] is each):
            hint = "" if group.figure.level else "a hint, "
            lines.append(f"found: {hint}{self._told(group, group.figure)}")
        tested = sum(len(group.figures) for group in self.groups)
        nothing = "" if ranked else "nothing beyond chance; "
        alarms = f"at most {100 * FALSE_ALARMS:g} % false alarms over all of them (Holm)"
        lines.append(f"tested: {nothing}{plural(tested, 'figure')} at once, {alarms}")
        if worker is not None:
            receiver = "eavesdropper's" if own == "eavesdropper" else "server's"
            noise = "the workers' own noise" if privacy.noise_kind.brought else f"the noise of the {receiver} receiver"
            lines.append(f"assumed: {noise}")
        return lines

    @property
    def summary(self) -> list[tuple[str, ...]]:
        """Who attacks, what, how often that succeeds, by guessing, by what epsilon allows, and whether it is chance."""
        rows, seen = list[tuple[str, ...]](), set[str]()
        order = list(dict.fromkeys(group.adversary for group in self.groups))
        for group in sorted(self.groups, key=lambda each: order.index(each.adversary)):
            name = group.adversary if group.adversary not in seen else ""
            name = f"{name}, {group.how}" if name and group.how else name or f"  {group.how}"
            seen.add(group.adversary)
            rows.append((name, *self._row(group, group.figure)))
            if self.nearest and self.nearest[0] is group and self.nearest[1] != group.figure:
                rows.append(("  beyond" if self.broken else "  closest", *self._row(*self.nearest)))
        return rows

    def _row(self, group: Group, figure: Measured) -> tuple[str, ...]:
        limit = self.limit(figure, group.adversary)
        limited = NONE if not self._covers(figure) else figure.like(limit) if limit < 1.0 else _NO_LIMIT
        chance = "yes" if figure in group.certain else "no"
        return figure.what, figure.text, figure.guessing_text, limited, chance

    @property
    def attackers(self) -> str:
        """Who the adversaries of the summary are, and what its other words mean."""
        metres = self.scenario.privacy.eavesdropper_distance_metres
        names = dict.fromkeys(word for group in self.groups for word in (group.adversary, group.how))
        known = [f"{name}: {_KNOWS[name].format(metres=metres)}" for name in names if name in _KNOWS]
        words = [cell for row in self.summary for cell in (row[0].strip(), row[1].partition(" ")[0], row[4])]
        return "; ".join([*known, *(f"{word}: {meaning}" for word, meaning in _LEGEND.items() if word in words)])

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
            "measured": [
                {
                    **asdict(each),
                    "adversary": group.adversary,
                    "informed": group.best.findings.informed,
                    "limit": self.limit(each, group.adversary),
                    "beyond_chance": each in group.certain,
                }
                for group in self.groups
                for each in group.figures
            ],
        }
