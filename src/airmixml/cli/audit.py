"""``airmix audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.options import check_force, choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import ScenarioError
from airmixml.output.numbers import epsilon_text
from airmixml.scenario import Speed
from airmixml.wording import nearest, shown

if TYPE_CHECKING:
    from airmixml.audit import Audit, AuditResult

_BOTH = ("release", "server")


def audit_command(
    file: options.File = None,
    preset: options.Preset = None,
    assignments: options.Assignments = None,
    seed: options.Seed = None,
    adversary: Annotated[str, typer.Option(help="Adversary to audit: release, server or both.")] = "both",
    adjacency: Annotated[
        str | None, typer.Option(help="Neighbours: replace-one or remove-one [default: the scenario's].")
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials per adversary, half of them with the canary.")] = 10_000,
    canaries: Annotated[int, typer.Option(help="Maximum number of canaries in a single run (0 disables it).")] = 1000,
    confidence: Annotated[float, typer.Option(help="Joint confidence of all lower bounds.")] = 0.95,
    fault: Annotated[
        str | None,
        typer.Option(help="Inject a fault, which must be caught: half-noise, wrong-sensitivity or schedule-revealed."),
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Try to refute a scenario's epsilon by experiment.

    The adversary knows everything but one worker's sample; the noise of one run is checked too. "Not refuted" is no
    proof: it says how far the attacks came. The exit code is 1 if a claim is refuted, or the noise is not as stated,
    although no fault was injected, and 1 if an injected fault is not caught; else 0. Repeat the same command to resume
    an interrupted audit.
    """
    scenario = choose_scenario(file, preset, assignments, seed)
    speed = Speed(threads=threads)
    check_force(force, out)
    if adversary not in (*_BOTH, "both"):
        options = [*_BOTH, "both"]
        raise ScenarioError(
            f"--adversary = {shown(adversary)}: must be one of {', '.join(options)}; did you mean "
            f"{nearest(adversary, options)}? An eavesdropper is not audited"
        )
    from airmixml.audit import AuditSettings, fault_named

    settings = AuditSettings(
        adversaries=_BOTH if adversary == "both" else (adversary,),
        adjacency=adjacency or "",
        trials=trials,
        canaries=canaries,
        confidence=confidence,
        fault=fault_named(fault or ""),
    )
    settings.check(scenario)
    from airmixml.audit import audit  # after the checks: importing torch takes seconds

    with progress_bars() as progress:
        result = audit(scenario, settings, out=out, force=force, speed=speed, data_dir=data_dir, progress=progress)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)
    if result.caught != bool(settings.fault.name):
        raise typer.Exit(1)


def _print(result: AuditResult) -> None:
    from airmixml.audit.report import noise_in_words

    style = "bold red" if result.caught else "bold"
    console.print(escape(result.verdict), style=style, soft_wrap=True)
    console.print(escape(noise_in_words(result.own.noise_check)), soft_wrap=True)
    for found in result.audits:
        console.print(_table(found))
        for note in found.notes:
            console.print(f"  {escape(note)}", soft_wrap=True)
    folder = escape(str(result.run_dir))
    console.print(
        f"{result.seconds:.1f} s; everything in [bold]{folder}/audit.md[/bold], picture in {folder}/audit.png",
        soft_wrap=True,
    )


def _table(found: Audit) -> Table:
    """Return claims and lower bounds of one adversary."""
    table = Table(
        title=f"{found.adversary}: epsilon at delta = {found.delta:g}, {found.adjacency} neighbours",
        title_justify="left",
        title_style="bold",
    )
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
        above = "" if bound.epsilon is None else ">= "
        table.add_row(
            f"found, {bound.method}",
            f"{above}{epsilon_text(bound.epsilon)}",
            escape(f"{other}assumes {bound.assumes}; {bound.detail}"),
        )
    return table
