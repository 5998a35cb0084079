"""``airmix plan``."""

from __future__ import annotations

import math
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from rich.markup import escape
from typer import Option

from airmixml.cli import options
from airmixml.cli.account import picture_path
from airmixml.cli.terminal import console, inputs_in_words, print_json, print_line, progress_bars
from airmixml.errors import ScenarioError
from airmixml.output.numbers import duration, joules, outputs_text, plural
from airmixml.output.tables import terminal_table
from airmixml.planning.known_inputs import data_dimensions, input_moments, table_columns
from airmixml.scenario import Scenario
from airmixml.scenario.rules import Whole
from airmixml.storage.files import writing_to
from airmixml.workers import Signal, encoder_of

if TYPE_CHECKING:
    from airmixml.planning.frames import FramePlan
    from airmixml.planning.mask_plan import MaskPlan
    from airmixml.planning.plan import Plan
    from airmixml.planning.recommend import LearningOption, Recommendation
    from airmixml.planning.rehearsed_designs import Rehearsal, RehearsedDesign

# Above this, ten classes of digits were learnt with errors of 70 % and more (benchmarks/check_plan.py).
_CHANCE_DB: Final = -4.0


def plan_command(
    file: options.File = None,
    preset: options.Preset = None,
    air: options.AirName = None,
    assignments: options.Assignments = None,
    bounds: options.Bounds = None,
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
    write: Annotated[
        Path | None, Option(help="Write the recommended scenario to this TOML file, with all that 0 leaves open.")
    ] = None,
    picture: options.Picture = None,
    no_picture: options.NoPicture = False,
    as_json: options.AsJson = False,
) -> None:
    """Size a system before it is built.

    Prints feasibility, power, energy, SNR, and better designs at the same privacy. No data is read. The scenario's
    privacy target sets the power.
    """
    assignments = options.on_air(air, assignments)
    if rows is None:
        scenario = options.choose_scenario(file, preset, assignments, bounds=bounds, settled=input_dim is None)
    else:
        scenario = _with_rows(options.read_scenario(file, preset, assignments, bounds=bounds), rows, input_dim or 0)
    dimensions = data_dimensions(scenario, input_dim, label_dim)
    from airmixml.workers.memory import check_signal_memory

    check_signal_memory(scenario.workers, *dimensions)
    moments = input_moments(scenario, input_mean, input_deviation, named=input_dim is None)
    if max_air_seconds is not None and not 0.0 < max_air_seconds < math.inf:
        raise ScenarioError(f"--max-air-seconds = {max_air_seconds:g}: must be above 0 and finite")
    drawn = None if no_picture else picture_path(picture, f"{scenario.name}-plan.png")
    if write is not None and write.exists():
        raise ScenarioError(f"--write {write}: is there already; choose another name, or remove it")
    started = time.perf_counter()
    from airmixml.planning.plan import make_plan

    with progress_bars() as progress:
        plan = make_plan(
            scenario,
            *dimensions,
            moments,
            held_dim=table_columns(scenario, input_dim),
            max_air_seconds=max_air_seconds,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    if not (plan.options or plan.recommended):
        drawn = None
    if drawn is not None:
        from airmixml.planning.pictures import draw_plan

        with writing_to(drawn, option="--picture"):
            draw_plan(plan, scenario, drawn)
    if write is not None and plan.feasible:
        from airmixml.radio.masking import with_masks_settled
        from airmixml.storage.files import write_text

        overrides = (*(plan.recommended.overrides if plan.recommended else ()), *_mask_overrides(plan))
        with writing_to(write, option="--write"):
            write_text(write, with_masks_settled(scenario.with_overrides(*overrides)).to_toml(comments=True))
    if as_json:
        print_json({**plan.to_dict(), "seconds": seconds, **({"picture": str(drawn)} if drawn else {})})
        return
    _print(plan, scenario, dimensions)
    command = _run_of(file, preset, assignments, bounds)
    if plan.masks is not None:
        _print_masks(plan.masks, command)
        command += [word for each in plan.masks.overrides for word in ("--set", each)]
    if plan.feasible and scenario.learner.closed_form:
        _print_recommendation(plan.recommended, scenario, command)
    if write is not None and plan.feasible:
        print_line(f"scenario: {write}")
    if drawn is not None:
        print_line(f"picture: {drawn}")


def _run_of(file: Path | None, preset: str | None, assignments: list[str], bounds: Path | None) -> list[str]:
    """Return the ``airmix run`` of what was planned, before anything is changed."""
    chosen = [str(file)] if file is not None else ["--preset", preset or ""]
    declared = [] if bounds is None else ["--bounds", str(bounds)]
    return ["airmix", "run", *chosen, *declared, *(word for each in assignments for word in ("--set", each))]


def _mask_overrides(plan: Plan) -> tuple[str, ...]:
    return () if plan.masks is None else plan.masks.overrides


def _print_masks(masks: MaskPlan, command: list[str]) -> None:
    """Print what workers add to hide themselves, what is left of it in the sum, and what assumptions cost."""
    noise, total = masks.noise, masks.noise.total_watts
    parts = {
        "workers' own": noise.own_watts,
        "gain errors": noise.gains_watts,
        "absent workers": noise.absent_watts,
        "receiver": noise.receiver_watts,
    }
    rows = [("workers' noise", f"{masks.above_thermal_db:.1f} dB above the receiver's in the sum")]
    if masks.degree:
        told = f"{masks.degree:,} per worker, {masks.neighbours:,} or more of them shared with honest ones"
        rows.append(("masks", f"{told}; {masks.mask_share:.3g} of the privacy loss"))
    rows += [
        ("power", f"nearest worker {masks.nearest_dbm:.1f} dBm, farthest {masks.farthest_dbm:.1f} dBm"),
        ("gains", f"err by {masks.gain_error:.2%}; {masks.absent:.1%} of the workers do not send"),
        ("noise in the sum", ", ".join(f"{name} {part / total:.1%}" for name, part in parts.items() if part)),
        ("as if", f"epsilon were {masks.epsilon_as_if:.3g} against the server, by the receiver's noise alone"),
    ]
    if masks.accuracy is not None:
        rows.append(("accuracy", f"about {masks.accuracy:.1f} %: measured with this design and as much noise"))
    costs = [
        (each.name, f"{each.noise_db:+.1f} dB noise" if math.isfinite(each.noise_db) else "impossible")
        for each in masks.costs
    ]
    rows += [
        (name, f"{cost} ({override})")
        for (name, cost), override in zip(costs, (each.override for each in masks.costs), strict=True)
    ]
    console.print(terminal_table(("", ""), rows, title="Workers hide themselves", words=2))
    if masks.overrides:
        console.print(f"{masks.gain_db:.1f} dB less noise in the sum with:")
        print_line(shlex.join([*command, *(word for each in masks.overrides for word in ("--set", each))]))


def _with_rows(scenario: Scenario, rows: int, inputs: int) -> Scenario:
    """Return the scenario for so many rows, one on each worker; where all workers send, all of these do."""
    Whole(low=2, high=10**9).check("--rows", rows)
    everybody = scenario.radio.scheduled == scenario.workers.count
    radio = replace(scenario.radio, scheduled=0) if everybody else scenario.radio
    return replace(scenario, workers=replace(scenario.workers, count=rows), radio=radio).settled(rows, inputs)


def _print(plan: Plan, scenario: Scenario, dimensions: tuple[int, int]) -> None:
    colour = "green" if plan.feasible else "red"
    console.print(f"[bold]{escape(plan.title)}[/bold]: [{colour}]{'feasible' if plan.feasible else 'not feasible'}[/]")
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
        (
            "data",
            f"{inputs_in_words(scenario.workers, dimensions[0])}, {outputs_text(scenario.workers.task, dimensions[1])}",
        ),
        ("workers", f"{scenario.workers.count:,}, {radio.scheduled:,} at a time in {plural(radio.slots, 'slot')}"),
        (
            "noise multiplier",
            f"{plan.noise_multiplier:.4g} in {'the strongest' if plan.limited_share else 'every'} slot",
        ),
        ("power scale beta", f"{plan.power_scale_watts:.3g} W (median slot)"),
        ("power", f"{power.median:.1f} dBm median, {power.largest:.1f} largest, limit {power.limit:g}"),
        ("energy", f"{joules(plan.energy_joules)} in total, {joules(plan.worker_energy_joules)} per worker"),
    ]
    as_assumed = encoder.keeps_inputs and scenario.workers.sends == "samples"
    if math.isfinite(plan.snr_inputs_db):
        labels = f", {plan.snr_labels_db:.1f} dB labels" if math.isfinite(plan.snr_labels_db) else ""
        more = "" if as_assumed else ", more if the inputs are correlated"
        rows.append(("SNR", f"{plan.snr_inputs_db:.1f} dB inputs{labels} (median slot){more}"))
    if as_assumed:
        rows.append(("contrast", f"{plan.contrast_db:.1f} dB: the same for what differs between samples"))
    if plan.frame is not None:
        rows.append(("air", _frame_cell(plan.frame, scenario)))
    if scenario.workers.several_rows:
        rows.append(("rows_bound", _rows_bound(plan, scenario, dimensions)))
    console.print(terminal_table(("", ""), rows, words=2))
    if plan.best:
        columns = ("goal", "alpha", "|N_t|", "slots", "SNR", "contrast", "energy")
        designs = []
        for goal, best in plan.best.items():
            counts, signal = (best.scheduled, best.slots), (best.snr_inputs_db, best.contrast_db)
            cells = (*(f"{count:,}" for count in counts), *(f"{value:.1f} dB" for value in signal))
            designs.append((goal, f"{best.alpha:g}", *cells, joules(best.energy_joules)))
        console.print(terminal_table(columns, designs, title="At the same privacy"))


