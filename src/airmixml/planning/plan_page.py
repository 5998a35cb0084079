"""A plan in lines and tables: for the terminal, and in a folder with everything in JSON, picture and scenario."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airmixml.integers.integer_noise import integers_in_words
from airmixml.output.numbers import duration, joules, outputs_text, plural
from airmixml.output.tables import Table
from airmixml.planning.design_figures import draw_plan
from airmixml.scenario import Scenario
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import METRICS, SCENARIO, Finish, claim_folder
from airmixml.workers import Signal, encoder_of
from airmixml.workers.in_words import inputs_in_words

if TYPE_CHECKING:
    from airmixml.planning.design_search import DesignSearch, TriedDesign
    from airmixml.planning.mask_plan import MaskPlan
    from airmixml.planning.plan import Plan
    from airmixml.planning.recommend import LearningOption, Recommendation
    from airmixml.planning.sizing import FramePlan

# Above this, ten classes of digits were learnt with errors of 70 % and more (benchmarks/check_plan.py).
_CHANCE_DB: Final = -4.0
_PLAN: Final = "plan"


@dataclass(frozen=True, kw_only=True)
class PlanTable(Table):
    """A table of a plan; ``words`` columns of it hold words, the others numbers."""

    note: str = ""
    words: int = 1


Part = str | PlanTable
"""A line or a table."""


def plan_parts(plan: Plan, scenario: Scenario, dimensions: tuple[int, int], command: Sequence[str]) -> Iterator[Part]:
    """Yield what a plan says after its verdict; ``command`` runs the scenario as it was planned."""
    yield from _power(plan, scenario, dimensions)
    words = list(command)
    if plan.integers is not None:
        yield f"integers {integers_in_words(plan.integers)}"
        yield "What follows is of the same workers with real numbers."
    if plan.masks is not None:
        yield from _masks(plan.masks, words)
        words += _set(plan.masks.overrides)
    if plan.feasible and scenario.learner.closed_form:
        yield from _recommendation(plan.recommended, scenario, words)


def plan_markdown(plan: Plan, parts: Sequence[Part]) -> str:
    """Return a plan as a page of Markdown."""
    lines = [f"# Plan of {plan.title}\n", f"{'Feasible' if plan.feasible else 'Not feasible'}: {plan.verdict}\n"]
    lines += [part.to_markdown() if isinstance(part, PlanTable) else f"{part}\n" for part in parts]
    return "\n".join(lines)


def write_plan(
    plan: Plan,
    scenario: Scenario,
    parts: Sequence[Part],
    out: Path,
    *,
    seconds: float,
    picture: bool = True,
    force: bool = False,
    finish: Finish | None = None,
) -> Path:
    """Write a plan into a new folder, whole or not at all, and return the folder.

    ``force`` replaces an earlier folder of airmix; no ``picture`` is drawn of a plan without other designs. ``finish``
    adds files to the complete folder before it gets its name.
    """
    with claim_folder(out, {"scenario": scenario.to_json(), _PLAN: True}, force=force) as folder:
        write_text(folder.work / f"{_PLAN}.md", plan_markdown(plan, parts))
        if picture and (plan.options or plan.recommended):
            draw_plan(plan, scenario, folder.work / f"{_PLAN}.png")
        write_text(folder.work / SCENARIO, scenario.to_toml())
        found = {**plan.to_dict(), "seconds": seconds, "run_dir": str(folder.final)}
        write_text(folder.work / METRICS, json.dumps(found, indent=2, allow_nan=False) + "\n")
        return folder.publish(replace=force, finish=finish)


def _masks(masks: MaskPlan, command: list[str]) -> Iterator[Part]:
    """Yield what workers add to hide themselves, what is left of it in the sum, and what assumptions cost."""
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
    for each in masks.costs:
        cost = f"{each.noise_db:+.1f} dB noise" if math.isfinite(each.noise_db) else "impossible"
        rows.append((each.name, f"{cost} ({each.override})"))
    yield PlanTable(title="Workers hide themselves", columns=("", ""), rows=tuple(rows), words=2)
    if masks.overrides:
        yield f"{masks.gain_db:.1f} dB less noise in the sum with:"
        yield shlex.join([*command, *_set(masks.overrides)])


def planned_otherwise(scenario: Scenario) -> str:
    """Return what is said where the scenario's own power is not the one that it is planned with."""
    return f'planned with mixing.power = "dp"; the scenario has "{scenario.mixing.power}"'


