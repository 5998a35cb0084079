"""``airmix reproduce``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.finished import show_study
from airmixml.cli.terminal import print_line, progress_bars, report_failures
from airmixml.engines import Engine
from airmixml.errors import ScenarioError
from airmixml.wording import plural


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
    Engine.of(engine)
    processes = options.check_jobs(jobs)
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
        reproduction = reproduce(request, folder, jobs=processes, engine=engine, data_dir=data_dir, progress=progress)
    kept = f"{reproduction.kept_batches} of {plural(reproduction.batches, 'batch', 'es')}"
    plain = reproduction.to_dict()
    show_study(
        as_json,
        {**plain, "failures": reproduction.failures},
        reproduction_page(plain),
        name="report",
        out=folder,
        write=lambda: reproduction.files,
        beside=reproduction.names,
        seconds=reproduction.seconds,
        kept=kept if reproduction.kept_batches else "",
    )
    if not as_json:
        print_line(f"pictures: {', '.join(str(path) for path in reproduction.files if path.suffix == '.png')}")
    if reproduction.failures:
        after = "the other cells are kept; the same command tries the failed ones again"
        report_failures(reproduction.failures, "more, see report.json", after)