def _frame_cell(frame: FramePlan, scenario: Scenario) -> str:
    """Return what the air makes of a slot, and what to do where too little of the signal is left."""
    overhead = 100.0 * (frame.symbols / frame.data_symbols - 1.0)
    told = (
        f"{scenario.air.preset}: {duration(frame.seconds)} per slot in {plural(frame.blocks, 'block')}, "
        f"{overhead:.2g} % pilots and guards, {frame.signal_loss_db:.1f} dB of the signal lost, "
        f"{frame.margin_db:.1f} dB margin for privacy"
    )
    return f"{told}; the slot is too long: set workers.features={frame.features}" if frame.features else told


def _rows_bound(plan: Plan, scenario: Scenario, dimensions: tuple[int, int]) -> str:
    """Return which bound on the rows of a worker suits the rows that the scenario lets one assume."""
    from airmixml.planning.rows import assumed_rows, plan_rows_bound

    workers = scenario.workers
    if not workers.rows_per_worker:
        return "set workers.rows_per_worker to what you assume of the workers, and it is planned"
    best = plan_rows_bound(
        assumed_rows(workers.count, workers.rows_per_worker),
        noise_multiplier=plan.noise_multiplier,
        symbols=Signal.of(workers, *dimensions).symbols,
    )
    gain = f"{100 * (1 - best.error / best.error_of_one):.0f} % less error than 1"
    return f"{best.bound:g} for {workers.rows_per_worker:,} rows per worker on average" + (
        f", {gain}" if best.bound > 1 else ""
    )