def _power(plan: Plan, scenario: Scenario, dimensions: tuple[int, int]) -> Iterator[Part]:
    """Yield what the target costs, and other designs at the same privacy."""
    if scenario.mixing.power != "dp":
        yield planned_otherwise(scenario)
    encoder = encoder_of(scenario.workers)
    if encoder.bounds_norm and scenario.privacy.sensitivity != "encoder":
        yield "clipping does not allow more power here: set privacy.sensitivity = encoder to count it"
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
    if plan.row is not None:
        rows.append((plan.row.name, plan.row.told(scenario.privacy.adversary)))
    if scenario.workers.several_rows:
        rows.append(("rows_bound", _rows_bound(plan, scenario, dimensions)))
    yield PlanTable(title="What it costs", columns=("", ""), rows=tuple(rows), words=2)
    if plan.best:
        columns = ("goal", "alpha", "|N_t|", "slots", "SNR", "contrast", "energy")
        designs = []
        for goal, best in plan.best.items():
            counts, signal = (best.scheduled, best.slots), (best.snr_inputs_db, best.contrast_db)
            cells = (*(f"{count:,}" for count in counts), *(f"{value:.1f} dB" for value in signal))
            designs.append((goal, f"{best.alpha:g}", *cells, joules(best.energy_joules)))
        yield PlanTable(title="At the same privacy", columns=columns, rows=tuple(designs))


def _frame_cell(frame: FramePlan, scenario: Scenario) -> str:
    """Return what the air makes of a slot, and what to do where too little of the signal is left."""
    overhead = 100.0 * (frame.symbols / frame.data_symbols - 1.0)
    told = (
        f"{scenario.air.preset}: {duration(frame.seconds)} per slot in {plural(frame.blocks, 'block')}, "
        f"{overhead:.3g} % more symbols than data has, {frame.signal_loss_db:.1f} dB of the signal lost, "
        f"{frame.margin_db:.1f} dB margin for privacy"
    )
    return f"{told}; the slot is too long: set workers.features={frame.features}" if frame.features else told


def _rows_bound(plan: Plan, scenario: Scenario, dimensions: tuple[int, int]) -> str:
    """Return which bound on the rows of a worker suits the rows that the scenario lets one assume."""
    from airmixml.planning.rows_bound import assumed_rows, plan_rows_bound

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


def _recommendation(found: Recommendation | None, scenario: Scenario, command: list[str]) -> Iterator[Part]:
    """Yield what to send so that a closed-form learner is left with the least noise, and the command that does it."""
    if found is None:
        yield "no design that can learn fits into the time on the air: raise --max-air-seconds"
        return
    columns = ("", "this scenario", "best for learning")
    own, best = _learning_cells(found.own), _learning_cells(found.best)
    rows = [(name, own[name], best[name]) for name in own]
    rehearsal = found.rehearsal
    if rehearsal is not None:
        mine, other = _design_cells(rehearsal.own), _design_cells(rehearsal.best)
        rows = [(name, mine[name], other[name]) for name in mine] + [row for row in rows if row[0] not in mine]
    title = f"At the same privacy, for {scenario.learner.model}"
    yield PlanTable(title=title, columns=columns, rows=tuple(rows), words=3)
    if rehearsal is not None:
        yield from _rehearsal(rehearsal, scenario)
    if found.overrides:
        yield f"{_gain(found)} with:"
        yield shlex.join([*command, *_set(found.overrides)])
    else:
        tried = "that was tried learns better" if rehearsal is not None else "leaves the learner with less noise"
        yield f"no other design {tried}"
    if found.best.learning_noise_db > _CHANCE_DB:
        yield "at this target even the best design is nearly all noise: expect little better than guessing"
    if found.note:
        yield found.note


def _gain(found: Recommendation) -> str:
    """Return what the overrides bring, in words."""
    if found.rehearsal is not None:
        gained = 100.0 * (found.rehearsal.best.accuracy - found.rehearsal.own.accuracy)
        less = f", {found.gain_db:.1f} dB less learning noise" if found.gain_db >= 0.05 else ""
        return f"{gained:+.1f} points of accuracy on the made-up tables{less}"
    gain = f"{abs(found.gain_db):.1f} dB {'less' if found.gain_db >= 0 else 'more'} learning noise"
    if found.gain_db < 0:
        gain = f"this scenario is on the air for longer than is allowed; within the limit, {gain}"
    if not math.isfinite(found.gain_db):
        gain = "the first signal"
    return f"{gain} (the noise in the equation that the learner solves, relative to one sample)"


def _set(overrides: Sequence[str]) -> list[str]:
    return [word for each in overrides for word in ("--set", each)]


def _rehearsal(rehearsal: DesignSearch, scenario: Scenario) -> Iterator[Part]:
    """Yield the best of every learner, encoder and centre on the synthetic tables."""
    best: dict[tuple[str, str, str], TriedDesign] = {}
    for each in rehearsal.tried:
        best.setdefault((each.design.model, each.design.encoder, each.design.centre), each)
    cells = [_design_cells(each) for each in best.values()]
    size = f"{rehearsal.rows:,} rows, {rehearsal.inputs:,} inputs, {rehearsal.classes:,} classes"
    title = f"Tried on {rehearsal.tables} made-up tables of {size}"
    yield PlanTable(title=title, columns=tuple(cells[0]), rows=tuple(tuple(row.values()) for row in cells))
    if rehearsal.rows < scenario.workers.count:
        yield f"(with the noise of {scenario.workers.count:,} rows; larger tables are made up with fewer)"


def _design_cells(found: TriedDesign) -> dict[str, str]:
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
