"""A plan in lines and tables, from its JSON: for the terminal, its Markdown file and its report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airmixml.integers.integer_noise import integers_in_words
from airmixml.output.tables import Table
from airmixml.planning.recommended_page import ALPHA, Part, Plain, needed_parts, recommendation_parts, with_set
from airmixml.radio.analog_link import acquisition_rows
from airmixml.radio.digital_link import link_rows
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import METRICS, SCENARIO, Finish, claim_folder
from airmixml.wording import NONE, against, duration, epsilon_text, joules, outputs_text, plural
from airmixml.workers.population import held_by, inputs_in_words, row_name

if TYPE_CHECKING:
    from airmixml.planning.planned import Plan

_PLAN: Final = "plan"


def plan_parts(plain: Plain, scenario: Scenario, command: Sequence[str]) -> Iterator[Part]:
    """Yield what a plan says after its verdict; ``command`` runs the scenario as it was planned."""
    yield from _power(plain, scenario)
    words = list(command)
    if "integers" in plain:
        yield f"integers {integers_in_words(plain['integers'])}"
        yield "Learning noise in what follows is that of the same workers with real numbers."
    if "masks" in plain:
        yield from _masks(plain["masks"], words)
        words = with_set(words, plain["masks"]["overrides"])
    if "needed" in plain:
        yield from needed_parts(plain)
    if plain["feasible"] and scenario.learner.closed_form:
        yield from recommendation_parts(plain.get("recommended"), scenario, words)
    elif plain["feasible"]:
        yield "run it with:" if scenario.mixing.power == "dp" else "run it with the power that the target allows:"
        yield shlex.join(words if scenario.mixing.power == "dp" else with_set(words, ["mixing.power=dp"]))


def plan_markdown(plan: Plan, scenario: Scenario, parts: Sequence[Part]) -> str:
    """Return a plan as a page of Markdown."""
    word = "Feasible" if plan.feasible else "Not feasible"
    word += "" if scenario.mixing.power == "dp" else f" {planned_otherwise(scenario)}"
    lines = [f"# Plan of {plan.title}\n", f"{word}: {plan.verdict}\n"]
    lines += [part.to_markdown() if isinstance(part, Table) else f"{part}\n" for part in parts]
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
    from airmixml.planning.design_figures import draw_plan

    with claim_folder(out, {"scenario": scenario.to_json(), _PLAN: True}, force=force) as folder:
        write_text(folder.work / f"{_PLAN}.md", plan_markdown(plan, scenario, parts))
        if picture and (plan.options or plan.recommended):
            draw_plan(plan, scenario, folder.work / f"{_PLAN}.png")
        write_text(folder.work / SCENARIO, scenario.to_toml())
        found = {**plan.to_dict(), "seconds": seconds, "run_dir": str(folder.final)}
        write_text(folder.work / METRICS, json.dumps(found, indent=2, allow_nan=False) + "\n")
        return folder.publish(replace=force, finish=finish)


def _masks(masks: Plain, command: list[str]) -> Iterator[Part]:
    """Yield what workers add to hide themselves, what is left of it in the sum, and what assumptions cost."""
    noise = masks["noise"]
    parts = {"workers' own": "own", "gain errors": "gains", "absent workers": "absent", "receiver": "receiver"}
    shares = {name: noise[f"{key}_watts"] / noise["total_watts"] for name, key in parts.items()}
    rows = [("workers' noise", f"{masks['above_thermal_db']:.1f} dB above the receiver's in the sum")]
    if masks["degree"]:
        told = f"{masks['degree']:,} per worker, {masks['neighbours']:,} or more of them shared with honest ones"
        rows.append(("masks", f"{told}; {masks['mask_share']:.3g} of the privacy loss"))
    rows += [
        ("power", f"nearest worker {masks['nearest_dbm']:.1f} dBm, farthest {masks['farthest_dbm']:.1f} dBm"),
        ("gains", f"{_gains_in_words(masks)}; {masks['absent']:.1%} of the workers do not send"),
        ("noise in the sum", ", ".join(f"{name} {share:.1%}" for name, share in shares.items() if share)),
        (
            "as if",
            f"epsilon were {epsilon_text(masks['epsilon_as_if'])} against the server, by the receiver's noise alone",
        ),
    ]
    for each in masks["costs"]:
        cost = "impossible" if each["noise_db"] is None else f"{each['noise_db']:+.1f} dB noise"
        rows.append((each["name"], f"{cost} ({each['override']})"))
    yield _facts("Workers hide themselves", rows)
    if masks["advice"]:
        yield masks["advice"]
    if masks["overrides"]:
        yield f"{masks['gain_db']:.1f} dB less noise in the sum with:"
        yield shlex.join(with_set(command, masks["overrides"]))


def _gains_in_words(masks: Plain) -> str:
    """Return by how much gains err, and what that makes of the noise where masks cancel no better."""
    times = masks["times_the_noise"]
    felt = f", which leaves {times:.3g} times the noise of exact gains" if times > 1.0 else ""
    return f"err by {masks['gain_error']:.2%}{felt}"


def _facts(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    return Table(title=title, columns=("", ""), rows=tuple(rows), words=2)


def planned_otherwise(scenario: Scenario) -> str:
    """Return what is said where the scenario's own power is not the one that it is planned with."""
    return f'if mixing.power = "dp": the scenario has "{scenario.mixing.power}", which keeps no target'


