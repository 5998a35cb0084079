"""``airmix plan``."""

from __future__ import annotations

import math
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from airmixml.cli import options
from airmixml.cli.account import data_dimensions, picture_path
from airmixml.cli.options import choose_scenario
from airmixml.cli.recommendation import print_recommendation
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import ScenarioError
from airmixml.output.numbers import joules, plural
from airmixml.output.tables import terminal_table
from airmixml.scenario import Scenario
from airmixml.storage.files import writing_to
from airmixml.workers import encoder_of

if TYPE_CHECKING:
    from rich.table import Table

    from airmixml.planning.alternatives import InputMoments, Option
    from airmixml.planning.plan import Plan


def plan_command(
    file: options.File = None,
    preset: options.Preset = None,
    assignments: options.Assignments = None,
    input_dim: options.InputDim = None,
    label_dim: options.LabelDim = None,
    input_mean: Annotated[
        float | None, typer.Option(help="Mean of an input scaled to [0, 1] [default: that of the data set, or 0.5].")
    ] = None,
    input_deviation: Annotated[
        float | None,
        typer.Option(help="Standard deviation of a scaled input [default: that of the data set, or 0.29]."),
    ] = None,
    max_air_seconds: Annotated[
        float | None,
        typer.Option(help="Longest time on the air to recommend for ridge and lda [default: 3600, or the scenario's]."),
    ] = None,
    picture: options.Picture = None,
    no_picture: options.NoPicture = False,
    as_json: options.AsJson = False,
) -> None:
    """Size a system before it is built.

    Prints feasibility, power, energy, SNR, and better designs at the same privacy. No data is read. The scenario's
    privacy target sets the power.
    """
    scenario = choose_scenario(file, preset, assignments)
    dimensions = data_dimensions(scenario, input_dim, label_dim)
    moments = _moments(scenario, input_mean, input_deviation)
    if max_air_seconds is not None and not 0.0 < max_air_seconds < math.inf:
        raise ScenarioError(f"--max-air-seconds = {max_air_seconds:g}: must be above 0 and finite")
    drawn = None if no_picture else picture_path(picture, f"{scenario.name}-plan.png")
    started = time.perf_counter()
    from airmixml.planning.plan import make_plan

    with progress_bars() as progress:
        plan = make_plan(scenario, *dimensions, moments, max_air_seconds=max_air_seconds, progress=progress)
    seconds = time.perf_counter() - started
    if (plan.options or plan.recommended) and drawn is not None:
        from airmixml.planning.pictures import draw_plan

        with writing_to(drawn, option="--picture"):
            draw_plan(plan, scenario, drawn)
    else:
        drawn = None
    if as_json:
        print_json({**plan.to_dict(), "seconds": seconds, **({"picture": str(drawn)} if drawn else {})})
        return
    _print(plan, scenario, dimensions)
    if plan.feasible and scenario.learner.closed_form:
        print_recommendation(plan.recommended, scenario, _command(file, preset, assignments or []))
    if drawn is not None:
        console.print(f"picture: {escape(str(drawn))}", soft_wrap=True)


def _command(file: Path | None, preset: str | None, assignments: list[str]) -> str:
    """Return the ``airmix run`` of what was planned, before anything is changed."""
    words = ["airmix", "run", *([str(file)] if file is not None else ["--preset", preset or ""])]
    for assignment in assignments:
        words += ["--set", assignment]
    return shlex.join(words)


def _moments(scenario: Scenario, mean: float | None, deviation: float | None) -> InputMoments:
    from airmixml.data import known_dataset
    from airmixml.planning.alternatives import InputMoments

    for name, value in (("--input-mean", mean), ("--input-deviation", deviation)):
        if value is not None and not 0.0 < value <= 1.0:
            raise ScenarioError(f"{name} = {value:g}: must be above 0 and at most 1, for inputs scaled to [0, 1]")
    known = known_dataset(scenario.workers.dataset)
    assumed = (0.5, 0.29) if known is None else (known.scaled_mean, known.scaled_deviation)
    return InputMoments(
        mean=assumed[0] if mean is None else mean, deviation=assumed[1] if deviation is None else deviation
    )


def _print(plan: Plan, scenario: Scenario, dimensions: tuple[int, int]) -> None:
    colour = "green" if plan.feasible else "red"
    console.print(f"[bold]{escape(plan.name)}[/bold]: [{colour}]{'feasible' if plan.feasible else 'not feasible'}[/]")
    console.print(escape(plan.verdict))
    if scenario.mixing.power != "dp":
        console.print(f'planned with mixing.power = "dp"; the scenario has "{scenario.mixing.power}"')
    encoder = encoder_of(scenario.workers)
    if encoder.bounds_norm and scenario.privacy.sensitivity != "encoder":
        console.print("clipping does not allow more power here: set privacy.sensitivity = encoder to count it")
    if plan.power_dbm is None:
        return
    radio, power = scenario.radio, plan.power_dbm
    rows = [
        ("data", f"{dimensions[0]:,} inputs, {dimensions[1]:,} classes"),
        ("workers", f"{scenario.workers.count:,}, {radio.scheduled:,} at a time in {plural(radio.slots, 'slot')}"),
        ("noise multiplier", f"{plan.noise_multiplier:.4g} in every slot"),
        ("power scale beta", f"{plan.power_scale_watts:.3g} W (median slot)"),
        ("power", f"{power.median:.1f} dBm median, {power.largest:.1f} largest, limit {power.limit:g}"),
        ("energy", f"{joules(plan.energy_joules)} in total, {joules(plan.worker_energy_joules)} per worker"),
        ("SNR", f"{plan.snr_inputs_db:.1f} dB inputs, {plan.snr_labels_db:.1f} dB labels (median slot)"),
        ("contrast", f"{plan.contrast_db:.1f} dB: the same for what differs between samples"),
    ]
    if not encoder.keeps_inputs or scenario.workers.sends == "moments":
        rows = [row for row in rows if row[0] not in ("SNR", "contrast")]  # they are about mixed samples in [0, 1]
    console.print(terminal_table(("", ""), rows, words=2))
    if plan.best:
        console.print(_options_table(plan.best))


def _options_table(best: dict[str, Option]) -> Table:
    rows = [
        (
            goal,
            f"{option.alpha:g}",
            f"{option.scheduled:,}",
            f"{option.slots:,}",
            f"{option.snr_inputs_db:.1f} dB",
            f"{option.contrast_db:.1f} dB",
            joules(option.energy_joules),
        )
        for goal, option in best.items()
    ]
    columns = ("goal", "alpha", "|N_t|", "slots", "SNR", "contrast", "energy")
    return terminal_table(columns, rows, title="At the same privacy")
