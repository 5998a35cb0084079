"""``airmix sweep``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import add_report
from airmixml.cli.options import choices
from airmixml.cli.terminal import (
    console,
    print_error_line,
    print_json,
    print_line,
    print_report_place,
    progress_bars,
    report_failures,
)
from airmixml.errors import ScenarioError
from airmixml.output.numbers import plural
from airmixml.registries import ATTACKS
from airmixml.scenario.grid import Grid, value_text

if TYPE_CHECKING:
    from airmixml.audit import AuditSettings
    from airmixml.sweeps.swept import Swept


def sweep_command(
    file: options.File = None,
    preset: options.Preset = None,
    air: options.AirName = None,
    assignments: options.Assignments = None,
    bounds: options.Bounds = None,
    grid: Annotated[
        list[str] | None,
        Option(metavar="KEY=V1,V2,...", help="Values of a key; repeat for all combinations. Lists in brackets."),
    ] = None,
    command: Annotated[str, Option(help="What to do with each cell: run, attack or audit.")] = "run",
    metric: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Metric to tabulate, such as accuracy.final; may be repeated; the first is drawn."),
    ] = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    engine: Annotated[str, Option(help="Run on processes of this machine, or on a Ray cluster (ray).")] = "processes",
    jobs: Annotated[
        int | None, Option(help="Number of cells at a time [default: one per core; all of a Ray cluster].")
    ] = None,
    attacks: Annotated[
        str | None, Option(metavar="NAME,...", help=f"With --command attack: {choices(ATTACKS)} [default: all].")
    ] = None,
    trials: Annotated[int | None, Option(help="With --command audit: trials per adversary [default: 10000].")] = None,
    canaries: Annotated[
        int | None, Option(help="With --command audit: most canaries in a single run [default: 1000].")
    ] = None,
    fault: Annotated[str | None, Option(help="With --command audit: inject this fault.")] = None,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    data_dir: options.DataDir = None,
    ledger: options.StudyLedger = None,
    as_json: options.AsJson = False,
) -> None:
    """Run, attack or audit a scenario at every combination of values.

    Each cell is run with every seed and gives what the command alone would give. Finished cells are kept: repeat the
    same command to resume; more values or seeds add to it. If one cell fails, the others still run. A sweep is a
    simulation: it protects nobody's data.
    """
    # What it leaves to its data each cell has its own of.
    scenario = options.read_scenario(file, preset, options.on_air(air, assignments), seed, bounds=bounds)
    values, processes = Grid.parse(grid or ()), options.check_jobs(jobs)
    from airmixml.sweeps.grid_sweep import sweep_grid
    from airmixml.sweeps.sweep_files import NO_PARQUET, sweep_dict, write_sweep

    with progress_bars() as progress:
        swept = sweep_grid(
            scenario,
            values,
            seeds=seeds,
            command=command,
            metrics=metric or (),
            engine=engine,
            jobs=processes,
            out=out,
            force=force,
            device=device,
            data_dir=data_dir,
            attacks=None if attacks is None else attacks.split(","),
            audit=_audit_settings(command, trials, canaries, fault),
            ledger=ledger,
            progress=progress,
            announce=lambda line: print_error_line(f"airmix: {line}"),
        )
        files = write_sweep(swept)
    report = add_report(swept.out)
    if not any(path.suffix == ".parquet" for path in files):
        print_error_line(f"airmix: {NO_PARQUET}")
    if as_json:
        about = {"kept": swept.kept, "out": str(swept.out), "files": list(map(str, files)), "seconds": swept.seconds}
        print_json({**sweep_dict(swept), **about, **report})
    else:
        _print(swept, report, drawn=any(path.suffix == ".png" for path in files))
    if swept.failures:
        after = "the other cells are kept; the same command tries those again that broke or were lost"
        report_failures(_failures(swept), "more reasons, see sweep.csv", after)


def _audit_settings(command: str, trials: int | None, canaries: int | None, fault: str | None) -> AuditSettings | None:
    """Return what an audit is asked for; None where nothing is."""
    asked = {"trials": trials, "canaries": canaries, "fault": fault}
    given = {name: value for name, value in asked.items() if value is not None}
    if given and command != "audit":
        raise ScenarioError(f"--{next(iter(given))}: belongs to --command audit; leave it out")
    if not given:
        return None
    from airmixml.audit import AuditSettings, fault_named

    plain = AuditSettings()
    return AuditSettings(
        trials=plain.trials if trials is None else trials,
        canaries=plain.canaries if canaries is None else canaries,
        fault=fault_named(fault or ""),
    )


def _print(swept: Swept, report: dict[str, str], *, drawn: bool) -> None:
    from airmixml.sweeps.sweep_files import terminal_summary
    from airmixml.sweeps.sweep_picture import picture_note

    console.print(terminal_summary(swept))
    for note in swept.notes:
        print_line(note)
    if left_out := picture_note(swept):
        print_line(left_out)
    kept = f" ({plural(swept.kept, 'run')} already finished)" if swept.kept else ""
    print_report_place(swept.seconds, swept.out, "sweep", report, note=kept, picture=drawn)


def _failures(swept: Swept) -> list[str]:
    """Return a line for each reason: the first run that failed for it, and how many more."""
    lines = []
    for why, rows in swept.failures.items():
        first = ", ".join(f"{key}={value_text(value)}" for key, value in rows[0].point.items())
        more = f" and {plural(len(rows) - 1, 'more run')}" if len(rows) > 1 else ""
        lines.append(f"{first}, seed {rows[0].seed}{more}: {why}")
    return lines
