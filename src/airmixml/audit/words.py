"""An audit in words: one line for a manager, a page of tables for an expert."""

from airmixml.attacks.claimed_epsilons import sharpest_of
from airmixml.audit.evidence import shows_little
from airmixml.audit.findings import Audit, AuditResult
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.settings import Fault
from airmixml.output.numbers import epsilon_text


def verdict_of(audits: list[Audit], fault: Fault) -> str:
    """Return one line that a manager understands."""
    broken = f" (injected fault: {fault.about})" if fault.name else ""
    noise = audits[0].noise_check
    refuted = [each for each in audits if any(map(each.refutes, each.bounds))]
    if refuted or noise.passed is False:
        first = "CAUGHT" if fault.name else "BROKEN"
        found = [noise.why_not] * (noise.passed is False) + list(map(_in_words, refuted))
        if noise.passed is False:
            false = "no claim that rests on it holds" if not refuted else "the claims are false"
        else:
            false = "that claim is false" if len(refuted) == 1 else "those claims are false"
        return f"{first}: " + "; ".join(found) + f", so {false}{broken}."
    unchecked = "; the noise of a run was not checked" * (noise.passed is None)
    if all(each.sharpest is None for each in audits):
        return "NO CLAIM: nothing could be refuted; " + "; ".join(map(_in_words, audits)) + f"{unchecked}{broken}."
    first = "NOT CAUGHT" if fault.name else "NOT REFUTED"
    return f"{first}: " + "; ".join(_in_words(each) + _little(each) for each in audits) + f"{unchecked}{broken}."


def _little(each: Audit) -> str:
    why = shows_little(each)
    return f", which shows little ({why})" if why else ""


def noise_in_words(check: NoiseCheck) -> str:
    """Return what the noise of a real run is like, in one line."""
    if check.passed is None:
        return "noise of a real run: not checked, its signal is so loud that float32 rounds it away"
    runs = f" of {check.runs:,} runs" if check.runs > 1 else ""
    left_out = f", {check.slots_left_out:,} louder slots left out" if check.slots_left_out else ""
    shape = "" if check.shape_p_value is None else f", of being Gaussian {check.shape_p_value:.2g}"
    return (
        f"noise of a real run: {'as stated' if check.passed else check.why_not.partition(' run ')[2]}; "
        f"standard deviation {check.deviation:.4g} of the stated one, {check.upper:.4g} at most, from "
        f"{check.numbers:,} numbers{runs}{left_out}; p-value of the quietest slot or symbol "
        f"{check.quietest_p_value:.2g}, of repeated noise {check.repeated_p_value:.2g}{shape}"
    )


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


def audit_markdown(result: AuditResult) -> str:
    """Return everything that was found as a page of Markdown."""
    lines = [f"# Audit of {result.scenario.name}, seed {result.scenario.seed}", "", result.verdict, ""]
    noise = noise_in_words(result.own.noise_check)
    lines += [f"{noise[0].upper()}{noise[1:]}.", ""]
    for found in result.audits:
        lines += [
            f"## {found.adversary}: {found.adjacency}, delta {found.delta:g}",
            "",
            f"{found.trials.how}.",
            "",
            "| claim | epsilon | why |",
            "|---|---|---|",
            *(f"| {claim.accountant} | {epsilon_text(claim.epsilon)} | {claim.why} |" for claim in found.claims),
            "",
            f"| lower bound, {100 * found.confidence:g} % for all adversaries together | epsilon | assumes | from |",
            "|---|---|---|---|",
            *(
                f"| {bound.method} ({bound.adjacency}) | {epsilon_text(bound.epsilon)} | {bound.assumes} | "
                f"{bound.detail} |"
                for bound in found.bounds
            ),
            "",
            *(f"- {note}" for note in found.notes),
            "",
        ]
    return "\n".join(lines)
