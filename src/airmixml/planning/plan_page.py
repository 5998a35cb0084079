"""A plan in lines and tables, from its JSON: for the terminal, its Markdown file and its report."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.integers.integer_noise import integers_in_words
from airmixml.output.numbers import duration, epsilon_text, joules, outputs_text, plural, slots_text
from airmixml.output.tables import Table
from airmixml.radio.analog_link import acquisition_rows
from airmixml.radio.digital_link import link_rows
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import METRICS, SCENARIO, Finish, claim_folder
from airmixml.wording import against
from airmixml.workers.population import held_by, inputs_in_words, row_name

if TYPE_CHECKING:
    from airmixml.planning.plan import Plan

# Above this, ten classes of digits were learnt with errors of 70 % and more (benchmarks/check_plan.py).
_CHANCE_DB: Final = -4.0
_PLAN: Final = "plan"
_SHARES: Final = {"equalmix": "equal shares", "nonmix": "one worker's share"}

Plain = Mapping[str, Any]
"""A plan, or a part of one, as JSON has it."""
Part = str | Table
"""A line or a table."""


def plan_parts(
    plain: Plain, scenario: Scenario, command: Sequence[str], dimensions: tuple[int, int] | None = None
) -> Iterator[Part]:
    """Yield what a plan says after its verdict; ``command`` runs the scenario as it was planned.

    ``dimensions`` are d_X as it leaves the encoder and d_Y, where they are known.
    """
    yield from _power(plain, scenario, dimensions)
    words = list(command)
    if "integers" in plain:
        yield f"integers {integers_in_words(plain['integers'])}"
        yield "Learning noise in what follows is that of the same workers with real numbers."
    if "masks" in plain:
        yield from _masks(plain["masks"], words)
        words = _with_set(words, plain["masks"]["overrides"])
    if "needed" in plain:
        yield from _needed(plain)
    if plain["feasible"] and scenario.learner.closed_form:
        yield from _recommendation(plain.get("recommended"), scenario, words)


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


def _needed(plain: Plain) -> Iterator[Part]:
    """Yield what the wanted accuracy takes: how much of each quantity, with how far single tables are apart."""
    wanted, rehearsal = 100.0 * plain["wanted_accuracy"], plain["recommended"]["rehearsal"]
    basis = rehearsal.get("measured_on")
    of, single = ("runs on public images", "run") if basis else ("synthetic tables", "table")
    rows = []
    for each in plain["needed"]:
        form = "{:.3g}" if each["quantity"] == "epsilon" else "{:,.0f}"

        def told(value: float, form: str = form) -> str:
            return form.format(value)

        if each["value"] is None:
            reached = f"{100.0 * each['accuracy_at_most']:.1f} ± {100.0 * each['error_at_most']:.1f} %"
            needed = f"not reached: {reached} with {told(each['most'])}"
        else:
            needed = told(each["value"]) + (" or less" if each["value"] == each["least"] > 0 else "")
        if not each["reached"]:
            apart = f"no {single} of {each['tables']}"
        elif each["latest"] is None:
            apart = f"from {told(each['earliest'])}; {each['tables'] - each['reached']} of {each['tables']} never"
        else:
            apart = f"{told(each['earliest'])} to {told(each['latest'])}"
        rows.append((each["quantity"], told(each["planned"]), needed, apart))
    columns = ("one change at a time", "recommended below", "needed for the mean", f"for single {single}s")
    yield Table(title=f"What {wanted:g} % accuracy takes", columns=columns, rows=tuple(rows))
    expected = rehearsal["best"]
    yield (
        f"The recommended design is expected to reach {_accuracy(expected)}, the mean of {rehearsal['tables']} {of}"
        f"{f' ({basis})' if basis else ''}; your data may be easier or harder. More slots at the same epsilon do not "
        "help: they share it."
    )


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
        yield shlex.join(_with_set(command, masks["overrides"]))


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


def _power(plain: Plain, scenario: Scenario, dimensions: tuple[int, int] | None) -> Iterator[Part]:
    """Yield what the target costs, and other designs at the same privacy."""
    from airmixml.workers import encoder_of

    workers, encoder = scenario.workers, encoder_of(scenario.workers)
    if encoder.bounds_norm and scenario.privacy.sensitivity != "encoder":
        yield "clipping does not allow more power here: set privacy.sensitivity = encoder to count it"
    if "power_dbm" not in plain:
        return
    radio, power, rows = scenario.radio, plain["power_dbm"], []
    if dimensions is not None:
        outputs = outputs_text(workers.task, dimensions[1])
        rows.append(("data", f"{inputs_in_words(workers, dimensions[0])}, {outputs}"))
    slots = slots_text(radio.slots, scenario.learner.rounds)
    differ = plain["limited_share"] or plain.get("rounds", {"share": 1.0})["share"] < 1.0
    where = "the strongest" if differ else "every"
    rows += [
        ("workers", f"{workers.count:,}, {radio.scheduled:,} at a time in {slots}"),
        ("noise multiplier", f"{plain['noise_multiplier']:.4g} in {where} slot"),
        *(
            [("power scale beta", f"{plain['power_scale_watts']:.3g} W (median slot)")]
            if "power_scale_watts" in plain
            else []
        ),
        ("power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, limit {power['limit']:g}"),
        ("energy", f"{joules(plain['energy_joules'])} in total, {joules(plain['worker_energy_joules'])} per worker"),
    ]
    if "attenuation_db" in plain:
        lowest = f"a transmitter sends {scenario.air.min_power_dbm:g} dBm at least"
        rows.append(("attenuators", f"{plain['attenuation_db']:.0f} dB before the median worker's antenna: {lowest}"))
    rows += [("air time", duration(plain["air_seconds"]))] if "air_seconds" in plain else []
    rows += acquisition_rows(scenario)
    rows += link_rows(plain["link"]) if "link" in plain else []
    rows += _rounds(plain["rounds"], radio.link_kind.unit) if "rounds" in plain else []
    as_assumed = encoder.keeps_inputs and workers.sends == "samples"
    if "snr_inputs_db" in plain:
        labels = f", {plain['snr_labels_db']:.1f} dB labels" if "snr_labels_db" in plain else ""
        more = "" if as_assumed else ", more if the inputs are correlated"
        rows.append(("SNR", f"{plain['snr_inputs_db']:.1f} dB inputs{labels} (median slot){more}"))
    if as_assumed:
        rows.append(("contrast", f"{plain['contrast_db']:.1f} dB: the same for what differs between samples"))
    if "frame" in plain:
        rows.append(("air", _frame_cell(plain["frame"], scenario)))
    rows += [("receiver", plain["receiver"])] if plain.get("receiver") else []
    rows += [_of_a_row(plain, scenario)] if "row_copies" in plain else []
    if workers.several_rows and dimensions is not None:
        rows.append(("rows_bound", _rows_bound(plain["noise_multiplier"], scenario, dimensions)))
    yield _facts("What it costs", rows)
    if plain.get("best"):
        yield _other_designs(plain["best"])


def _other_designs(found: dict[str, Plain]) -> Table:
    """Return the best designs at the same privacy, by what they are best at."""
    columns = ("goal", "alpha", "|N_t|", "slots", "SNR", "contrast", "energy")
    designs = []
    for goal, best in found.items():
        counts, signal = (best["scheduled"], best["slots"]), (best["snr_inputs_db"], best["contrast_db"])
        cells = (*(f"{count:,}" for count in counts), *(f"{value:.1f} dB" for value in signal))
        designs.append((goal, f"{best['alpha']:g}", *cells, joules(best["energy_joules"])))
    return Table(title="At the same privacy", columns=columns, rows=tuple(designs))


def _rounds(rounds: Plain, unit: str) -> list[tuple[str, str]]:
    """Return what rounds take, beside the slots before them if there are any."""
    names = ("symbols_per_slot", "symbols_per_round", "uplink_symbols")
    per_slot, per_round, total = (f"{rounds[name]:,}" for name in names)
    rows = [
        ("downlink", f"{rounds['downlink_bits_per_round']:,} bits per round, the model for all workers"),
        ("reachable", f"workers must be reachable {rounds['reachable']:,} times"),
    ]
    if rounds["share"] == 1.0:
        return rows
    uplink = f"{per_slot} {unit} in a slot, {per_round} in a round, {total} in total"
    share = f"{rounds['share']:.0%} in the rounds, the rest in what comes before them"
    return [("uplink", uplink), *rows, ("privacy loss", share)]


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


def _rows_bound(noise_multiplier: float, scenario: Scenario, dimensions: tuple[int, int]) -> str:
    """Return which bound on the rows of a worker suits the rows that the scenario lets one assume."""
    from airmixml.planning.rows_bound import assumed_rows, plan_rows_bound
    from airmixml.workers import Signal

    workers = scenario.workers
    if not workers.rows_per_worker:
        return "set workers.rows_per_worker to what you assume of the workers, and it is planned"
    rows, symbols = assumed_rows(workers.count, workers.rows_per_worker), Signal.of(workers, *dimensions).symbols
    best = plan_rows_bound(rows, noise_multiplier=noise_multiplier, symbols=symbols)
    gain = f", {100 * (1 - best.error / best.error_of_one):.0f} % less error than 1" if best.bound > 1 else ""
    return f"{best.bound:g} for {workers.rows_per_worker:,} rows per worker on average{gain}"


def _recommendation(found: Plain | None, scenario: Scenario, command: list[str]) -> Iterator[Part]:
    """Yield what to send so that a closed-form learner is left with the least noise, and the command that does it."""
    if found is None:
        yield "no design that can learn fits into the time on the air: raise --max-air-seconds"
        return
    own, best, rehearsal = _learning_cells(found["own"]), _learning_cells(found), found.get("rehearsal")
    rows = [(name, own[name], best[name]) for name in own]
    if rehearsal is not None:
        how = "measured" if "measured_on" in rehearsal else "synthetic"
        mine, other = (_design_cells(rehearsal[name], how) for name in ("own", "best"))
        rows = [(name, mine[name], other[name]) for name in mine] + [row for row in rows if row[0] not in mine]
    rows = [row for row in rows if row != ("rounds", "0", "0")]
    title = f"At the same privacy, for {scenario.learner.model}"
    yield Table(title=title, columns=("", "this scenario", "best for learning"), rows=tuple(rows), words=3)
    if rehearsal is not None:
        yield from _rehearsal(rehearsal, scenario)
        if "reason" in rehearsal:
            yield f"{'recommended' if found['overrides'] else 'kept'} although {rehearsal['reason']}"
    if found["overrides"]:
        yield f"{_gain(found.get('gain_db', math.inf), rehearsal)} with:"
    else:
        no_better = (
            "leaves the learner with less noise" if rehearsal is None else "that was tried learns better beyond chance"
        )
        dropped = rehearsal is not None and "public" in rehearsal
        yield "run it with:" if dropped else f"no other design {no_better}; run it with:"
    yield shlex.join(_with_set(command, found["overrides"]))
    if "BOUNDS.toml" in command:
        yield (
            "TABLE.csv is your file and CLASS its column to learn; BOUNDS.toml has a line COLUMN = [lower, upper] for "
            "each input"
        )
    if found.get("learning_noise_db", math.inf) > _CHANCE_DB:
        yield "at this target even the best design is nearly all noise: expect little better than guessing"
    if "note" in found:
        yield found["note"]


def _gain(gain_db: float, rehearsal: Plain | None) -> str:
    """Return what the overrides bring, in words."""
    if rehearsal is not None:
        best, own = rehearsal["best"], rehearsal["own"]
        gained = 100.0 * (best["accuracy"] - own["accuracy"])
        less = f", {gain_db:.1f} dB less learning noise" if gain_db >= 0.05 else ""
        where = rehearsal["measured_on"].partition(" ")[0] if "measured_on" in rehearsal else "the synthetic tables"
        fewer = 100.0 * (1.0 - best["uplink_symbols"] / own["uplink_symbols"])
        if abs(gained) < 0.1 and fewer >= 1.0:
            return f"the same accuracy on {where}, {fewer:.0f} % fewer symbols{less}"
        if not gained and less:
            return less.removeprefix(", ")
        public = rehearsal.get("public")
        if public:
            there = 100.0 * (public["best"]["accuracy"] - public["own"]["accuracy"])
            where += f" and {there:+.2g} on {public['name']} itself (public, read for this)"
        return f"{gained:+.2g} points of accuracy on {where}{less}"
    gain = f"{abs(gain_db):.1f} dB {'less' if gain_db >= 0 else 'more'} learning noise"
    if gain_db < 0:
        gain = f"this scenario is on the air for longer than is allowed; within the limit, {gain}"
    if not math.isfinite(gain_db):
        gain = "the first signal"
    return f"{gain} (the noise in the equation that the learner solves, relative to one sample)"


def _with_set(command: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the command with these keys set, each once: what it set of them before is left out."""
    keys, words = {each.partition("=")[0] for each in overrides}, list(command)
    for at in range(len(words) - 2, -1, -1):
        if words[at] == "--set" and words[at + 1].partition("=")[0].strip() in keys:
            del words[at : at + 2]
    return words + [word for each in overrides for word in ("--set", each)]


