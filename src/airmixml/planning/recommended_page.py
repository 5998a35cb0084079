"""What a plan recommends, in lines and tables: designs side by side, what was tried, and what an accuracy takes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from airmixml.output.tables import Table
from airmixml.scenario import Scenario

# Above this, ten classes of digits were learnt with errors of 70 % and more (benchmarks/check_plan.py).
_CHANCE_DB: Final = -4.0
_SHARES: Final = {"equalmix": "equal shares", "nonmix": "one worker's share"}
_MOST_LINES: Final = 9  # of a table of designs: their numbers have one digit

ALPHA: Final = "alpha: how equal the shares of a slot's workers are, larger is more equal"
_WORDS: Final = {
    "label weight w": "w: how loudly the label is sent beside the inputs",
    "at a time": "at a time: workers that send in a slot",
    "alpha": ALPHA,
    "learning noise": "learning noise: the noise in the equation that the learner solves, relative to one sample",
}

Plain = Mapping[str, Any]
"""A plan, or a part of one, as JSON has it."""
Part = str | Table
"""A line or a table."""


def needed_parts(plain: Plain) -> Iterator[Part]:
    """Yield what the wanted accuracy takes: how much of each quantity, with how far single tables are apart."""
    wanted, rehearsal = 100.0 * plain["wanted_accuracy"], plain["recommended"]["rehearsal"]
    single = rehearsal["basis"].split()[1].removesuffix("s") if "measured_on" in rehearsal else "table"
    rows = []
    for each in plain["needed"]:
        form = "{:.3g}" if each["quantity"] == "epsilon" else "{:,.0f}"

        def told(value: float, form: str = form) -> str:
            return form.format(value)

        if each["value"] is None:
            reached = _accuracy({"accuracy": each["accuracy_at_most"], "error": each["error_at_most"]})
            needed = f"not reached: {reached} with {told(each['most'])}"
        else:
            needed = told(each["value"]) + (" or less" if each["value"] == each["least"] > 0 else "")
        if not each["reached"]:
            apart = f"no {single} of {each['tables']}"
        elif each["latest"] is None:
            apart = f"from {told(each['earliest'])}; {each['tables'] - each['reached']} of {each['tables']} never"
        else:
            apart = " to ".join(dict.fromkeys((told(each["earliest"]), told(each["latest"]))))
        rows.append((each["quantity"], told(each["planned"]), needed, apart))
    columns = ("change one", "recommended", "needed for the mean", f"for single {single}s")
    error = " ± its standard error" if any(each["value"] is None for each in plain["needed"]) else ""
    title = f"What {wanted:g} % accuracy takes (the mean of {rehearsal['basis']}{error})"
    yield Table(title=title, columns=columns, rows=tuple(rows), words=4)
    yield (
        f"The recommended design is expected to reach {_accuracy(rehearsal['best'])}. More slots at the same epsilon "
        "do not help: they share it."
    )


def needed_in_a_line(plain: Plain) -> str:
    """Return how many workers or what epsilon the wanted accuracy takes, each changed alone."""
    values = {each["quantity"]: each["value"] for each in plain["needed"] if each["value"] is not None}
    forms = {"workers": "{:,.0f} workers", "epsilon": "epsilon {:.3g}"}
    told = [form.format(values[name]) for name, form in forms.items() if name in values]
    takes = f"takes {' or '.join(told)}, all else as recommended"
    if not told:
        tried = {each["quantity"]: each for each in plain["needed"]}
        most = {name: form.format(tried[name]["most"]) for name, form in forms.items() if name in tried}
        # Of a public set no more workers are tried than it has rows for.
        workers, of_set = tried.get("workers"), "measured_on" in plain["recommended"]["rehearsal"]
        if of_set and workers is not None and workers["most"] == workers["planned"]:
            most["workers"] += ", all that the data have,"
        takes = f"is not reached with up to {' or '.join(most.values())}"
    return f"{100.0 * plain['wanted_accuracy']:g} % accuracy {takes}"


def recommendation_parts(found: Plain | None, scenario: Scenario, command: Sequence[str]) -> Iterator[Part]:
    """Yield what to send so that a closed-form learner learns best, why, and the command that does it."""
    if found is None:
        yield "no design that can learn fits into the time on the air: raise --max-air-seconds"
        return
    own, best, rehearsal = _learning_cells(found["own"]), _learning_cells(found), found.get("rehearsal")
    rows: list[tuple[str, ...]] = [(name, own[name], best[name]) for name in own]
    title = f"At the same privacy, for {scenario.learner.model}"
    if rehearsal is not None:
        mine, other = (_design_cells(rehearsal[name]) for name in ("own", "best"))
        rows = [(name, mine[name], other[name]) for name in mine] + [row for row in rows if row[0] not in mine]
        title = f"At the same privacy (accuracy: mean of {rehearsal['basis']} ± its standard error)"
    rows = [row for row in rows if row[1:] != ("0", "0")]
    if not found["overrides"]:
        rows = [row[:2] for row in rows]
    columns = ("", "this scenario", "recommended")[: len(rows[0])]
    yield Table(title=title, columns=columns, rows=tuple(rows), words=3)
    yield "; ".join(_WORDS[name] for name, *_ in rows if name in _WORDS)
    if rehearsal is not None:
        yield from _rehearsal(rehearsal, scenario)
    yield from _why(found, rehearsal)
    yield "run it with:"
    yield shlex.join(with_set(command, found["overrides"]))
    if "BOUNDS.toml" in command:
        yield (
            "TABLE.csv is your file and CLASS its column to learn; BOUNDS.toml has a line COLUMN = [lower, upper] for "
            "each input"
        )
    if found.get("learning_noise_db", math.inf) > _CHANCE_DB:
        yield "at this target even the best design is nearly all noise: expect little better than guessing"
    if "note" in found:
        yield found["note"]
    workers = scenario.workers
    if rehearsal is None and (workers.several_rows or workers.task != "classification"):
        here = "workers have several rows each" if workers.several_rows else f"the task is {workers.task}"
        yield f"no accuracy is expected and no designs are tried: that is for classes with one row per worker; {here}"


def _why(found: Plain, rehearsal: Plain | None) -> Iterator[str]:
    """Yield why it is recommended, or kept, in words."""
    gain_db = found.get("gain_db", math.inf)
    if rehearsal is None:
        if not found["overrides"]:
            yield "kept: no other design leaves the learner with less noise"
            return
        gain = f"{abs(gain_db):.1f} dB {'less' if gain_db >= 0 else 'more'} learning noise"
        if gain_db < 0:
            gain = f"this scenario is on the air for longer than is allowed; within the limit, {gain}"
        if not math.isfinite(gain_db):
            gain = "the first signal"
        yield f"recommended: {gain}"
        return
    best, own = rehearsal["best"], rehearsal["own"]
    reason = rehearsal.get("reason", "no design that was tried is more accurate")
    if not found["overrides"]:
        yield f"kept: {reason}"
        return
    gained, error = 100.0 * rehearsal["gained"], 100.0 * rehearsal["gained_error"]
    chance = ", which is within chance" if abs(gained) <= error else ""
    fewer = 100.0 * (1.0 - best["uplink_symbols"] / own["uplink_symbols"])
    thrift = f", with {fewer:.0f} % fewer symbols" if fewer >= 1.0 else ""
    yield f"recommended: {gained:+.1f} ± {error:.1f} points against this scenario{chance}{thrift}"
    yield from [reason] if "reason" in rehearsal else []


def with_set(command: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the command with these keys set, each once: what it set of them before is left out."""
    keys, words = {each.partition("=")[0] for each in overrides}, list(command)
    for at in range(len(words) - 2, -1, -1):
        if words[at] == "--set" and words[at + 1].partition("=")[0].strip() in keys:
            del words[at : at + 2]
    return words + [word for each in overrides for word in ("--set", each)]


