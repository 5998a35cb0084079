"""An audit for its readers, from what its ``metrics.json`` holds, and its picture."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.audit.settings import AUDITED, CHOICES, AuditSettings
from airmixml.messages import NONE, epsilon_text, sentence, simulated
from airmixml.output.cards import claimed_card
from airmixml.output.figures import BLUE, GREEN, RED, finish_axis, new_figure, save_figure
from airmixml.output.page import Card, Cards, Page
from airmixml.output.tables import Table
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airmixml.audit.claims_and_bounds import Audit, AuditResult

_LARGEST_SHOWN: Final = 600.0  # epsilon; e to the minus that is still a number


def audit_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return the verdict, claims beside lower bounds, and in files what each of them rests on."""
    audits = plain["audits"]
    trials = audits[0]["trials"]
    count = trials["with_canary"] + trials["without"]
    other = "no worker" if plain["adjacency"] == "remove-one" else "another sample"
    every = [(each, bound) for each in audits for bound in each["bounds"]]
    lines = [f"{each['adversary']}: {each['trials']['how']}" for each in audits]
    lines += [f"found, {bound['method']}: assumes {bound['assumes']}" for _, bound in every]
    lines += [
        f"{each['adversary']}: {bound['method']} {bound['detail']}" for each, bound in every if bound["epsilon"] is None
    ]
    lines += [
        f"{each['adversary']}: {claim['accountant']} claims nothing: {claim['why']}"
        for each in audits
        for claim in each["claims"]
        if claim["epsilon"] is None
    ]
    lines += [
        f"{each['adversary']}: {note}" for each in audits for note in each["notes"] if note not in plain["verdict"]
    ]
    return Page.of_result(
        kind="audit",
        title=f"Audit of {scenario.title}",
        verdict=plain["verdict"],
        notices=(sentence(simulated(plain["seed"])),),
        asked=(
            (
                "trials",
                f"{count:,} per adversary, half of them with {other} in place of the canary, the audited worker",
            ),
            ("fault", plain["fault"] or "none injected"),
        ),
        results=tuple((check["of"].removeprefix("the "), check["told"]) for check in plain["noise_checks"]),
        cards=(Cards(title=scenario.title, cards=tuple(_card(each, scenario) for each in audits)),),
        tables=(_overview(plain), *dict.fromkeys(lines)),
        command=("audit", "--trials", str(count), *_options(plain, scenario)),
    )


def _options(plain: dict[str, Any], scenario: Scenario) -> Iterator[str]:
    """Yield the options that differ from their defaults, as the result tells them."""
    usual, audited = AuditSettings(), {each["adversary"] for each in plain["audits"]}
    named = next((name for name, whom in CHOICES.items() if set(whom) == audited), None)
    if named and audited != set(usual.audited(scenario)):
        yield from ("--adversary", named)
    if plain["adjacency"] != scenario.privacy.adjacency:
        yield from ("--adjacency", plain["adjacency"])
    if plain["audits"][0]["confidence"] != usual.confidence:
        yield from ("--confidence", str(plain["audits"][0]["confidence"]))
    if plain["fault"]:
        yield from ("--fault", plain["fault"])


def _overview(plain: dict[str, Any]) -> Table:
    """Return claims and lower bounds, with a column for each adversary."""
    audits, rows = plain["audits"], dict[str, list[str]]()
    for place, each in enumerate(audits):
        found = {f"claimed, {claim['accountant']}": epsilon_text(claim["epsilon"]) for claim in each["claims"]}
        for bound in each["bounds"]:
            epsilon = bound["epsilon"]
            found[f"found, {bound['method']}"] = NONE if epsilon is None else f">= {epsilon_text(epsilon)}"
        for name, text in found.items():
            rows.setdefault(name, [""] * len(audits))[place] = text
    return Table(
        title=f"epsilon at delta = {plain['delta']:.3g}, {plain['adjacency']} neighbours",
        columns=("", *(each["adversary"] for each in audits)),
        rows=tuple((name, *texts) for name, texts in rows.items()),
        sections=(len(audits[0]["claims"]),),
    )


