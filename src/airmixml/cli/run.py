"""``airmix run``, ``attack`` and ``audit``: each makes one folder of one scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from airmixml.audit.faults import FAULTS, fault_named
from airmixml.cli import options
from airmixml.cli.options import choices
from airmixml.cli.terminal import make_or_find, seconds_of, show_made
from airmixml.messages import ScenarioError, did_you_mean, shown
from airmixml.registries import ATTACKS
from airmixml.scenario import Scenario, Speed
from airmixml.storage.folders import SCENARIO


def run_command(
    chosen: options.Chosen,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    block_slots: Annotated[int, Option(help="Number of slots to simulate at a time (0: what suits the device).")] = 0,
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    private: Annotated[
        bool, Option("--private", help="Protect real data: secret noise, and nothing written that it does not cover.")
    ] = False,
    public_test: Annotated[
        bool, Option("--public-test", help="With --private: the test rows are public, so state the accuracy.")
    ] = False,
    show_values: options.ShowValues = False,
    ledger: Annotated[
        Path | None,
        Option(help="Ledger of budgets (`airmix ledger create`): refuse what would pass one, before anything is sent."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a scenario and write a run folder.

    Workers mix their samples over the air, the edge server trains on the mixtures, and the model is scored. Repeat the
    same command to resume an interrupted run, or to see a finished one again. Without --private it is a simulation: its
    noise follows from the seed.
    """
    scenario = chosen.read(seed)
    speed = Speed(device=device, block_slots=block_slots, threads=threads)
    options.check_force(force, out)
    from airmixml.runs import run  # after the checks: importing torch takes seconds

    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    where |= {"ledger": ledger, "checkpoint_seconds": seconds_of("AIRMIX_CHECKPOINT_SECONDS", 5.0)}
    mode: dict[str, Any] = {"private": private, "public_test": public_test, "show_values": show_values}
    from airmixml.runs.run_page import run_page

    metrics = make_or_find(run, scenario, seeds=seeds, **mode, **where)
    folder = Path(metrics["run_dir"])
    page = run_page(metrics, Scenario.load(folder / SCENARIO))  # with what the run settled
    show_made(as_json, metrics, page, folder, picture="figures/*.png")


def attack_command(
    chosen: options.Chosen,
    attacks: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            help=f"Attacks to run: {choices(ATTACKS)} [default: all that fit the scenario; "
            "everyone only where workers bring noise].",
        ),
    ] = None,
    seed: options.Seed = None,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    engine: options.Engine = "local",
    jobs: options.Jobs = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack a run and show what each adversary recovers.

    The adversaries are the server, the release, an eavesdropper and everyone; informed ones know all other samples.
    The first line says what is promised, whether an attack broke it, and who found something. EXPOSED: half of what
    guessing leaves open, or half of the workers looked for; LEAKS: 5 % of it, or any worker. The table has the
    strongest figure of each adversary beside guessing and what its epsilon allows; attack.md and the report have all.
    Repeat the same command to resume an interrupted attack, or to see a finished one again.
    """
    scenario = chosen.settled(seed, data_dir=data_dir)
    speed = Speed(device=device, threads=threads)
    options.check_force(force, out)
    from airmixml.attacks import attack, choose_parts
    from airmixml.attacks.attack_page import attack_page

    parts = choose_parts(attacks, scenario)
    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    metrics = make_or_find(attack, scenario, parts, engine=engine, jobs=jobs, **where)
    page, folder = attack_page(metrics, scenario), Path(metrics["run_dir"])
    show_made(as_json, metrics, page, folder, file="attack.md", picture="attack.png")


def audit_command(
    chosen: options.Chosen,
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
    trials: Annotated[
        int, Option(help="Trials per adversary, half of them with the canary, the worker looked for.")
    ] = 10_000,
    confidence: Annotated[float, Option(help="Joint confidence of all lower bounds.")] = 0.95,
    fault: Annotated[
        str | None,
        Option(help=f"Inject a fault, which must be caught: {', '.join(FAULTS)}."),
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
    an interrupted audit, or to see a finished one again.
    """
    scenario = chosen.settled(seed, data_dir=data_dir)
    speed = Speed(threads=threads)
    options.check_force(force, out)
    from airmixml.audit.settings import CHOICES, AuditSettings

    if adversary is not None and adversary not in CHOICES:
        raise ScenarioError(
            f"--adversary = {shown(adversary)}: must be one of {', '.join(CHOICES)}"
            f"{did_you_mean(adversary, list(CHOICES)) or ';'} an eavesdropper is not audited"
        )
    settings = AuditSettings(
        adversaries=CHOICES[adversary] if adversary else (),
        adjacency=adjacency or "",
        trials=trials,
        confidence=confidence,
        fault=fault_named(fault or ""),
    )
    settings.check(scenario)
    from airmixml.audit import audit  # after the checks: importing torch takes seconds
    from airmixml.audit.audit_page import audit_page

    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    metrics = make_or_find(audit, scenario, settings, engine=engine, jobs=jobs, **where)
    page, folder = audit_page(metrics, scenario), Path(metrics["run_dir"])
    show_made(as_json, metrics, page, folder, file="audit.md", picture="audit.png")
    if metrics["caught"] != bool(settings.fault.name):
        raise Exit(1)