def _rehearsal(rehearsal: Plain, scenario: Scenario) -> Iterator[Part]:
    """Yield the best of every learner, encoder and centre, with rounds and without, the own and the recommended."""
    shown: dict[tuple[Any, ...], Plain] = {}
    of_images = rehearsal.get("measured_on", "").endswith(")")
    for each in rehearsal["tried"]:
        kind = ("model", "encoder", "centre", "features", "rounds") if of_images else ("model", "encoder", "centre")
        shown.setdefault((each["rounds"] > 0, *(each[name] for name in kind)), each)
    marked = [rehearsal["own"], rehearsal["best"]]
    others = [each for each in shown.values() if each not in marked]
    kept = [each for each in rehearsal["tried"] if each in marked or each in others[: _MOST_LINES - 2]]
    cells = [_line(each) for each in kept]
    if len({each["clip_norm"] for each in kept if each["norm"] == "clip"}) > 1:
        for cell, each in zip(cells, kept, strict=True):
            cell["norm"] += f" {each['clip_norm']:g}" if each["norm"] == "clip" else ""
    same = {name: cells[0][name] for name in list(cells[0])[1:-1] if len({row[name] for row in cells}) == 1}
    columns = [name for name in cells[0] if name not in same]
    rows = [(f"{number}", *(row[name] for name in columns)) for number, row in enumerate(cells, start=1)]
    size = f"{rehearsal['rows']:,} rows, {rehearsal['inputs']:,} inputs, {rehearsal['classes']:,} classes"
    on = f"{rehearsal['basis']} of {size}"
    if "measured_on" in rehearsal:
        on = f"{rehearsal['tables']} {'runs' if of_images else 'splits'} of {rehearsal['measured_on']}"
    title = f"Tried on {on}: mean accuracy in % ± its standard error"
    yield Table(title=title, columns=("#", *columns), rows=tuple(rows), spare=("symbols",))
    own, best = (kept.index(each) + 1 for each in marked)
    lines = (
        f"line {best} is recommended and line {own} is this scenario" if own != best else f"line {own} is this scenario"
    )
    alike = "; all lines: " + ", ".join(f"{name} {cell}" for name, cell in same.items()) if same else ""
    yield f"{lines}{alike}"
    if "measured_on" not in rehearsal:
        yield "accuracies are of synthetic tables: your data may be easier or harder"
    if of_images:
        yield "on other images accuracies differ, and the order of designs may"
    elif rehearsal["rows"] < scenario.workers.count:
        yield f"(with the noise of {scenario.workers.count:,} rows; larger tables are drawn with fewer)"


