"""``airmix tolerances``."""

from typing import Annotated, Any

from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import show_study
from airmixml.cli.terminal import progress_bars
from airmixml.tolerances.tolerance import chosen_ladders
from airmixml.wording import plural

_SEEDS, _QUICK_SEEDS = 3, 1


def tolerances_command(
    chosen: options.Chosen,
    drop: Annotated[float, Option(help="Points by which accuracy may fall.")] = 1.0,
    only: Annotated[
        str | None, Option(metavar="KEY,...", help="Keys of the table [air], such as absent,adc_bits [default: all].")
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Try every second size, with one seed unless --seeds says more.")
    ] = False,
    seed: options.Seed = None,
    seeds: Annotated[
        int | None, Option(help="Number of runs of each size, with consecutive seeds [default: 3].")
    ] = None,
    engine: options.Engine = "local",
    jobs: Annotated[
        int | None, Option(help="Number of runs at a time [default: one per core; all of a Ray cluster].")
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Find how bad each impairment of the air may get, alone, before accuracy falls or a privacy target is missed.

    One table beside what each class of hardware has, and one picture. --air NAME gives the air on which one impairment
    at a time is changed. Finished runs are kept: repeat the same command to resume; more keys or seeds add to it.
    """
    chosen_ladders(only)
    processes = options.check_jobs(jobs)
    options.check_force(force, out)
    scenario = chosen.settled(seed, data_dir=data_dir)
    from airmixml.tolerances.tolerance_page import tolerances_page, write_tolerances
    from airmixml.tolerances.tolerance_search import find_tolerances

    with progress_bars() as progress:
        where: dict[str, Any] = {"out": out, "force": force, "device": device, "data_dir": data_dir}
        found = find_tolerances(
            scenario,
            drop=drop,
            seeds=seeds if seeds is not None else _QUICK_SEEDS if quick else _SEEDS,
            only=only,
            quick=quick,
            engine=engine,
            jobs=processes,
            progress=progress,
            **where,
        )
    plain = found.to_dict()
    show_study(
        as_json,
        plain,
        tolerances_page(plain, scenario),
        name="tolerances",
        out=found.out,
        write=lambda: write_tolerances(plain, scenario, found.out),
        seconds=found.seconds,
        kept=f"{plural(plain['kept'], 'run')} of {plain['runs']:,}" if plain["kept"] else "",
    )
