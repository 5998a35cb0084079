"""A plan as a page from its JSON, and as a picture: what it costs, what is recommended and tried, and what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.files import write_text
from airmixml.integers.integer_noise import integers_in_words
from airmixml.messages import NONE, against, duration, epsilon_text, joules, outputs_text, plural
from airmixml.output.cards import claimed_card, delta_notices, withstood_rows
from airmixml.output.figures import ORANGE, finish_axis, new_figure, save_figure
from airmixml.output.page import Cards, Code, Page, Part, Rows
from airmixml.output.tables import Table
from airmixml.planning.known_inputs import assumed_rows, plan_rows_bound
from airmixml.planning.multipliers import multipliers_in_words
from airmixml.radio.links import link_rows
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.scenario.toml import titled
from airmixml.storage.folders import Finish, claim_folder, write_result
from airmixml.workers import Signal, encoder_of
from airmixml.workers.population import held_by, inputs_in_words, row_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from airmixml.planning.design_search import TriedDesign
    from airmixml.planning.planned import Plan

_MOST_LINES: Final = 9  # of the table of designs that were tried
_MARK: Final[dict[str, Any]] = {"linestyle": "", "color": ORANGE, "markeredgecolor": "black"}
Plain = Mapping[str, Any]
"""A plan, or a part of one, as JSON has it."""


def plan_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a plan says."""
    power, privacy = scenario.mixing.power, scenario.privacy
    word = "feasible" if plain["feasible"] else "not feasible"
    word += "" if power == "dp" else f', if mixing.power = "dp": the scenario has "{power}", which keeps no target'
    found, instead = plain.get("recommended"), plain.get("of_recommended")
    own = dict(_costs(plain, scenario))
    tables: list[Part] = [] if found is None else [_side_by_side(own, found, instead, scenario)]
    tables += _others(plain, scenario)
    tables += [plain["note"]] if "note" in plain else []
    tables += [] if found is None else _recommendation(found, scenario)
    tables += [Code(plain["run_with"])] if "run_with" in plain else []
    card = claimed_card(privacy.adversary, privacy.epsilon if plain["feasible"] else None, scenario)
    return Page.of_result(
        kind="plan",
        title=f"Plan of {titled(plain['name'], scenario.air)}: {word}",
        verdict=f"{_needed_in_a_line(plain)}; {plain['verdict']}" if "needed" in plain else plain["verdict"],
        notices=delta_notices(privacy.delta, scenario.workers.count),
        cards=(Cards(title=scenario.title, cards=(card,)),),
        costs=list(own.items()) if found is None else [],
        tables=tables,
        command=("plan", *plain.get("given", ())),
    )


def write_plan(
    plan: Plan,
    plain: dict[str, Any],
    scenario: Scenario,
    out: Path,
    *,
    shown: Scenario | None = None,
    picture: bool = True,
    force: bool = False,
    finish: Finish | None = None,
) -> Path:
    """Write a plan and what its JSON holds into a new folder, whole or not at all, and return the folder.

    It holds the scenario that is ``shown`` where one is. ``force`` replaces an earlier folder of airmix; no ``picture``
    is drawn of a plan without other designs. ``finish`` adds files to the complete folder before it gets its name.
    """
    with claim_folder(out, {"scenario": scenario.to_json(), "plan": True}, force=force) as folder:
        write_text(folder.work / "plan.md", plan_page(plain, scenario).to_markdown())
        if picture and plan.drawable:
            draw_plan(plan, scenario, folder.work / "plan.png")
        write_result(folder.work, shown or scenario, {**plain, "run_dir": str(folder.final)})
        return folder.publish(replace=force, finish=finish)