def _card(each: dict[str, Any], scenario: Scenario) -> Card:
    """Return what is claimed against an adversary of all that a run sends, and what was found."""
    lower = f"epsilon is at least {epsilon_text(each['epsilon_lower'])}"
    refuted = "the claim is refuted" if each["caught"] else "the claim is not refuted, which is no proof"
    found = f"{lower} with {100 * each['confidence']:g} % confidence ({each['method']}); {refuted}"
    epsilon, delta, scope = each["epsilon_claimed"], each["delta"], each.get("scope", "")
    extra = (*((("scope", scope),) if scope else ()), ("found", found), ("trials", each["trials"]["how"]))
    return claimed_card(each["adversary"], epsilon, scenario, delta=delta, adjacency=each["adjacency"], extra=extra)


def draw_audit(result: AuditResult, path: Path | None = None) -> Figure:
    """Draw the attack's error rates, one panel for each adversary."""
    audits = result.audits
    title = "\n".join(textwrap.wrap(f"{result.scenario.title}: {result.verdict}", 60 * max(len(audits), 2)))
    style: dict[str, Any] = {"weight": "bold", "color": RED if result.caught else "0.15", "x": 0.01, "ha": "left"}
    figure = new_figure(5.4 * max(len(audits), 2), 5.2 + 0.2 * title.count("\n"), title, size=10, **style)
    for axis, audit in zip(figure.subplots(1, len(audits), squeeze=False)[0], audits, strict=True):
        _rates(axis, audit)
    return save_figure(figure, path)


def _rates(axis: Axes, audit: Audit) -> None:
    """Draw upper limits of error rates; they enter what the sharpest claim forbids where a bound exceeds it."""
    from scipy.special import ndtr, ndtri

    from airmixml.audit.claims_and_bounds import binomial_upper
    from airmixml.privacy.gaussian import gaussian_mu

    scores_in, scores_out = np.sort(audit.trials.scores_in), np.sort(audit.trials.scores_out)
    thresholds = np.quantile(np.concatenate([scores_in, scores_out]), np.linspace(0.0, 1.0, 1000), method="nearest")
    missed, below = (np.searchsorted(each, thresholds, side="right") for each in (scores_in, scores_out))
    failure, sharpest = audit.failure / (4 if audit.trials.normal else 2), audit.sharpest
    claimed = None if sharpest is None else sharpest.epsilon
    shown = claimed if claimed is not None and claimed < _LARGEST_SHOWN else 0.0
    least = min(0.5 / max(len(scores_out), 1), 0.1 * np.exp(-shown))
    grid = np.geomspace(least, 1.0, 2000)
    if sharpest is not None and claimed is not None:
        # TPR <= e^epsilon FPR + delta, and the same of the two other rates.
        steep = 1.0 - audit.delta - np.exp(np.minimum(claimed + np.log(grid), 0.0))
        flat = (1.0 - audit.delta - grid) * np.exp(-min(claimed, 700.0))
        label = f"forbidden by ε = {epsilon_text(claimed)} ({sharpest.accountant})"
        forbidden = np.maximum(np.maximum(steep, flat), least)
        axis.fill_between(grid, least, forbidden, color=BLUE, alpha=0.18, label=label, linewidth=0)
        axis.plot(grid, forbidden, color=BLUE, linewidth=1)
    style: dict[str, Any] = {"color": RED if audit.caught else GREEN, "linewidth": 2}
    misses = binomial_upper(missed, len(scores_in), failure)
    alarms = binomial_upper(len(scores_out) - below, len(scores_out), failure)
    axis.plot(alarms, misses, label="upper limits of errors, counted", **style)
    for bound in audit.bounds:
        if bound.method == "normal scores" and bound.epsilon is not None and 0.0 < bound.epsilon < np.inf:
            normal = ndtr(-ndtri(grid) - gaussian_mu(bound.epsilon, audit.delta))
            axis.plot(grid, normal, linestyle="--", label="upper limits of errors, normal scores", **style)
    axis.plot(grid, 1.0 - grid, color="0.6", linestyle=":", linewidth=1, label="guessing")
    axis.set(xscale="log", yscale="log", xlim=(least, 1.3), ylim=(least, 1.3))
    axis.set_xlabel("false alarms (canary absent)", fontsize=9)
    axis.set_ylabel("misses (canary present)", fontsize=9)
    lower = f"ε ≥ {epsilon_text(audit.best.epsilon)} found in {len(scores_in) + len(scores_out):,} trials"
    title = f"{AUDITED[audit.adversary].title}\n{lower}; δ = {audit.delta:g}, {audit.adjacency}"
    finish_axis(axis, title, size=9.5, legend=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
