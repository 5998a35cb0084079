"""Results of attacks: what was found in each setting, its grade, and a verdict in words that need no table."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from airmixml.attacks.findings import GRADES, TOO_FEW, Findings, grade_of, naming_bound
from airmixml.attacks.server_attacks import ServerFindings
from airmixml.attacks.target import Outcome
from airmixml.notebook import html_lines
from airmixml.output import numbers
from airmixml.radio.privacy_target import slots_target
from airmixml.scenario import Scenario, keys_in_force
from airmixml.wording import FOUND_NOBODY

LISTENERS: Final = ("release", "eavesdropper", "everyone")
_WHO: Final = {
    "server": "the server",
    "release": "an adversary who sees only the mixtures",
    "everyone": "an adversary who hears each worker without noise and knows all others",
}
epsilon_text: Final = partial(numbers.epsilon_text, digits=3)


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
    epsilon: float | None
    bound: float  # on naming a worker's sample, by that claim

    @property
    def best(self) -> Found:
        """The attack that learned most, judged with the truth at hand."""
        return max(self.found, key=lambda each: each.findings.strength)

    @property
    def grade(self) -> str:
        """The worst grade of all."""
        return max((self._grade(each.findings) for each in self.found), key=GRADES.index)

    def _grade(self, findings: Findings) -> str:
        return grade_of(findings.level, self.bound, too_few=bool(findings.too_few()))

    def in_words(self, who: str) -> str:
        """Return what that adversary learns, or that our attacks found nobody."""
        if self.grade == "hidden":
            return f"{who} {self.best.findings.nothing()}"
        if self.grade == FOUND_NOBODY:
            claim = "without any claim" if self.epsilon is None else f"at epsilon {epsilon_text(self.epsilon)}"
            return f"as {who}, {FOUND_NOBODY} ({claim} a stronger attack may)"
        if self.grade == TOO_FEW:
            return f"{who} has {self.best.findings.too_few()}"
        *others, last = self.best.findings.learned()
        return f"{who} {', '.join(others)} and {last}" if others else f"{who} {last}"


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseResult:
    """What each attack, by its name, found in one setting.

    Attributes:
        label: what tables and pictures call it.
        claimed: least epsilon against each adversary; None for no claim.
        left_out: attacks that do not fit, and why.
        held: different samples that workers hold, among which one is named.
    """

    label: str
    scenario: Scenario
    claimed: dict[str, float | None]
    found: dict[str, Found]
    left_out: dict[str, str]
    held: int

    @property
    def groups(self) -> list[Group]:
        """All that was found, by adversary and kind of findings."""
        groups: dict[tuple[str, type], Group] = {}
        for each in self.found.values():
            who = each.adversary
            group = Group(adversary=who, found=[], epsilon=self.claimed[who], bound=self.naming_bound(who))
            groups.setdefault((each.adversary, type(each.findings)), group).found.append(each)
        return list(groups.values())

    def naming_bound(self, adversary: str) -> float:
        """Return the largest probability that the claim leaves an adversary of naming the sample of a worker."""
        privacy = self.scenario.privacy
        return naming_bound(self.claimed[adversary], privacy.delta, privacy.adjacency, self.held)

    def group_of(self, attack: str) -> Group:
        """Return the group of an attack."""
        return next(group for group in self.groups if any(each.attack == attack for each in group.found))

    @property
    def grade(self) -> str:
        """The worst grade over all adversaries that attacked."""
        return max((group.grade for group in self.groups), key=GRADES.index)

    @property
    def verdict(self) -> str:
        """One line for a person who decides."""
        metres = self.scenario.privacy.eavesdropper_distance_metres
        who = {**_WHO, "eavesdropper": f"an eavesdropper {metres:g} m from a worker"}
        told = dict.fromkeys(group.in_words(who.get(group.adversary, group.adversary)) for group in self.groups)
        return f"{self.grade.upper()}: {'; '.join(told)}."

    @property
    def server(self) -> Group | None:
        """The server's reconstructions."""
        return next((group for group in self.groups if isinstance(group.best.findings, ServerFindings)), None)

    def graded(self, attack: str) -> dict[str, Any]:
        """Return the figures of an attack with the grade of what was found against its adversary."""
        return {**self.found[attack].to_dict(), "grade": self.group_of(attack).grade}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; attacks of other packages have an entry of their own, if there are any."""
        scenario, server = self.scenario, self.server
        methods = {} if server is None else {each.attack: each.to_dict() for each in server.found}
        others = {
            name: {"adversary": each.adversary, **self.graded(name)}
            for name, each in self.found.items()
            if name not in (*methods, *LISTENERS)
        }
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
            **({"other_attacks": others} if others else {}),
            "claimed": {"delta": slots_target(scenario)[1], "adjacency": scenario.privacy.adjacency, **self.claimed},
            "naming_bound": {name: self.naming_bound(name) for name in self.claimed},
            "held": self.held,
            "left_out": self.left_out,
            "scenario": scenario.to_json(),
            "grade": self.grade,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackResult:
    """Everything that one command found: a result for each setting, time, device and folder of the results.

    ``to_dict`` is its ``metrics.json``.
    """

    cases: list[CaseResult]
    seconds: float
    device: str
    run_dir: Path

    def _repr_html_(self) -> str:
        verdicts = (f"{case.label}: {case.verdict}" for case in self.cases)
        return html_lines([*verdicts, f"Tables and picture: {self.run_dir}/attack.md"])

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
