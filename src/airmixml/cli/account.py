"""``airmix account``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from errno import EISDIR
from os import strerror
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Final

from typer import Context, Option

from airmixml.cli import options
from airmixml.cli.options import choices
from airmixml.cli.terminal import progress_bars, report_lines, show
from airmixml.errors import ScenarioError
from airmixml.files import writing_to
from airmixml.planning.known_inputs import data_dimensions
from airmixml.registries import ACCOUNTANTS, ADVERSARIES
from airmixml.scenario.rules import Real, Rule, Whole
from airmixml.scenario.toml import folder_stem

_NUMBERS: Final = (
    *("workers", "scheduled", "slots", "noise_multiplier", "epsilon", "delta", "accountant", "adversary"),
    *("adjacency", "sampling", "max_participations", "colluders"),
)
# The account itself checks those that are not here.
_RULES: Final[dict[str, Rule]] = {
    "workers": Whole(low=1, high=10**9),
    "scheduled": Whole(low=1, high=10**9),
    "slots": Whole(low=1, high=10**12),
    "noise_multiplier": Real(low=1e-9, high=1e9),
    "epsilon": Real(low=0, open_low=True, high=1e15),
    "delta": Real(low=1e-300, high=1, open_high=True),
    "max_participations": Whole(low=0, high=10**12),
    "colluders": Whole(low=0, high=10**9),
}
_OF_A_SCENARIO: Final = ("file", "preset", "air", "assignments", "bounds", "input_dim", "label_dim", "ledger")


def account_command(
    context: Context,
    chosen: options.Chosen,
    workers: Annotated[int | None, Option(help="Number of workers N.")] = None,
    scheduled: Annotated[int | None, Option(help="Number of workers per slot.")] = None,
    slots: Annotated[int | None, Option(help="Number of slots T.")] = None,
    noise_multiplier: Annotated[
        float | None, Option(help="Noise standard deviation divided by the sensitivity of one worker (a norm).")
    ] = None,
    epsilon: Annotated[float | None, Option(help="Set the noise by this target instead.")] = None,
    delta: Annotated[float, Option(help="Delta of the target.")] = 1e-5,
    accountant: Annotated[str, Option(help=f"Accountant of --epsilon: {choices(ACCOUNTANTS)}.")] = "paper-loose",
    adversary: Annotated[str, Option(help=f"Adversary of --epsilon: {choices(ADVERSARIES)}.")] = "release",
    adjacency: Annotated[str, Option(help="Neighbours: replace-one or remove-one.")] = "replace-one",
    sampling: Annotated[str, Option(help="Schedule: without-replacement or poisson.")] = "without-replacement",
    max_participations: Annotated[int, Option(help="Maximum number of slots per worker (0 for no limit).")] = 0,
    colluders: Annotated[int, Option(help="Number of workers who help the adversary.")] = 0,
    input_dim: options.InputDim = None,
    label_dim: options.LabelDim = None,
    ledger: Annotated[bool, Option("--ledger", help="Draw the schedule and account for every single worker.")] = False,
    brief: Annotated[bool, Option("--brief", help="Print the table without the assumptions.")] = False,
    picture: options.Picture = None,
    no_picture: options.NoPicture = False,
    as_json: options.AsJson = False,
) -> None:
    """Print the epsilon of every accountant against every adversary.

    Nothing is sent or trained. Give a scenario or plain numbers: --workers, --scheduled, --slots and --noise-multiplier
    or --epsilon. The options from --workers to --colluders are for plain numbers.
    """
    started = time.perf_counter()
    numbers: dict[str, Any] = {name: context.params[name] for name in _NUMBERS}
    given, of_a_scenario = _given(context, numbers), _given(context, _OF_A_SCENARIO)
    scenario = None
    if given and of_a_scenario:
        raise ScenarioError(
            f"{_flag(given[0])} and {_flag(of_a_scenario[0])}: plain numbers and a scenario exclude each other; with a "
            "scenario use --set, such as --set privacy.delta=1e-5"
        )
    if given:
        _check_numbers(numbers)
    elif chosen.file is None and chosen.preset is None:
        raise ScenarioError(
            "give a scenario file, --preset NAME (`airmix presets` lists them), or plain numbers: --workers, "
            "--scheduled, --slots and --noise-multiplier or --epsilon"
        )
    else:
        scenario = chosen.settled(may_read=input_dim is None)
    name = "numbers" if scenario is None else folder_stem(scenario.name, scenario.air)
    drawn = None if no_picture else picture_path(picture, f"{name}-account.png")
    with progress_bars() as progress:
        from airmixml.planning.account import account_numbers, account_scenario
        from airmixml.planning.account_page import account_page, draw_account, epsilon_curves

        if scenario is None:
            account = account_numbers(**numbers)
        else:
            dimensions = data_dimensions(scenario, input_dim, label_dim)
            account = account_scenario(scenario, *dimensions, ledger=ledger, progress=progress)
        seconds = time.perf_counter() - started
        if drawn is not None:
            with writing_to(drawn, option="--picture"):
                draw_account(account, *epsilon_curves(account, progress=progress), drawn)
    place = {"picture": str(drawn)} if drawn is not None else {}
    plain = {**account.to_dict(), "seconds": seconds, **place}
    show(as_json, plain, account_page(account, brief=brief), *report_lines(place))


def _given(context: Context, names: Iterable[str]) -> list[str]:
    """Return which of these parameters are on the command line, even with the value that is the default."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def _check_numbers(numbers: dict[str, Any]) -> None:
    for name, rule in _RULES.items():
        if numbers[name] is not None:
            rule.check(_flag(name), numbers[name])
        elif name in ("workers", "scheduled", "slots"):
            raise ScenarioError(f"--{name}: missing; plain numbers need --workers, --scheduled and --slots")


def _flag(name: str) -> str:
    """Return what the user knows a parameter of the command as."""
    return {"file": "a scenario file", "assignments": "--set"}.get(name, f"--{name.replace('_', '-')}")


def picture_path(picture: Path | None, name: str) -> Path:
    """Return where the picture goes; refuse a place where none can be written, before anything is computed."""
    path = Path("runs") / name if picture is None else picture
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ScenarioError(f"--picture {path}: must end in .png, .svg or .pdf")
    with writing_to(path, option="--picture"):
        if path.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        TemporaryFile(dir=next(folder for folder in path.parents if folder.exists())).close()
    return path