def _side_by_side(own: dict[str, str], found: Plain, instead: Plain | None, scenario: Scenario) -> Table:
    """Return what the scenario takes and brings, and what the recommended one does where it is another."""
    rehearsal = found.get("rehearsal") or {"own": None, "best": None}
    mine = {**_choices(scenario, rehearsal["own"]), **own}
    mine |= {} if found["own_is_tried"] else {"accuracy": NONE}
    title = f"At the same privacy, for {scenario.learner.model}"
    if "basis" in rehearsal:
        title = f"At the same privacy (accuracy: mean of {rehearsal['basis']} ± its standard error)"
    if instead is None:
        return Table(title=title, columns=("", "this scenario"), rows=tuple(mine.items()), words=2)
    changed = scenario.with_overrides(*found["overrides"])
    best = dict.fromkeys(mine, NONE) | _choices(changed, rehearsal["best"]) | dict(_costs(instead, changed))
    rows = ((name, mine.get(name, NONE), "the same" if mine.get(name) == best[name] else best[name]) for name in best)
    return Table(title=title, columns=("", "this scenario", "recommended"), rows=tuple(rows), words=3)


def _choices(scenario: Scenario, design: Plain | None) -> dict[str, str]:
    """Return what is chosen of a design, in words: what learns, and what is sent."""
    mixing = scenario.mixing
    shares = {"equalmix": "equal", "nonmix": "one worker's", "dirmix": f"alpha {mixing.alpha:g}"}
    return {
        **({} if design is None else {"accuracy": _accuracy(design), **_cells(design)}),
        "sends": scenario.workers.sends,
        "schedule": scenario.radio.schedule,
        "shares": shares.get(mixing.policy, mixing.policy),
    }


def _accuracy(design: Plain) -> str:
    digits = 1 if design["error"] >= 0.0005 else 2
    return f"{100.0 * design['accuracy']:.{digits}f} ± {100.0 * design['error']:.{digits}f} %"


def _cells(design: Plain) -> dict[str, str]:
    return {
        "model": design["model"],
        "rounds": f"{design['rounds']:,}",
        "encoder": f"{design['encoder']} {design['features'] or ''}".rstrip(),
        "centre": design["centre"],
        "norm": design["norm"],
        "clip norm": f"{design['clip_norm']:g}",
        "labels": design["label_code"],
        "label weight w": f"{design['label_weight']:g}",
    }