def _line(design: Plain) -> dict[str, str]:
    features = f" {design['features']}" if design["features"] else ""
    return {
        "accuracy": _accuracy(design).removesuffix(" %"),
        "model": design["model"],
        "rounds": f"{design['rounds']:,}",
        "encoder": f"{design['encoder']}{features}",
        "centre": design["centre"],
        "norm": design["norm"],
        "labels": design["label_code"],
        "w": f"{design['label_weight']:g}",
        "symbols": f"{design['uplink_symbols']:,}",
    }


def _accuracy(design: Plain) -> str:
    digits = 1 if design["error"] >= 0.0005 else 2
    return f"{100.0 * design['accuracy']:.{digits}f} ± {100.0 * design['error']:.{digits}f} %"


def _design_cells(design: Plain) -> dict[str, str]:
    encoder, features = design["encoder"], design["features"]
    return {
        "accuracy": _accuracy(design),
        "learner": design["model"],
        "rounds": f"{design['rounds']:,}",
        "encoder": f"{encoder}, {features} features" if features else encoder,
        "centre": design["centre"],
        "norm": f"{design['norm']}, {design['clip_norm']:g}",
        "labels": design["label_code"],
        "label weight w": f"{design['label_weight']:g}",
    }


def _learning_cells(option: Plain) -> dict[str, str]:
    alone = " without rounds" if option["rounds"] else ""
    return {
        "sends": option["sends"],
        "label weight w": f"{option['label_weight']:g}",
        "at a time": f"{option['scheduled']:,}",
        "slots": f"{option['slots']:,}",
        "rounds": f"{option['rounds']:,}",
        "schedule": option["schedule"],
        "alpha": _SHARES.get(option["policy"], f"{option['alpha'] or option['policy']}"),
        "learning noise": f"{option['learning_noise_db']:.1f} dB{alone}" if "learning_noise_db" in option else "all",
    }
