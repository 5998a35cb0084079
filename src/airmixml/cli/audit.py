"""``airmix audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from rich.table import Table
from typer import Exit, Option

from airmixml.audit.faults import FAULTS, fault_named
from airmixml.cli import options
from airmixml.cli.finished import report_into
from airmixml.cli.terminal import console, print_json, print_line, print_report_place, progress_bars
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed
from airmixml.wording import NONE, did_you_mean, epsilon_text, shown, simulated

if TYPE_CHECKING:
    from airmixml.audit import Audit, AuditResult

_CHOICES: dict[str, tuple[str, ...]] = {
    "release": ("release",),
    "server": ("server",),
    "both": ("release", "server"),
    "everyone": ("everyone",),
    "all": ("release", "server", "everyone"),
}


def audit_command(
    file: options.File = None,
    preset: options.Preset = None,
    air: options.AirName = None,
    assignments: options.Assignments = None,
    bounds: options.Bounds = None,
    seed: options.Seed = None,
    adversary: Annotated[
        str | None,
        Option(
            help="Adversary to audit: release, server, both, everyone or all "
            "[default: both, and everyone where workers bring noise]."
        ),
    ] = None,
    adjacency: Annotated[
        str | None, Option(help="Neighbours: replace-one or remove-one [default: the scenario's].")
    ] = None,
    trials: Annotated[int, Option(help="Trials per adversary, half of them with the canary.")] = 10_000,
    canaries: Annotated[int, Option(help="Maximum number of canaries in a single run (0 disables it).")] = 1000,
    confidence: Annotated[float, Option(help="Joint confidence of all lower bounds.")] = 0.95,
    fault: Annotated[
        str | None,
        Option(help=f"Inject a fault, which must be caught: {', '.join(list(FAULTS)[:-1])} or {list(FAULTS)[-1]}."),
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = 0,
    engine: options.Engine = "local",
    jobs: options.Jobs = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Try to refute a scenario's epsilon by experiment.

    The adversary knows everything but one worker's sample; the noise of one run is checked too. "Not refuted" is no
    proof: it says how far the attacks came. The exit code is 1 if a claim is refuted, or the noise is not as stated,
    although no fault was injected, and 1 if an injected fault is not caught; else 0. Repeat the same command to resume
    an interrupted audit.
    """
    scenario = options.choose_scenario(
        file, preset, options.on_air(air, assignments), seed, bounds=bounds, data_dir=data_dir
    )
    speed = Speed(threads=threads)
    options.check_force(force, out)
    if adversary is not None and adversary not in _CHOICES:
        raise ScenarioError(
            f"--adversary = {shown(adversary)}: must be one of {', '.join(_CHOICES)}"
            f"{did_you_mean(adversary, list(_CHOICES)) or ';'} an eavesdropper is not audited"
        )
    from airmixml.audit import AuditSettings

    settings = AuditSettings(
        adversaries=_CHOICES[adversary] if adversary else (),
        adjacency=adjacency or "",
        trials=trials,
        canaries=canaries,
        confidence=confidence,
        fault=fault_named(fault or ""),
    )
    settings.check(scenario)
    from airmixml.audit import audit  # after the checks: importing torch takes seconds

    reports: list[dict[str, str]] = []
    with progress_bars() as progress:
        where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir, "progress": progress}
        result = audit(scenario, settings, engine=engine, jobs=jobs, finish=report_into(reports), **where)
    if as_json:
        print_json({**result.to_dict(), **reports[0]})
    else:
        _print(result, reports[0])
    if result.caught != bool(settings.fault.name):
        raise Exit(1)


def _print(result: AuditResult, report: dict[str, str]) -> None:
    from airmixml.audit.audit_page import noise_checks, noise_in_words

    print_line(result.verdict, style="bold red" if result.caught else "bold")
    for check in noise_checks(result.audits):
        print_line(noise_in_words(check))
    for found in result.audits:
        if found.scope:
            print_line(found.scope)
        console.print(_table(found))
        for note in found.notes:
            print_line(f"  {note}")
    print_line(simulated(result.scenario.seed))
    print_report_place(result.run_dir, "audit", report)


def _table(found: Audit) -> Table:
    """Return claims and lower bounds of one adversary."""
    title = f"{found.adversary}: epsilon at delta = {found.delta:g}, {found.adjacency} neighbours"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True, style="cyan")
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("basis", overflow="fold")
    said = ""
    for claim in found.claims:
        why = "likewise" if claim.why == said else escape(claim.why)
        table.add_row(f"claimed, {claim.accountant}", epsilon_text(claim.epsilon), why)
        said = claim.why
    table.add_section()
    for bound in found.bounds:
        other = "" if bound.adjacency == found.adjacency else f"{bound.adjacency}; "
        epsilon = NONE if bound.epsilon is None else f">= {epsilon_text(bound.epsilon)}"
        table.add_row(f"found, {bound.method}", epsilon, escape(f"{other}assumes {bound.assumes}; {bound.detail}"))
    return table
