"""An audit for its readers: one line for a manager, a page of tables for an expert, and a picture."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.audit.bounds import binomial_upper
from airmixml.audit.claims_and_bounds import Audit, AuditResult, noise_checks, why_far_below
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.settings import AUDITED
from airmixml.output.figures import BLUE, GREEN, RED, new_figure, saved
from airmixml.wording import NONE, epsilon_text, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CLAIM, _FOUND, _BROKEN = BLUE, GREEN, RED
_COUNTED: Final = 10


def verdict_of(audits: list[Audit], fault: Fault) -> str:
    """Return one line that a manager understands."""
    broken = f" (injected fault: {fault.about})" if fault.name else ""
    checks = noise_checks(audits)
    faulty = [check.why_not for check in checks if check.passed is False]
    refuted = [each for each in audits if any(map(each.refutes, each.bounds))]
    if refuted or faulty:
        first = "CAUGHT" if fault.name else "BROKEN"
        found = faulty + list(map(_in_words, refuted))
        if faulty:
            false = "no claim that rests on it holds" if not refuted else "the claims are false"
        else:
            false = "that claim is false" if len(refuted) == 1 else "those claims are false"
        return f"{first}: " + "; ".join(found) + f", so {false}{broken}."
    unchecked = "; the noise of a run was not checked" * any(check.passed is None for check in checks)
    if all(each.sharpest is None for each in audits):
        return "NO CLAIM: nothing could be refuted; " + "; ".join(map(_in_words, audits)) + f"{unchecked}{broken}."
    first, found = "NOT CAUGHT" if fault.name else "NOT REFUTED", []
    for each in audits:
        why = why_far_below(each, near=0.5)
        found.append(_in_words(each) + (f", which shows little ({why})" if why else ""))
    return f"{first}: " + "; ".join(found) + f"{unchecked}{broken}."


def noise_in_words(check: NoiseCheck) -> str:
    """Return what the noise of a real run, or that which workers add, is like, in one line."""
    if check.passed is None:
        return "noise of a real run: not checked, its signal is so loud that float32 rounds it away"
    runs = f" of {check.runs:,} runs" if check.runs > 1 else ""
    left_out = f", {check.slots_left_out:,} louder slots left out" if check.slots_left_out else ""
    shape = "" if check.shape_p_value is None else f", of being Gaussian {check.shape_p_value:.2g}"
    found = "as stated" if check.passed else check.why_not.removeprefix(f"{check.of} ")
    return (
        f"{check.of.removeprefix('the ')}: {found}; "
        f"standard deviation {check.deviation:.4g} of the stated one, {check.upper:.4g} at most, from "
        f"{check.numbers:,} numbers{runs}{left_out}; p-value of the quietest slot or symbol "
        f"{check.quietest_p_value:.2g}, of repeated noise {check.repeated_p_value:.2g}{shape} (a fault below "
        f"{check.failure:.2g})"
    )


def _in_words(each: Audit) -> str:
    refuting = [bound for bound in each.bounds if each.refutes(bound)]
    bound = max(refuting, key=lambda found: found.epsilon or 0.0) if refuting else each.best
    stated, attack = each.claim_beside(bound), AUDITED[each.adversary].attack
    claimed = (
        "nothing is claimed" if stated is None else f"{epsilon_text(stated.epsilon)} is claimed ({stated.accountant})"
    )
    found = f"found epsilon >= {epsilon_text(bound.epsilon)} with {100 * each.confidence:g} % confidence"
    return f"{each.scope}: " * bool(each.scope) + f"the best attack {attack} {found}, {claimed}"


def audit_markdown(result: AuditResult) -> str:
    """Return everything that was found as a page of Markdown."""
    lines = [f"# Audit of {result.scenario.title}, seed {result.scenario.seed}", "", result.verdict, ""]
    for noise in map(noise_in_words, noise_checks(result.audits)):
        lines += [sentence(noise), ""]
    for found in result.audits:
        lines += [
            f"## {found.adversary}: {found.adjacency}, delta {found.delta:g}",
            "",
            *([sentence(found.scope), ""] if found.scope else []),
            f"{found.trials.how}.",
            "",
            "| claim | epsilon | why |",
            "|---|---|---|",
            *(f"| {claim.accountant} | {epsilon_text(claim.epsilon)} | {claim.why} |" for claim in found.claims),
            "",
            f"| lower bound, {100 * found.confidence:g} % for all adversaries together | epsilon | assumes | from |",
            "|---|---|---|---|",
            *(
                f"| {bound.method} ({bound.adjacency}) | {_found(bound.epsilon)} | {bound.assumes} | {bound.detail} |"
                for bound in found.bounds
            ),
            "",
            *(f"- {note}" for note in found.notes),
            "",
        ]
    return "\n".join(lines)


def draw_audit(result: AuditResult, path: Path | None = None) -> Figure:
    """Draw one row for each adversary: epsilons claimed and found, and the attack's error rates."""
    audits = result.audits
    title = "\n".join(textwrap.wrap(f"{result.scenario.title}: {result.verdict}", 130))
    style: dict[str, Any] = {"weight": "bold", "color": _BROKEN if result.caught else "0.15", "x": 0.01, "ha": "left"}
    figure = new_figure(11.5, 0.9 + 0.2 * title.count("\n") + 3.9 * len(audits), title, size=10, **style)
    axes = figure.subplots(len(audits), 2, squeeze=False, width_ratios=(1.25, 1.0))
    for (left, right), audit in zip(axes, audits, strict=True):
        _epsilons(left, audit)
        _rates(right, audit)
    return saved(figure, path)