def _rehearsal(rehearsal: Plain, scenario: Scenario) -> Iterator[Part]:
    """Yield the best of every learner, encoder and centre on the synthetic tables, with rounds and without."""
    if "measured_on" in rehearsal:
        yield from _measured(rehearsal)
        return
    best: dict[tuple[Any, ...], Plain] = {}
    for each in rehearsal["tried"]:
        best.setdefault((each["model"], each["rounds"] > 0, each["encoder"], each["centre"]), each)
    cells = [_design_cells(each, "synthetic") for each in best.values()]
    size = f"{rehearsal['rows']:,} rows, {rehearsal['inputs']:,} inputs, {rehearsal['classes']:,} classes"
    title = f"Tried on {rehearsal['tables']} synthetic tables of {size}"
    yield Table(title=title, columns=tuple(cells[0]), rows=tuple(tuple(row.values()) for row in cells))
    if rehearsal["rows"] < scenario.workers.count:
        yield f"(with the noise of {scenario.workers.count:,} rows; larger tables are drawn with fewer)"


def _measured(rehearsal: Plain) -> Iterator[Part]:
    """Yield what was measured of images: accuracy by features and rounds, each at the noise that it has here."""
    columns = ("features", "rounds", "uplink symbols", "air time", "accuracy")
    rows = [
        (
            f"{each['features'] or rehearsal['inputs']:,}",
            f"{each['rounds']:,}",
            f"{each['uplink_symbols']:,}",
            duration(each["air_seconds"]),
            _accuracy(each),
        )
        for each in rehearsal["tried"]
    ]
    title = f"Measured on {rehearsal['measured_on']}, at the noise of this scenario"
    yield Table(title=title, columns=columns, rows=tuple(rows))
    yield (
        "the expectation rests on these public images: on others accuracies differ, and the order of designs may; "
        "energy is about the same for all, since they share one privacy loss"
    )