def _print_recommendation(found: Recommendation | None, scenario: Scenario, command: list[str]) -> None:
    """Print what to send so that a closed-form learner is left with the least noise, and the command that does it."""
    if found is None:
        console.print("no design that can learn fits into the time on the air: raise --max-air-seconds")
        return
    columns = ("", "this scenario", "[green]best for learning" if found.overrides else "best for learning")
    own, best = _learning_cells(found.own), _learning_cells(found.best)
    rows = [(name, own[name], best[name]) for name in own]
    rehearsal = found.rehearsal
    if rehearsal is not None:
        mine, other = _design_cells(rehearsal.own), _design_cells(rehearsal.best)
        rows = [(name, mine[name], other[name]) for name in mine] + [row for row in rows if row[0] not in mine]
    console.print(terminal_table(columns, rows, title=f"At the same privacy, for {scenario.learner.model}", words=3))
    if rehearsal is not None:
        _print_rehearsal(rehearsal, scenario)
    if found.overrides and rehearsal is not None:
        gained = 100.0 * (rehearsal.best.accuracy - rehearsal.own.accuracy)
        less = f", {found.gain_db:.1f} dB less learning noise" if found.gain_db >= 0.05 else ""
        console.print(f"{gained:+.1f} points of accuracy on the made-up tables{less} with:")
        print_line(shlex.join([*command, *(word for override in found.overrides for word in ("--set", override))]))
    elif found.overrides:
        gain = f"{abs(found.gain_db):.1f} dB {'less' if found.gain_db >= 0 else 'more'} learning noise"
        if found.gain_db < 0:
            gain = f"this scenario is on the air for longer than is allowed; within the limit, {gain}"
        if not math.isfinite(found.gain_db):
            gain = "the first signal"
        console.print(f"{gain} (the noise in the equation that the learner solves, relative to one sample) with:")
        print_line(shlex.join([*command, *(word for override in found.overrides for word in ("--set", override))]))
    else:
        tried = "that was tried learns better" if rehearsal is not None else "leaves the learner with less noise"
        console.print(f"no other design {tried}")
    if found.best.learning_noise_db > _CHANCE_DB:
        console.print("at this target even the best design is nearly all noise: expect little better than guessing")
    if found.note:
        print_line(found.note)


