"""An audit in words: one line for a manager, a page of tables for an expert."""

from __future__ import annotations

from typing import Any

from airmixml.attacks.audit import Audit, Fault
from airmixml.attacks.audit.findings import sharpest_of

__all__ = ["audit_table", "verdict_of"]


def verdict_of(audits: list[Audit], fault: Fault) -> str:
    """Return one line that a manager understands."""
    caught = [each for each in audits if each.caught]
    broken = f" ({fault.about}, on purpose)" if fault.name else ""
    if caught:
        first = "CAUGHT" if fault.name else "BROKEN"
        false = "that claim is false" if len(caught) == 1 else "those claims are false"
        return f"{first}: " + "; ".join(map(_in_words, caught)) + f", so {false}{broken}."
    first = "NOT CAUGHT" if fault.name else "HOLDS"
    return f"{first}: " + "; ".join(map(_in_words, audits)) + f"{broken}."


def _in_words(each: Audit) -> str:
    refuting = [bound for bound in each.bounds if each.refutes(bound)]
    bound = max(refuting, key=lambda found: found.epsilon or 0.0) if refuting else each.best
    claims = each.claims if bound.adjacency == each.adjacency else each.other_claims
    stated = sharpest_of(claims)
    claimed = "nothing" if stated is None else f"{stated.epsilon:.4g}"
    return (
        f"the best attack {'on the release' if each.adversary == 'release' else 'by the server'} found epsilon >= "
        f"{bound.epsilon:.4g} with {100 * each.confidence:g} % confidence, {claimed} is claimed"
        + ("" if stated is None else f" ({stated.accountant})")
    )


def audit_table(result: dict[str, Any]) -> str:
    """Return everything that was found as a page of Markdown."""
    lines = [f"# Audit of {result['name']}, seed {result['seed']}", "", result["verdict"], ""]
    for found in result["audits"]:
        lines += [
            f"## {found['adversary']}: {found['adjacency']}, delta {found['delta']:g}",
            "",
            f"{found['trials']['how']}.",
            "",
            "| claim | epsilon | why |",
            "|---|---|---|",
            *(f"| {claim['accountant']} | {_number(claim['epsilon'])} | {claim['why']} |" for claim in found["claims"]),
            "",
            f"| lower bound, {100 * found['confidence']:g} % for all together | epsilon | assumes | from |",
            "|---|---|---|---|",
            *(
                f"| {bound['method']} ({bound['adjacency']}) | {_number(bound['epsilon'])} | {bound['assumes']} | "
                f"{bound['detail']} |"
                for bound in found["bounds"]
            ),
            "",
            *(f"- {note}" for note in found["notes"]),
            "",
        ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