def _power(plain: Plain, scenario: Scenario) -> Iterator[Part]:
    """Yield what the target costs, with this design and with the recommended one, and others at the same privacy."""
    from airmixml.workers import encoder_of

    if encoder_of(scenario.workers).bounds_norm and scenario.privacy.sensitivity != "encoder":
        yield "clipping does not allow more power here: set privacy.sensitivity = encoder to count it"
    if "power_dbm" not in plain:
        return
    own, instead = dict(_costs(plain, scenario)), plain.get("of_recommended")
    if instead is None:
        yield _facts("What it costs", list(own.items()))
    else:
        best = dict(_costs(instead, scenario.with_overrides(*plain["recommended"]["overrides"])))
        names = [*own, *(name for name in best if name not in own)]
        rows = [(name, own.get(name, NONE), best.get(name, NONE)) for name in names]
        rows = [(name, mine, "the same" if mine == other else other) for name, mine, other in rows]
        columns = ("", "this scenario", "recommended")
        yield Table(title="What it costs", columns=columns, rows=tuple(rows), words=3)
    yield f"energy: {scenario.radio.link_kind.energy_in_words(scenario)}"
    if plain.get("best"):
        yield _other_designs(plain["best"])
        yield f"{ALPHA}; at a time: workers that send in a slot; contrast: the SNR of what differs between samples"