def _epsilons(axis: Axes, audit: Audit) -> None:
    """Draw every claim and every lower bound as a dot on one line each."""
    from matplotlib.ticker import NullFormatter

    rows: list[tuple[str, float, str, str]] = []
    for claim in audit.claims:
        if claim.epsilon is not None:
            rows.append((f"claimed: {claim.accountant}", claim.epsilon, _CLAIM, "s"))
    claimed = len(rows)
    for bound in audit.bounds:
        if bound.epsilon is not None:
            other = "" if bound.adjacency == audit.adjacency else f" ({bound.adjacency})"
            colour = _BROKEN if audit.refutes(bound) else _FOUND
            rows.append((f"found: {bound.method}{other}", bound.epsilon, colour, "o"))
    above_zero = [value for _, value, _, _ in rows if value > 0.0] or [1.0]
    left_edge, right_edge = min(above_zero) / 4.0, max(above_zero) * 4.0
    text: dict[str, Any] = {"fontsize": 9, "zorder": 4}
    text["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # so that no line runs through a number
    values = [value if value > 0.0 else left_edge * 1.15 for _, value, _, _ in rows]
    for place, ((_, value, colour, marker), at) in enumerate(zip(rows, values, strict=True)):
        axis.plot([left_edge, at], [place, place], color=colour, alpha=0.35, linewidth=5, solid_capstyle="butt")
        axis.plot(at, place, marker, color=colour, markersize=8, fillstyle="full" if value else "none")
        axis.annotate(epsilon_text(value), (at, place), xytext=(9, 0), textcoords="offset points", va="center", **text)
    sharpest = audit.sharpest
    if sharpest is not None and sharpest.epsilon is not None:
        axis.axvline(max(sharpest.epsilon, left_edge), color=_CLAIM, linestyle="--", linewidth=1)
    axis.axhline(claimed - 0.5, color="0.8", linewidth=1)
    axis.set(xscale="log", xlim=(left_edge, right_edge), ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)))
    axis.xaxis.set_minor_formatter(NullFormatter())  # a power of ten is always in sight, others would overlap
    axis.set_yticklabels([name for name, _, _, _ in rows])
    for tick, (_, _, colour, _) in zip(axis.get_yticklabels(), rows, strict=True):
        tick.set_color(colour)
    axis.set_xlabel(f"ε at δ = {audit.delta:g} (logarithmic)", fontsize=9)
    axis.set_title(f"{AUDITED[audit.adversary].title}; {audit.adjacency}", fontsize=10, loc="left")
    axis.grid(alpha=0.25, axis="x")


def _rates(axis: Axes, audit: Audit) -> None:
    """Draw hits against false alarms, and shade what the sharpest claim forbids."""
    scores_in, scores_out = np.sort(audit.trials.scores_in), np.sort(audit.trials.scores_out)
    thresholds = np.unique(np.concatenate([scores_in, scores_out]))[::-1]  # from the strictest on
    thresholds = thresholds[:: max(1, len(thresholds) // 4000)]
    hits = 1.0 - np.searchsorted(scores_in, thresholds, side="left") / len(scores_in)
    alarms = 1.0 - np.searchsorted(scores_out, thresholds, side="left") / len(scores_out)
    least = 0.5 / max(len(scores_out), 1)
    grid = np.geomspace(least, 1.0, 400)
    sharpest = audit.sharpest
    if sharpest is not None and sharpest.epsilon is not None:
        # TPR <= e^epsilon FPR + delta, and the same of the two other rates.
        rising = np.exp(np.minimum(sharpest.epsilon + np.log(grid), 0.0)) + audit.delta
        falling = 1.0 - np.maximum(1.0 - audit.delta - grid, 0.0) * np.exp(-min(sharpest.epsilon, 700.0))
        allowed = np.minimum(np.minimum(rising, falling), 1.0)
        label = f"forbidden by ε = {epsilon_text(sharpest.epsilon)} ({sharpest.accountant})"
        axis.fill_between(grid, allowed, 1.6, color=_CLAIM, alpha=0.18, label=label, linewidth=0)
        axis.plot(grid, allowed, color=_CLAIM, linewidth=1)
    colour = _BROKEN if audit.caught else _FOUND
    counted = alarms * len(scores_out) >= _COUNTED
    # A handful of false alarms may lie anywhere: what they suggest is no evidence.
    axis.plot(alarms[counted], np.maximum(hits[counted], least), color=colour, linewidth=2, label="the attack")
    few_alarms, few_hits = np.maximum(alarms[~counted], least), np.maximum(hits[~counted], least)
    few = f"fewer than {_COUNTED} false alarms"
    axis.plot(few_alarms, few_hits, color=colour, linewidth=1, linestyle=(0, (1, 2)), label=few)
    counts, failure = np.rint(hits * len(scores_in)).astype(np.int64), (1.0 - audit.confidence) / 2.0
    # Clopper and Pearson's limits of each hit rate by itself.
    high = binomial_upper(counts, len(scores_in), failure)
    low = 1.0 - binomial_upper(len(scores_in) - counts, len(scores_in), failure)
    band = f"{100 * audit.confidence:g} % band of the hits"
    axis.fill_between(
        np.maximum(alarms, least), np.maximum(low, least), high, color=colour, alpha=0.2, label=band, lw=0
    )
    axis.plot(grid, grid, color="0.6", linestyle=":", linewidth=1, label="guessing")
    axis.set(xscale="log", yscale="log", xlim=(least, 1.3), ylim=(least, 1.6))
    axis.set_xlabel("false alarms (canary absent)", fontsize=9)
    axis.set_ylabel("hits (canary present)", fontsize=9)
    axis.set_title(f"{len(scores_in) + len(scores_out):,} trials", fontsize=10.5, loc="left")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, loc="lower right")


def _found(epsilon: float | None) -> str:
    """Return a lower bound for a cell."""
    return NONE if epsilon is None else epsilon_text(epsilon)
