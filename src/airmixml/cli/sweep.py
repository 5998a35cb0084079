"""``airmix sweep`` and ``airmix reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.options import choices
from airmixml.cli.terminal import print_line, progress_bars, report_failures, show_study
from airmixml.engines import Engine
from airmixml.errors import ScenarioError
from airmixml.registries import ATTACKS
from airmixml.scenario.grid import Grid
from airmixml.scenario.toml import value_text
from airmixml.wording import plural

if TYPE_CHECKING:
    from airmixml.sweeps.sweep_page import Swept


def sweep_command(
    chosen: options.Chosen,
    *,
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
    attacks: Annotated[
        str | None, Option(metavar="NAME,...", help=f"With --command attack: {choices(ATTACKS)} [default: all].")
    ] = None,
    trials: Annotated[int | None, Option(help="With --command audit: trials per adversary [default: 10000].")] = None,
    where: options.Where,
    as_json: options.AsJson = False,
) -> None:
    """Run, attack or audit a scenario at every combination of values.

    Each cell is run with every seed and gives what the command alone would give. Finished cells are kept: repeat the
    same command to resume; more values or seeds add to it. If one cell fails, the others still run. A sweep is a
    simulation: it protects nobody's data.
    """
    scenario = chosen.read(seed)  # what it leaves to its data each cell has its own of
    values, settings, audit = Grid.parse(grid or ()), where.settings(), None
    if trials is not None:
        if command != "audit":
            raise ScenarioError("--trials: belongs to --command audit; leave it out")
        from airmixml.audit import AuditSettings

        audit = AuditSettings(trials=trials)
    from airmixml.sweeps.grid_sweep import sweep_grid
    from airmixml.sweeps.sweep_page import sweep_page, write_sweep

    with progress_bars() as progress:
        swept = sweep_grid(
            scenario,
            values,
            seeds=seeds,
            command=command,
            metrics=metric or (),
            attacks=None if attacks is None else attacks.split(","),
            audit=audit,
            progress=progress,
            **settings,
        )
    plain, kept = swept.to_dict(), plural(swept.kept, "run") if swept.kept else ""
    page, files = sweep_page(plain, scenario), write_sweep(swept)
    show_study(as_json, {**plain, "kept": swept.kept}, page, files, seconds=swept.seconds, kept=kept)
    if swept.failures:
        after = "the other cells are kept; the same command tries those again that broke or were lost"
        report_failures(_failures(swept), "more reasons, see sweep.csv", after)


def _failures(swept: Swept) -> list[str]:
    """Return a line for each reason: the first run that failed for it, and how many more."""
    lines = []
    for why, rows in swept.failures.items():
        first = ", ".join(f"{key}={value_text(value)}" for key, value in rows[0].point.items())
        more = f" and {plural(len(rows) - 1, 'more run')}" if len(rows) > 1 else ""
        lines.append(f"{first}, seed {rows[0].seed}{more}: {why}")
    return lines


def reproduce_command(
    targets: Annotated[
        list[str] | None,
        Argument(help="table1, table2, fig2, fig3, fig4 or all [default with --quick: all].", show_default=False),
    ] = None,
    dataset: Annotated[str | None, Option(help="Reproduce only one half of the tables: iris or mnist.")] = None,
    seeds: Annotated[
        int | None, Option(help="Number of runs per cell, with seeds 0, 1, ... [default: 3; 4 with --quick].")
    ] = None,
    device: options.Device = "cpu",
    jobs: Annotated[
        int | None, Option(help="Number of processes [default: one per core; 1 with cuda; all of a Ray cluster].")
    ] = None,
    engine: options.Engine = "local",
    out: options.Out = None,
    quick: Annotated[
        bool, Option("--quick", help="Decide what two cores can in 30 seconds: much of Iris; the rest is named.")
    ] = False,
    as_printed: Annotated[
        bool, Option("--as-printed", help="Leave out the other readings of rows that look misprinted.")
    ] = False,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures.

    Each value is compared with the printed one. Finished cells are kept: repeat the same command to resume.
    """
    if not targets and not quick:
        raise ScenarioError("give what to reproduce: table1, table2, fig2, fig3, fig4 or all")
    Engine.of(engine, jobs)
    from airmixml.reproduction import Request, reproduce
    from airmixml.reproduction.paper_cells import QUICK_SEEDS
    from airmixml.reproduction.reproduction_page import reproduction_page

    seeds = (QUICK_SEEDS if quick else 3) if seeds is None else seeds
    request = Request(
        targets=tuple(targets or ("all",)),
        dataset=dataset,
        seeds=seeds,
        quick=quick,
        as_printed=as_printed,
        device=device,
    )
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    with progress_bars() as progress:
        reproduction = reproduce(request, folder, jobs=jobs or 0, engine=engine, data_dir=data_dir, progress=progress)
    kept = f"{reproduction.kept_batches} of {plural(reproduction.batches, 'batch', 'es')}"
    how: dict[str, Any] = {"seconds": reproduction.seconds, "kept": kept if reproduction.kept_batches else ""}
    plain = {**reproduction.to_dict(), "failures": reproduction.failures}
    show_study(as_json, plain, reproduction_page(plain), reproduction.files, **how)
    if not as_json:
        print_line(f"pictures: {', '.join(str(path) for path in reproduction.files if path.suffix == '.png')}")
    if reproduction.failures:
        after = "the other cells are kept; the same command tries the failed ones again"
        report_failures(reproduction.failures, "more, see report.json", after)