def _print_rehearsal(rehearsal: Rehearsal, scenario: Scenario) -> None:
    """Print the best of every learner, encoder and centre on the made-up tables."""
    best: dict[tuple[str, str, str], RehearsedDesign] = {}
    for each in rehearsal.tried:
        best.setdefault((each.design.model, each.design.encoder, each.design.centre), each)
    cells = [_design_cells(each) for each in best.values()]
    size = f"{rehearsal.rows:,} rows, {rehearsal.inputs:,} inputs, {rehearsal.classes:,} classes"
    title = f"Tried on {rehearsal.tables} made-up tables of {size}"
    console.print(terminal_table(tuple(cells[0]), [tuple(row.values()) for row in cells], title=title))
    if rehearsal.rows < scenario.workers.count:
        console.print(f"(with the noise of {scenario.workers.count:,} rows; larger tables are made up with fewer)")


def _design_cells(found: RehearsedDesign) -> dict[str, str]:
    design = found.design
    return {
        "learner": design.model,
        "encoder": f"{design.encoder}, {design.features} features" if design.features else design.encoder,
        "centre": design.centre,
        "accuracy, made up": f"{100.0 * found.accuracy:.1f} ± {100.0 * found.error:.1f} %",
        "norm": design.norm,
        "labels": design.label_code,
        "label weight w": f"{design.label_weight:g}",
    }


def _learning_cells(option: LearningOption) -> dict[str, str]:
    sending, noise_db = option.sending, option.learning_noise_db
    shares = {"equalmix": "equal shares", "nonmix": "one worker's share"}
    return {
        "sends": sending.sends,
        "label weight w": f"{sending.label_weight:g}",
        "|N_t|": f"{sending.scheduled:,}",
        "slots": f"{sending.slots:,}",
        "schedule": sending.schedule,
        "alpha": shares.get(sending.policy, f"{sending.alpha}"),
        "learning noise": f"{noise_db:.1f} dB" if math.isfinite(noise_db) else "all",
        "air time": duration(option.air_seconds),
        "energy": joules(option.energy_joules),
    }
