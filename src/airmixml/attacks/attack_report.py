"""What one command of attacks found: tables, CSV and JSON."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airmixml.attacks.case_result import LISTENERS, SUMMARY, CaseResult, Found
from airmixml.attacks.grades import Findings
from airmixml.notebook import html_lines
from airmixml.output.tables import Table, rows_csv
from airmixml.registries import ATTACKS
from airmixml.scenario import Scenario
from airmixml.wording import epsilon_text


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


def read_attack(plain: dict[str, Any]) -> AttackResult:
    """Return what a ``metrics.json`` holds, as far as its tables show it."""
    about = {"seconds": plain["seconds"], "device": plain["device"], "run_dir": Path(plain["run_dir"])}
    return AttackResult(cases=list(map(_read_case, plain["cases"])), **about)


def _read_case(case: dict[str, Any]) -> CaseResult:
    informed = {
        attack.adversary: name
        for name, attack in ((name, ATTACKS.load(name)) for name in ATTACKS.names)
        if attack.findings.kind == "informed"
    }
    figures = {
        **(case["server"] or {}).get("methods", {}),
        **{name: case[name] for name in LISTENERS if case[name]},
        **{informed[adversary]: each for adversary, each in case.get("informed", {}).items()},  # older ones have none
        **case.get("other_attacks", {}),
    }
    found = {}
    for name in sorted(figures, key=ATTACKS.names.index):
        attack, beside = ATTACKS.load(name), ("seconds", "grade", "adversary")
        findings = attack.findings.from_dict({key: each for key, each in figures[name].items() if key not in beside})
        found[name] = Found(attack=name, adversary=attack.adversary, findings=findings)
    claimed = {name: each for name, each in case["claimed"].items() if name in case["naming_bound"]}
    known = {name: case[name] for name in ("label", "left_out", "held", "claimed_per_row", "copies") if name in case}
    return CaseResult(scenario=Scenario.from_json(case["scenario"]), claimed=claimed, found=found, **known)


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


def summary_of(result: AttackResult) -> Table:
    """Return one table of all settings: what each adversary does best, beside guessing and what epsilon allows."""
    several = len(result.cases) > 1
    rows = [((case.label,) if several else ()) + row for case in result.cases for row in case.summary]
    return Table(title="", note="", columns=(*(("setting",) if several else ()), *SUMMARY), rows=tuple(rows))


def attack_markdown(result: AttackResult) -> str:
    """Return verdicts and tables of all cases."""
    lines = ["# What an adversary learns", ""]
    for case in result.cases:
        lines += [f"- **{case.label}**: {case.verdict}", *(f"  - {each}" for each in case.details)]
    lines += ["", summary_of(result).to_markdown(), *dict.fromkeys(f"{case.attackers}." for case in result.cases)]
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
