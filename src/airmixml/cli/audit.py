"""``airmix audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from airmixml.cli.run import choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed
from airmixml.wording import nearest, shown

if TYPE_CHECKING:
    from airmixml.audit import Audit, AuditResult

_BOTH = ("release", "server")


def audit_command(
    file: Annotated[Path | None, typer.Argument(help="Scenario file (TOML).", show_default=False)] = None,
    preset: Annotated[str | None, typer.Option(help="Scenario that comes with the package.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as privacy.epsilon=1."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run that is audited.")] = None,
    adversary: Annotated[str, typer.Option(help="Who attacks: release, server or both.")] = "both",
    adjacency: Annotated[
        str | None, typer.Option(help="Neighbours: replace-one or remove-one [default: the scenario's].")
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials for each adversary, half of them with the canary.")] = 10_000,
    canaries: Annotated[int, typer.Option(help="Most canaries in one real run (0: no such run).")] = 1000,
    confidence: Annotated[
        float, typer.Option(help="Confidence of all lower bounds on all adversaries together.")
    ] = 0.95,
    fault: Annotated[
        str | None,
        typer.Option(help="Inject a fault, which must be caught: half-noise, wrong-sensitivity or schedule-revealed."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to make [default: runs/audit-NAME-seedS].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the folder --out if it exists.")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads (0: as many as there are cores).")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that holds the four MNIST files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Attack a scenario with everything else known, and compare what that proves with every claim.

    The noise of one real run is checked too. "Not refuted" is no proof: it says how far the attacks came. The exit code
    is 1 if a claim turns out false, or the noise is not as stated, although no fault was injected; and 1 if an injected
    fault is not caught; else 0. Give the same command again to resume an interrupted audit.
    """
    scenario = choose_scenario(file, preset, assignments or [], seed)
    speed = Speed(threads=threads)
    if force and out is None:
        raise ScenarioError("--force: replaces the folder --out, so give that too")
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
    from airmixml.audit.words import noise_in_words

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
    from airmixml.audit.words import epsilon_text

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
