"""``airmix account`` and ``airmix plan``: what a system would promise and cost; nothing is sent."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from errno import EISDIR
from functools import partial
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Context, Option

from airmixml.cli import options
from airmixml.cli.options import choices
from airmixml.cli.terminal import finish_with_report, print_error_line, progress_bars, report_in, report_lines, show
from airmixml.files import check_writable, write_text, writing_to
from airmixml.messages import RunFolderError, ScenarioError
from airmixml.planning.known_inputs import data_dimensions, input_moments, table_columns
from airmixml.registries import ACCOUNTANTS
from airmixml.scenario import Scenario
from airmixml.scenario.rules import AUTO, Choice, Real, Rule, Whole
from airmixml.scenario.toml import folder_stem
from airmixml.storage.folders import check_free

if TYPE_CHECKING:
    from airmixml.planning.planned import Plan

_NUMBERS: Final = (
    *("workers", "scheduled", "slots", "noise_multiplier", "epsilon", "delta", "accountant", "adversary"),
    *("adjacency", "sampling", "max_participations", "colluders"),
)
# The account itself checks those that are not here.
_RULES: Final[dict[str, Rule]] = {
    "accountant": Choice(ACCOUNTANTS),
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
    adversary: Annotated[str, Option(help="Adversary of --epsilon: release or server.")] = "release",
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
            draw = partial(draw_account, account, *epsilon_curves(account, progress=progress), drawn)
            drawn = _where_written(drawn, draw, asked=picture is not None)
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


def picture_path(picture: Path | None, name: str) -> Path | None:
    """Return where the picture goes, before anything is computed.

    A place for a ``picture`` where none can be written is refused; where none was asked for, there is no picture.
    """
    path = Path("runs") / name if picture is None else picture
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ScenarioError(f"--picture {path}: must end in .png, .svg or .pdf")

    def check() -> None:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        check_writable(path, next(folder for folder in path.parents if folder.exists()))

    return _where_written(path, check, asked=picture is not None)


def _where_written(path: Path, write: Callable[[], object], *, asked: bool) -> Path | None:
    """Return the path of a picture when it is written, or None and a line on stderr where it cannot be.

    That is an error if the user ``asked`` for the picture; the result is worth more than one that nobody asked for.
    """
    try:
        with writing_to(path, option="--picture"):
            write()
    except RunFolderError as problem:
        if asked:
            raise
        print_error_line(f"airmix: the picture is left out: {problem}")
        return None
    return path


_OF_A_PLAN: Final = "rows", "input_dim", "label_dim", "input_mean", "input_deviation", "max_air_seconds", "accuracy"
_TABLE: Final = "private-table"
_OWN: Final = ("workers.dataset=TABLE.csv", "workers.label_column=CLASS")  # for the user to replace


def plan_command(
    context: Context,
    chosen: options.Chosen,
    input_dim: options.InputDim = None,
    label_dim: options.LabelDim = None,
    input_mean: Annotated[
        float | None,
        Option(help="Mean of an input scaled to [0, 1] [default: that of the data set, or 0.5; 0.37 for a table]."),
    ] = None,
    input_deviation: Annotated[
        float | None,
        Option(help="Standard deviation of a scaled input [default: that of the data set, or 0.29; 0.12 for a table]."),
    ] = None,
    rows: Annotated[
        int | None, Option(help="Rows of your own table, each on a worker that sends [default: as the scenario says].")
    ] = None,
    max_air_seconds: Annotated[
        float | None,
        Option(help="Longest time on the air to recommend for ridge and lda [default: 3600, or the scenario's]."),
    ] = None,
    accuracy: Annotated[
        float | None,
        Option(help="Also say how many workers, what epsilon or how many rounds this accuracy takes, such as 0.9."),
    ] = None,
    write: Annotated[
        Path | None, Option(help="Write the recommended scenario to this TOML file, with all that 0 leaves open.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="Folder to create with the plan, its tables, its picture and its report.")
    ] = None,
    force: options.Force = False,
    picture: options.Picture = None,
    no_picture: options.NoPicture = False,
    as_json: options.AsJson = False,
) -> None:
    """Size a system before it is built.

    Prints feasibility, power, energy, SNR, and better designs at the same privacy. The scenario's privacy target sets
    the power. Values of your data are not used: of your own file rows, columns and classes are counted, or given by
    --rows, --input-dim and --label-dim, and then no file is read. With these three the default preset is private-table.
    A public table that the scenario names is read, to recommend nothing that does worse on it.
    """
    if chosen.file is None and chosen.preset is None:
        chosen = _of_own_table(chosen, None not in (rows, input_dim, label_dim))
    may_read, counted = input_dim is None, rows is not None or input_dim is not None
    given = chosen.read() if rows is None else _with_rows(chosen.read(), rows)
    scenario = chosen.settled(may_read=may_read) if rows is None else given.settled(rows, input_dim or 0)
    dimensions = data_dimensions(scenario, input_dim, label_dim)
    from airmixml.workers.loading import check_signal_memory

    check_signal_memory(scenario.workers, *dimensions)
    moments = input_moments(scenario, input_mean, input_deviation, named=input_dim is None)
    _check_limits(max_air_seconds, accuracy)
    _check_out(out, picture, write, force=force)
    name = scenario.name + (f"-{rows}x{input_dim}" if rows and input_dim else "")
    drawn = (
        None if no_picture or out is not None else picture_path(picture, f"{folder_stem(name, scenario.air)}-plan.png")
    )
    started, held_dim = time.perf_counter(), table_columns(scenario, input_dim)
    from airmixml.planning.plan import make_plan

    with progress_bars() as progress:
        look: dict[str, Any] = {"max_air_seconds": max_air_seconds, "named": not counted, "progress": progress}
        plan = make_plan(scenario, *dimensions, moments, held_dim=held_dim, **look)
        plan = _as_a_run_settles(replace(plan, name=name), given, scenario, held_dim or dimensions[0])
        if accuracy is not None:
            from airmixml.planning.planned import with_needed

            plan = with_needed(plan, accuracy, scenario, progress)
    seconds = time.perf_counter() - started
    overrides = plan.overrides
    if plan.recommended is None and scenario.mixing.power != "dp":
        overrides += ("mixing.power=dp",)
    plain, places = {**plan.to_dict(), "given": _words(context, chosen), "seconds": seconds}, dict[str, str]()
    words = ["airmix", "run", *(_on_own_table(chosen, rows) if counted else chosen).words()]
    if plan.feasible:
        plain["run_with"] = shlex.join(with_set(words, overrides))
    if write is not None and plan.feasible:
        from airmixml.radio.masking import with_masks_settled

        recommended = (_with_own_table(scenario) if counted else scenario).with_overrides(*overrides)
        with writing_to(write, option="--write"):
            write_text(write, with_masks_settled(recommended).to_toml(comments=True))
        places["scenario"] = str(write)
    from airmixml.planning.plan_page import draw_plan, plan_page, write_plan

    if drawn is not None and plan.drawable:
        drawn = _where_written(drawn, partial(draw_plan, plan, scenario, drawn), asked=picture is not None)
        if drawn is not None:
            plain["picture"] = places["picture"] = str(drawn)
    if out is not None:
        with writing_to(out):
            shown = _with_own_table(scenario) if counted else scenario
            look = {"picture": not no_picture, "finish": finish_with_report, "shown": shown}
            plain["run_dir"] = str(write_plan(plan, plain, scenario, out, force=force, **look))
        plain, places = {**plain, **report_in(out)}, {**places, **report_in(out)}
    hints = ["run it with:", plain["run_with"], *_about_the_file(words, scenario, rows)] if plan.feasible else []
    show(as_json, plain, plan_page(plain, scenario), *hints, *report_lines(places))


def _words(context: Context, chosen: options.Chosen) -> list[str]:
    """Return the options as a report has them: a preset as it was chosen, but of a file what its folder holds."""
    of_preset = chosen.words() if chosen.file is None and chosen.bounds is None else []
    asked = {_flag(name): context.params[name] for name in _OF_A_PLAN}
    return of_preset + [str(word) for each in asked.items() if each[1] is not None for word in each]


def with_set(command: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the command with these keys set, each once: what it set of them before is left out."""
    keys, words = {each.partition("=")[0] for each in overrides}, list(command)
    for at in range(len(words) - 2, -1, -1):
        if words[at] == "--set" and words[at + 1].partition("=")[0].strip() in keys:
            del words[at : at + 2]
    return words + [word for each in overrides for word in ("--set", each)]