def _accuracy(design: Plain) -> str:
    return f"{100.0 * design['accuracy']:.1f} ± {100.0 * design['error']:.1f} %"


def _design_cells(design: Plain, how: str) -> dict[str, str]:
    encoder, features = design["encoder"], design["features"]
    return {
        "learner": design["model"],
        "rounds": f"{design['rounds']:,}",
        "encoder": f"{encoder}, {features} features" if features else encoder,
        "centre": design["centre"],
        f"accuracy, {how}": _accuracy(design),
        "norm": design["norm"],
        "labels": design["label_code"],
        "label weight w": f"{design['label_weight']:g}",
    }


def _learning_cells(option: Plain) -> dict[str, str]:
    alone = " without rounds" if option["rounds"] else ""
    return {
        "sends": option["sends"],
        "label weight w": f"{option['label_weight']:g}",
        "|N_t|": f"{option['scheduled']:,}",
        "slots": f"{option['slots']:,}",
        "rounds": f"{option['rounds']:,}",
        "schedule": option["schedule"],
        "alpha": _SHARES.get(option["policy"], f"{option['alpha'] or option['policy']}"),
        "learning noise": f"{option['learning_noise_db']:.1f} dB{alone}" if "learning_noise_db" in option else "all",
        "air time": duration(option["air_seconds"]),
        "energy": joules(option["energy_joules"]),
    }