def _costs(plain: Plain, scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what a design takes and brings, in words; nothing of one that is not feasible."""
    if "power_dbm" not in plain:
        return
    workers = scenario.workers
    power, rounds, dimensions = plain["power_dbm"], plain.get("rounds"), plain["dimensions"]
    yield "data", f"{inputs_in_words(workers, dimensions[0])}, {outputs_text(workers.task, dimensions[1])}"
    yield "workers", f"{workers.count:,}, {scenario.radio.scheduled:,} at a time in {scenario.slots_in_words}"
    limited = bool(plain["limited_share"])
    yield "noise multiplier", multipliers_in_words(plain["noise_multipliers"], limited=limited)
    if "power_scale_watts" in plain:
        yield "power scale beta", f"{plain['power_scale_watts']:.3g} W (median slot)"
    yield "power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, limit {power['limit']:g}"
    yield "energy", f"{joules(plain['energy_joules'])} in total, {joules(plain['worker_energy_joules'])} per worker"
    if "attenuation_db" in plain:
        lowest = f"a transmitter sends {scenario.air.min_power_dbm:g} dBm at least"
        yield "attenuators", f"{plain['attenuation_db']:.0f} dB before the median worker's antenna: {lowest}"
    yield "air time", duration(plain["air_seconds"])
    yield from link_rows(plain["link"]) if "link" in plain else ()
    yield from _uplink(plain["uplink"], rounds, scenario)
    if "snr_inputs_db" in plain:
        labels = f", {plain['snr_labels_db']:.1f} dB labels" if "snr_labels_db" in plain else ""
        more = " or more: rows are not read, and correlated inputs give more" if plain.get("snr_is_least") else ""
        yield "SNR", f"{plain['snr_inputs_db']:.1f} dB inputs{labels} (median slot){more}"
    if "frame" in plain:
        yield "air", _frame(plain["frame"], scenario)
    if plain.get("receiver"):
        yield "receiver", plain["receiver"]
    yield from withstood_rows(plain.get("withstands"), plain.get("if_withstood"), scenario)
    if "row_copies" in plain:
        yield _of_a_row(plain, scenario)
    if workers.several_rows:
        yield "rows_bound", _rows_bound(plain["noise_multipliers"][0]["noise_multiplier"], scenario, dimensions)


def _uplink(uplink: Plain, rounds: Plain | None, scenario: Scenario) -> Rows:
    """Return the symbols of the slot for the mean, of the others and of rounds, and how often workers are needed."""
    slots, count = scenario.radio.slots, scenario.learner.rounds
    unit, mean = scenario.radio.link_kind.unit, uplink["symbols_for_mean"]
    parts = [f"{mean:,} for the mean"] if mean else []
    parts.append(f"{uplink['symbols_per_slot']:,} in {'the slot' if slots == 1 else f'each of {slots:,} slots'}")
    parts += [f"{rounds['symbols_per_round']:,} in each of {plural(count, 'round')}"] if rounds and count else []
    total = f": {uplink['uplink_symbols']:,} in total" if len(parts) > 1 or slots > 1 else ""
    rows = [("uplink", f"{', '.join(parts)}{total}".replace(" ", f" {unit} ", 1))]
    if rounds:
        rows.append(("downlink", f"{rounds['downlink_bits_per_round']:,} bits per round, the model for all workers"))
    if rounds or mean:
        rows.append(("reachable", f"workers must be reachable {uplink['reachable']:,} times"))
    if rounds and rounds["share"] < 1.0:
        rows.append(("privacy loss", f"{rounds['share']:.0%} in the rounds, the rest in what comes before them"))
    return rows


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


def _frame(frame: Plain, scenario: Scenario) -> str:
    overhead = 100.0 * (frame["symbols"] / frame["data_symbols"] - 1.0)
    return (
        f"{scenario.air.preset}: {duration(frame['seconds'])} per slot in {plural(frame['blocks'], 'block')}, "
        f"{overhead:.3g} % more symbols than data has, {frame['signal_loss_db']:.1f} dB of the signal lost, "
        f"{frame['margin_db']:.1f} dB margin for privacy"
    )


def _rows_bound(noise_multiplier: float, scenario: Scenario, dimensions: Sequence[int]) -> str:
    """Return which bound on the rows of a worker suits the rows that the scenario lets one assume."""
    workers = scenario.workers
    if not workers.rows_per_worker:
        return "set workers.rows_per_worker to what you assume of the workers, and it is planned"
    symbols = Signal.of(workers, dimensions[0], dimensions[1]).symbols
    rows = assumed_rows(workers.count, workers.rows_per_worker)
    best = plan_rows_bound(rows, noise_multiplier=noise_multiplier, symbols=symbols)
    gain = f", {100 * (1 - best.error / best.error_of_one):.0f} % less error than 1" if best.bound > 1 else ""
    return f"{best.bound:g} for {workers.rows_per_worker:,} rows per worker on average{gain}"


def _others(plain: Plain, scenario: Scenario) -> Iterator[Part]:
    """Yield other designs of samples, integers, masks, and what a wanted accuracy takes."""
    if encoder_of(scenario.workers).bounds_norm and scenario.privacy.sensitivity != "encoder":
        yield "clipping does not allow more power here: set privacy.sensitivity = encoder to count it"
    if "power_dbm" in plain:
        yield f"energy: {scenario.radio.link_kind.energy_in_words(scenario)}"
    if "integers" in plain:
        yield f"integers {integers_in_words(plain['integers'])}"
    if "masks" in plain:
        yield from _masks(plain["masks"])
    if "needed" in plain:
        yield from _needed(plain)


def _masks(masks: Plain) -> Iterator[Part]:
    """Yield what workers add to hide themselves, what is left of it in the sum, and what assumptions cost."""
    noise, times = masks["noise"], masks["times_the_noise"]
    parts = {"workers' own": "own", "gain errors": "gains", "absent workers": "absent", "receiver": "receiver"}
    shares = {name: noise[f"{key}_watts"] / noise["total_watts"] for name, key in parts.items()}
    felt = f", which leaves {times:.3g} times the noise of exact gains" if times > 1.0 else ""
    rows = [("workers' noise", f"{masks['above_thermal_db']:.1f} dB above the receiver's in the sum")]
    if masks["degree"]:
        told = f"{masks['degree']:,} per worker, {masks['neighbours']:,} or more of them shared with honest ones"
        rows.append(("masks", f"{told}; {masks['mask_share']:.3g} of the privacy loss"))
    rows += [
        ("power", f"nearest worker {masks['nearest_dbm']:.1f} dBm, farthest {masks['farthest_dbm']:.1f} dBm"),
        ("gains", f"err by {masks['gain_error']:.2%}{felt}; {masks['absent']:.1%} of the workers do not send"),
        ("noise in the sum", ", ".join(f"{name} {share:.1%}" for name, share in shares.items() if share)),
    ]
    for each in masks["costs"]:
        cost = "impossible" if each["noise_db"] is None else f"{each['noise_db']:+.1f} dB noise"
        rows.append((each["name"], f"{cost} ({each['override']})"))
    yield Table(title="Workers hide themselves", columns=("", ""), rows=tuple(rows), words=2)
    if masks["overrides"]:
        yield f"{masks['gain_db']:.1f} dB less noise in the sum with {', '.join(masks['overrides'])}"


def _needed(plain: Plain) -> Iterator[Part]:
    """Yield what the wanted accuracy takes: how much of each quantity."""
    wanted, basis, rows = 100.0 * plain["wanted_accuracy"], plain["recommended"]["rehearsal"]["basis"], []
    for each in plain["needed"]:
        form = "{:.3g}" if each["quantity"] == "epsilon" else "{:,.0f}"
        if each["value"] is None:
            reached = _accuracy({"accuracy": each["accuracy_at_most"], "error": each["error_at_most"]})
            value = f"not reached: {reached} with {form.format(each['most'])}"
        else:
            value = form.format(each["value"]) + (" or less" if each["value"] == each["least"] > 0 else "")
        rows.append((each["quantity"], form.format(each["planned"]), value))
    title = f"What {wanted:g} % accuracy takes (the mean of {basis})"
    yield Table(title=title, columns=("change one", "recommended", "needed"), rows=tuple(rows), words=3)
    yield "More slots at the same epsilon do not help: they share it."


def _needed_in_a_line(plain: Plain) -> str:
    """Return how many workers or what epsilon the wanted accuracy takes, each changed alone."""
    forms = {"workers": "{:,.0f} workers", "epsilon": "epsilon {:.3g}"}
    asked = [(forms[each["quantity"]], each) for each in plain["needed"] if each["quantity"] in forms]
    told = [form.format(each["value"]) for form, each in asked if each["value"] is not None]
    takes = f"takes {' or '.join(told)}, all else as recommended"
    if not told:
        takes = f"is not reached with up to {' or '.join(form.format(each['most']) for form, each in asked)}"
    return f"{100.0 * plain['wanted_accuracy']:g} % accuracy {takes}"


def _recommendation(found: Plain, scenario: Scenario) -> Iterator[Part]:
    """Yield what was tried, and why it is recommended or kept."""
    rehearsal, workers = found.get("rehearsal"), scenario.workers
    if rehearsal is None:
        kept = "recommended" if found["overrides"] else "kept"
        yield f"{kept}: moments of all workers in one slot, the least noise at the same privacy"
        if workers.several_rows or workers.task != "classification":
            here = "workers have several rows each" if workers.several_rows else f"the task is {workers.task}"
            yield f"no accuracy is expected: that is for classes with one row per worker; {here}"
        return
    own = "this scenario" if found["own_is_tried"] else "this scenario, sent at once"
    yield from _tried(rehearsal, scenario, own)
    reason = rehearsal.get("reason", "")
    if not found["overrides"]:
        yield f"kept: {reason or 'no design that was tried is more accurate'}"
        return
    gained, error = 100.0 * rehearsal["gained"], 100.0 * rehearsal["gained_error"]
    chance = ", which is within chance" if abs(gained) <= error else ""
    told = f"recommended: {gained:+.1f} ± {error:.1f} points against {own}{chance}"
    yield f"{told}; {reason}" if reason else told


def _tried(rehearsal: Plain, scenario: Scenario, its_name: str) -> Iterator[Part]:
    """Yield the best of every learner, encoder and centre, with rounds and without, the own and the recommended."""
    of_images = rehearsal.get("measured_on", "").endswith(")")
    kind = ("model", "encoder", "centre", *(("features", "rounds") if of_images else ()))
    shown: dict[tuple[Any, ...], Plain] = {}
    for each in rehearsal["tried"]:  # the best first
        shown.setdefault((each["rounds"] > 0, *(each[name] for name in kind)), each)
    own, best = rehearsal["own"], rehearsal["best"]
    others = [each for each in shown.values() if each not in (own, best)][: _MOST_LINES - 2]
    kept = [each for each in rehearsal["tried"] if each in (own, best) or each in others]
    cells, marks = [_cells(each) for each in kept], ((own, its_name), (best, "recommended"))
    differ = [name for name in cells[0] if len({each[name] for each in cells}) > 1]
    rows = tuple(
        (
            ", ".join(f"{name} {cell[name]}" for name in differ),
            ", ".join(mark for design, mark in marks if design == each),
            _accuracy(each).removesuffix(" %"),
            f"{each['uplink_symbols']:,}",
        )
        for each, cell in zip(kept, cells, strict=True)
    )
    size = f"{rehearsal['rows']:,} rows, {rehearsal['inputs']:,} inputs, {rehearsal['classes']:,} classes"
    on = f"{rehearsal['basis']} of {size}"
    if "measured_on" in rehearsal:
        on = f"{rehearsal['tables']} {'runs' if of_images else 'splits'} of {rehearsal['measured_on']}"
    title = f"Tried on {on}: mean accuracy in % ± its standard error"
    yield Table(title=title, columns=("design", "", "accuracy", "symbols"), rows=rows, words=2)
    if "measured_on" not in rehearsal:
        fewer = rehearsal["rows"] < scenario.workers.count
        note = "accuracies are of synthetic tables: your data may be easier or harder"
        yield note + (f"; the noise is that of {scenario.workers.count:,} rows" if fewer else "")
    elif of_images:
        yield "on other images accuracies differ, and the order of designs may"


def draw_plan(plan: Plan, scenario: Scenario, path: Path | None = None) -> Figure:
    """Draw accuracy against uplink symbols of the designs tried at the same privacy: one slot, or rounds after it."""
    assert plan.recommended is not None
    rehearsal, privacy = plan.recommended.rehearsal, scenario.privacy
    assert rehearsal is not None
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} ({privacy.accountant}, {privacy.adversary})"
    figure = new_figure(8, 5, f"{plan.title}: designs with {target}")
    axis = figure.subplots()
    lines: dict[str, dict[int, TriedDesign]] = {}
    for each in rehearsal.tried:  # the best first
        name = f"{each.design.encoder} {each.design.features or ''}".rstrip()
        lines.setdefault(name, {}).setdefault(each.design.rounds, each)
    for name, by_rounds in lines.items():
        some = [by_rounds[rounds] for rounds in sorted(by_rounds)]
        percent = [100.0 * each.accuracy for each in some]
        axis.plot([each.uplink_symbols for each in some], percent, ".-", label=name)
        steps = [0.0, *(after - before for before, after in pairwise(percent)), 0.0]
        for each, height, before, after in zip(some, percent, steps, steps[1:], strict=False):
            above, left = before >= after, (before + after > 0.0) == (before >= after)  # where the line is not
            beside: dict[str, Any] = {"ha": "right" if left else "left", "va": "bottom" if above else "top"}
            beside |= {"xytext": (-7 if left else 7, 3 if above else -3), "textcoords": "offset points"}
            axis.annotate(f"R = {each.design.rounds}", (each.uplink_symbols, height), fontsize=7, **beside)
    marks = (rehearsal.own, "this scenario", "o", 9), (rehearsal.best, "recommended", "*", 16)
    for each, name, marker, size in marks:
        axis.plot(each.uplink_symbols, 100.0 * each.accuracy, label=name, marker=marker, markersize=size, **_MARK)
    axis.set(xscale="log", xlabel="uplink symbols", ylabel=f"accuracy on {rehearsal.basis} (%)")
    finish_axis(axis, "One slot of moments, or R rounds after it", size=12)
    figure.legend(loc="outside right center", fontsize=8)
    return save_figure(figure, path)