def _about_the_file(words: list[str], scenario: Scenario, rows: int | None) -> Iterator[str]:
    """Yield what the command needs of a user's own table, and how many rows send where so many were planned."""
    if "BOUNDS.toml" in words:
        yield (
            "TABLE.csv is your file and CLASS its column to learn; BOUNDS.toml has a line COLUMN = [lower, upper] for "
            "each input"
        )
    if rows is not None and not scenario.workers.train_samples and not scenario.workers.several_rows:
        of_file = -(-3 * rows // 2)  # the fewest of which two thirds are as many
        yield f"{rows:,} rows send; a run keeps a third of its file for testing, so the file needs {of_file:,} rows"


def _check_limits(max_air_seconds: float | None, accuracy: float | None) -> None:
    if max_air_seconds is not None:
        Real(low=0, open_low=True).check("--max-air-seconds", max_air_seconds)
    if accuracy is not None and not 0.0 < accuracy < 1.0:
        hint = f"; for {accuracy:g} % give {accuracy / 100:g}" if 1.0 < accuracy < 100.0 else ""
        raise ScenarioError(f"--accuracy = {accuracy:g}: must be above 0 and below 1, such as 0.9{hint}")


def _check_out(out: Path | None, picture: Path | None, write: Path | None, *, force: bool) -> None:
    options.check_force(force, out)
    if out is not None and picture is not None:
        raise ScenarioError("--picture and --out: the folder --out has a picture of its own; keep one of them")
    if out is not None:
        check_free(out, force=force)
    if write is not None:
        if write.exists():
            raise ScenarioError(f"--write {write}: is there already; choose another name, or remove it")
        with writing_to(write, option="--write"):  # a search may take minutes
            check_writable(write, write.parent)


def _as_a_run_settles(plan: Plan, given: Scenario, scenario: Scenario, inputs: int) -> Plan:
    """Return the plan that also sets each "auto" which a run, given what is recommended, would settle otherwise."""
    if plan.recommended is None or not plan.recommended.overrides:
        return plan
    overrides = plan.recommended.overrides
    run = given.with_overrides(*overrides).settled(scenario.workers.count, inputs).to_dict()
    before, planned = given.to_dict(), scenario.with_overrides(*overrides).to_dict()
    overrides += tuple(
        f"{table}.{name}={planned[table][name]}"
        for table in ("workers", "learner")
        for name, value in before[table].items()
        if value == AUTO and run[table][name] != planned[table][name]
    )
    return replace(plan, recommended=replace(plan.recommended, overrides=overrides))


def _of_own_table(chosen: options.Chosen, counted: bool) -> options.Chosen:
    """Return the options with the preset for a table that was counted."""
    if not counted:
        raise ScenarioError(
            "give a scenario file, --preset NAME (`airmix presets` lists them), or what your own table has: --rows, "
            "--input-dim and --label-dim"
        )
    return replace(chosen, preset=_TABLE)


def _with_own_table(scenario: Scenario) -> Scenario:
    """Return the scenario with the user's own table in place of a data set that is known by name."""
    from airmixml.data import known_dataset

    return scenario if known_dataset(scenario.workers.dataset) is None else scenario.with_overrides(*_OWN)


def _on_own_table(chosen: options.Chosen, rows: int | None) -> options.Chosen:
    """Return the options that run the planned scenario on the user's own table."""
    scenario = chosen.read()
    if _with_own_table(scenario) == scenario:
        return chosen
    counted = [f"workers.count={rows}"] if rows is not None and scenario.workers.count else []
    if counted and scenario.radio.scheduled == scenario.workers.count:
        counted.append("radio.scheduled=0")
    assignments = [*(chosen.assignments or ()), *_OWN, *counted]
    return replace(chosen, assignments=assignments, bounds=chosen.bounds or Path("BOUNDS.toml"))


def _with_rows(scenario: Scenario, rows: int) -> Scenario:
    """Return the scenario for so many rows, one on each worker; where all workers send, all of these do."""
    Whole(low=2, high=10**9).check("--rows", rows)
    everybody = scenario.radio.scheduled == scenario.workers.count
    radio = replace(scenario.radio, scheduled=0) if everybody else scenario.radio
    return replace(scenario, workers=replace(scenario.workers, count=rows), radio=radio)
