"""``airmix audit``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from rich.text import Text
from typer import Exit, Option

from airmixml.audit.faults import FAULTS, fault_named
from airmixml.cli import options
from airmixml.cli.finished import make_or_find, show_made
from airmixml.errors import ScenarioError
from airmixml.output.tables import Table, terminal_table
from airmixml.scenario import Speed
from airmixml.wording import NONE, against, did_you_mean, epsilon_text, shown, simulated

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
    trials: Annotated[
        int, Option(help="Trials per adversary, half of them with the canary, the worker looked for.")
    ] = 10_000,
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
    an interrupted audit, or to see a finished one again.
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

    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    made = make_or_find(audit, scenario, settings, engine=engine, jobs=jobs, **where)
    show_made(as_json, made, _parts, "audit")
    if made.metrics["caught"] != bool(settings.fault.name):
        raise Exit(1)


def _parts(metrics: dict[str, Any]) -> Iterator[str | Text | Table]:
    """Yield one screen of what ``metrics.json`` holds; claims of the whole run stand in the verdict."""
    from airmixml.audit.audit_page import noise_in_words
    from airmixml.audit.noise_check import NoiseCheck

    audits = metrics["audits"]
    trials = audits[0]["trials"]
    yield Text(metrics["verdict"], style="bold red" if metrics["caught"] else "bold")
    yield from (noise_in_words(NoiseCheck.from_dict(each)) for each in metrics["noise_checks"])
    without = "without it" if metrics["adjacency"] == "remove-one" else "with another sample in its place"
    yield (
        f"canary: the worker that the attacker looks for; {trials['with_canary']:,} trials with it and "
        f"{trials['without']:,} {without}, for each adversary"
    )
    yield f"epsilon at delta = {metrics['delta']:.3g}, {metrics['adjacency']} neighbours:"
    yield _table(audits)
    yield from _basis(audits)
    for each in audits:
        yield from (f"- claimed {against(each['adversary'])}: {why}" for why in _why(each))
    for note in dict.fromkeys(note for each in audits for note in each["notes"]):
        if note not in metrics["verdict"]:
            yield f"- {' and '.join(each['adversary'] for each in audits if note in each['notes'])}: {note}"
    yield simulated(metrics["seed"])


def _table(audits: list[dict[str, Any]]) -> Table:
    """Return claims and lower bounds, with a column for each adversary."""
    first = audits[0]
    rows: dict[str, list[str]] = {}
    for place, each in enumerate(audits):
        found = [(f"claimed, {claim['accountant']}", epsilon_text(claim["epsilon"])) for claim in each["claims"]]
        for bound in each["bounds"]:
            epsilon = NONE if bound["epsilon"] is None else f">= {epsilon_text(bound['epsilon'])}"
            found.append((f"found, {bound['method']}", epsilon))
        for name, text in found:
            rows.setdefault(name, [""] * len(audits))[place] = text
    columns, sections = ("", *(each["adversary"] for each in audits)), (len(first["claims"]),)
    return terminal_table(columns, [(name, *texts) for name, texts in rows.items()], sections=sections)


def _basis(audits: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what each method assumes, and what else there is to say; where that differs, of which adversary."""
    methods: dict[tuple[str, str], dict[str, list[str]]] = {}
    for each in audits:
        for bound in each["bounds"]:
            details = methods.setdefault((bound["method"], bound["assumes"]), {})
            details.setdefault(_detail(each, bound), []).append(each["adversary"])
    for (method, assumed), details in methods.items():
        told = [text if len(details) == 1 else f"{', '.join(whose)}: {text}" for text, whose in details.items() if text]
        yield f"- found, {method}: assumes {'; '.join([assumed, *told])}"


def _detail(found: dict[str, Any], bound: dict[str, Any]) -> str:
    """Return of a bound what other lines do not say; which neighbours it is about, if not those of the claims."""
    trials = found["trials"]
    counted = f"{trials['with_canary']:,} trials with the canary, {trials['without']:,} without"
    other = "" if bound["adjacency"] == found["adjacency"] else f"{bound['adjacency']}; "
    detail: str = bound["detail"].removeprefix(counted).removeprefix("; ")
    return other + detail[max(0, detail.find("left out: ")) :]


def _why(found: dict[str, Any]) -> list[str]:
    """Return what the claims against an adversary rest on; where that differs, of which accountants."""
    names: dict[str, list[str]] = {}
    for claim in found["claims"]:
        names.setdefault(claim["why"], []).append(claim["accountant"])
    return [why if len(names) == 1 else f"{why} ({', '.join(whose)})" for why, whose in names.items()]