def _costs(plain: Plain, scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what a design takes and brings, in words."""
    from airmixml.workers import encoder_of

    workers, encoder = scenario.workers, encoder_of(scenario.workers)
    radio, power, rounds = scenario.radio, plain["power_dbm"], plain.get("rounds")
    dimensions = plain.get("dimensions")
    if dimensions is not None:
        yield "data", f"{inputs_in_words(workers, dimensions[0])}, {outputs_text(workers.task, dimensions[1])}"
    yield "workers", f"{workers.count:,}, {radio.scheduled:,} at a time in {scenario.slots_in_words}"
    differ = plain["limited_share"] or (rounds or {"share": 1.0})["share"] < 1.0
    yield "noise multiplier", f"{plain['noise_multiplier']:.4g} in {'the strongest' if differ else 'every'} slot"
    if "power_scale_watts" in plain:
        yield "power scale beta", f"{plain['power_scale_watts']:.3g} W (median slot)"
    yield "power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, limit {power['limit']:g}"
    yield "energy", f"{joules(plain['energy_joules'])} in total, {joules(plain['worker_energy_joules'])} per worker"
    if "attenuation_db" in plain:
        lowest = f"a transmitter sends {scenario.air.min_power_dbm:g} dBm at least"
        yield "attenuators", f"{plain['attenuation_db']:.0f} dB before the median worker's antenna: {lowest}"
    if "air_seconds" in plain:
        yield "air time", duration(plain["air_seconds"])
    yield from acquisition_rows(scenario)
    yield from link_rows(plain["link"]) if "link" in plain else ()
    if "uplink" in plain:
        yield from _uplink(plain["uplink"], rounds, scenario)
    if "snr_inputs_db" in plain:
        labels = f", {plain['snr_labels_db']:.1f} dB labels" if "snr_labels_db" in plain else ""
        more = " or more: rows are not read, and correlated inputs give more" if plain.get("snr_is_least") else ""
        yield "SNR", f"{plain['snr_inputs_db']:.1f} dB inputs{labels} (median slot){more}"
    if encoder.keeps_inputs and workers.sends == "samples":
        yield "contrast", f"{plain['contrast_db']:.1f} dB: the same for what differs between samples"
    if "frame" in plain:
        yield "air", _frame_cell(plain["frame"], scenario)
    if plain.get("receiver"):
        yield "receiver", plain["receiver"]
    if "row_copies" in plain:
        yield _of_a_row(plain, scenario)
    if workers.several_rows and dimensions is not None:
        yield "rows_bound", _rows_bound(plain["noise_multiplier"], scenario, dimensions)


def _other_designs(found: dict[str, Plain]) -> Table:
    """Return the best designs at the same privacy, by what they are best at."""
    columns = ("goal", "alpha", "at a time", "slots", "SNR", "contrast", "energy")
    designs = []
    for goal, best in found.items():
        counts, signal = (best["scheduled"], best["slots"]), (best["snr_inputs_db"], best["contrast_db"])
        cells = (*(f"{count:,}" for count in counts), *(f"{value:.1f} dB" for value in signal))
        designs.append((goal, f"{best['alpha']:g}", *cells, joules(best["energy_joules"])))
    return Table(title="At the same privacy", columns=columns, rows=tuple(designs))


def _uplink(uplink: Plain, rounds: Plain | None, scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the symbols of the slot for the mean, of the others and of rounds, and how often workers are needed."""
    slots, count = scenario.radio.slots, scenario.learner.rounds
    unit, mean = scenario.radio.link_kind.unit, uplink["symbols_for_mean"]
    parts = [f"{mean:,} for the mean"] if mean else []
    parts.append(f"{uplink['symbols_per_slot']:,} in {'the slot' if slots == 1 else f'each of {slots:,} slots'}")
    parts += [f"{rounds['symbols_per_round']:,} in each of {plural(count, 'round')}"] if rounds and count else []
    total = f": {uplink['uplink_symbols']:,} in total" if len(parts) > 1 or slots > 1 else ""
    yield "uplink", f"{', '.join(parts)}{total}".replace(" ", f" {unit} ", 1)
    if rounds:
        yield "downlink", f"{rounds['downlink_bits_per_round']:,} bits per round, the model for all workers"
    if rounds or mean:
        yield "reachable", f"workers must be reachable {uplink['reachable']:,} times"
    if rounds and rounds["share"] < 1.0:
        yield "privacy loss", f"{rounds['share']:.0%} in the rounds, the rest in what comes before them"


def _of_a_row(plain: Plain, scenario: Scenario) -> tuple[str, str]:
    """Return what holds for a row of the data, or a person, against the target's adversary."""
    adversary, copies = scenario.privacy.adversary, plain["row_copies"]
    stated = {each["adversary"]: each["epsilon"] for each in plain["row_statements"]}
    said = f"epsilon {epsilon_text(stated[adversary])}" if adversary in stated else "no guarantee stated"
    said += f" {against(adversary)}, {held_by(scenario.workers, copies)}"
    if copies > 1 and not scenario.all_send and ADVERSARIES.load(adversary).knows_schedule:
        said += "; before the draw: a run knows which of them sent together, and states that"
    elif copies > 1 or any(each.get("schedule_failure") for each in plain["row_statements"]):
        said += ", before the draw"
    return row_name(scenario.workers, copies), said


def _frame_cell(frame: Plain, scenario: Scenario) -> str:
    """Return what the air makes of a slot, and what to do where too little of the signal is left."""
    overhead = 100.0 * (frame["symbols"] / frame["data_symbols"] - 1.0)
    told = (
        f"{scenario.air.preset}: {duration(frame['seconds'])} per slot in {plural(frame['blocks'], 'block')}, "
        f"{overhead:.3g} % more symbols than data has, {frame['signal_loss_db']:.1f} dB of the signal lost, "
        f"{frame['margin_db']:.1f} dB margin for privacy"
    )
    return f"{told}; the slot is too long: set workers.features={frame['features']}" if frame["features"] else told


def _rows_bound(noise_multiplier: float, scenario: Scenario, dimensions: Sequence[int]) -> str:
    """Return which bound on the rows of a worker suits the rows that the scenario lets one assume."""
    from airmixml.planning.rows_bound import assumed_rows, plan_rows_bound
    from airmixml.workers import Signal

    workers = scenario.workers
    if not workers.rows_per_worker:
        return "set workers.rows_per_worker to what you assume of the workers, and it is planned"
    rows, symbols = (
        assumed_rows(workers.count, workers.rows_per_worker),
        Signal.of(workers, dimensions[0], dimensions[1]).symbols,
    )
    best = plan_rows_bound(rows, noise_multiplier=noise_multiplier, symbols=symbols)
    gain = f", {100 * (1 - best.error / best.error_of_one):.0f} % less error than 1" if best.bound > 1 else ""
    return f"{best.bound:g} for {workers.rows_per_worker:,} rows per worker on average{gain}"
