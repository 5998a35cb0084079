"""A comparison as tables, a picture and a page, made of what its JSON file holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.compare.methods import HEARING, LEVEL
from airmixml.messages import NONE, against, duration, epsilon_text, joules, plural, sentence
from airmixml.output.cards import seeds_option
from airmixml.output.figures import BLACK, BLUE, GREY, ORANGE, finish_axis, new_figure
from airmixml.output.page import Folded, Page, Part, Section
from airmixml.output.tables import Table, rows_csv
from airmixml.scenario import Scenario
from airmixml.sweeps.cells import flat
from airmixml.sweeps.sweep_page import BARE, SIMULATED_SEEDS, write_study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Plain = dict[str, Any]
_CHANCE: Final = (
    f"Beyond chance: p < {LEVEL:g} for each pair, by McNemar's exact test on the test rows of one seed, or by a paired "
    "t test over test rows and seeds."
)
_COSTS: Final = (
    "Slots per worker say how often each must be reachable. Uplink symbols are the channel uses of the whole run, all "
    "workers together, or bits on a digital link, and downlink bits what the server broadcasts; energy is what a "
    "worker radiates on average; multiply-accumulates (MACs) are those of one average worker. The epsilon holds if "
    "what is trusted is true."
)


def methods_table(plain: Plain) -> Table:
    """Return one line per method: accuracy, and the worst seed's epsilon with what it rests on."""
    rows = []
    for row in plain["rows"]:
        own, spread = row["privacy"][0], row["accuracy"]["deviation"]
        percent = f"{100 * row['accuracy']['mean']:.2f}" + ("" if spread is None else f" ± {100 * spread:.2f}")
        rests_on = row["exposure"]["rests_on"]
        rows.append((row["method"], percent, epsilon_text(own["epsilon"]), own["adversary"], rests_on))
    columns = ("method", "accuracy %", "epsilon", "against", "epsilon rests on")
    return Table(columns=columns, rows=tuple(rows), options=BARE)


def adversaries_table(plain: Plain, scenario: Scenario) -> Table:
    """Return epsilon of every method against each adversary, and for the other kind of neighbours."""
    rows = []
    for row in plain["rows"]:
        said, (_, *other) = row["exposure"], row["privacy"]
        others = f"{epsilon_text(other[0]['epsilon'])} ({other[0]['adjacency']})" if other else NONE
        # JSON has no infinity; None is the epsilon of an adversary who hears nothing.
        heard = (math.inf if said[name] == "infinite" else said[name] for name in HEARING)
        rows.append((row["method"], *(_text(epsilon, epsilon_text) for epsilon in heard), others))
    note = (
        f"{scenario.privacy.adjacency} neighbours, delta {scenario.privacy.delta:g}; the worst seed's, by the sharpest "
        "accountant. Everyone: hears every worker separately, without receiver noise, and knows what the server knows. "
        "No guarantee: nothing is promised."
    )
    columns = ("method", *HEARING, "other neighbours")
    return Table(title="Epsilon against each adversary", note=note, columns=columns, rows=tuple(rows))


def costs_table(plain: Plain, scenario: Scenario) -> Table:
    """Return what every method takes of time, energy and spectrum, and what is trusted."""
    workers = scenario.workers.count
    rows = tuple(
        (
            row["method"],
            _text(row["slots_per_worker"], "{:,}".format),
            _text(row["uplink_symbols"], lambda sent, unit=row["uplink_unit"]: f"{sent:,} {unit}"),
            _text(row["downlink_bits"], "{:,}".format),
            _text(row["air_seconds"], duration),
            _text(row["energy_joules"], lambda spent: joules(spent / workers)),
            _text(row["bandwidth_hz"], lambda width: f"{width / 1e6:.3g} MHz"),
            f"{row['worker_multiply_accumulates']:,}",
            duration(row["seconds"]),
            row["trusted"] or NONE,
        )
        for row in plain["rows"]
    )
    columns = ("method", "slots per worker", "uplink", "downlink bits", "air time", "energy per worker", "spectrum")
    return Table(
        title="Time, energy, spectrum and trust",
        note=f"Channel profile {scenario.air.preset}. {_COSTS}",
        columns=(*columns, "worker MACs", "wall time", "trusted"),
        rows=rows,
    )


def _text(value: Any, form: Any) -> str:
    return NONE if value is None else str(form(value))


def comparison_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a comparison tells."""
    rows, privacy, seeds = plain["rows"], scenario.privacy, len(plain["seeds"])
    target = f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g} {against(privacy.adversary)}"
    left_out = plain["left_out"]
    notes = [*plain["notes"], *([f"left out: {', '.join(left_out)}"] if left_out else [])]
    words = [f"{row['method']}: {row['about']}" for row in rows]
    words += [f"left out: {name} ({why})" for name, why in left_out.items()]
    every: list[Part] = [adversaries_table(plain, scenario), costs_table(plain, scenario), *words, _CHANCE]
    # Without facts, so that all methods fit one screen.
    return Page(
        kind="comparison",
        title=f"{scenario.title} and its alternatives at {target}",
        verdict=plain["verdict"],
        notices=(SIMULATED_SEEDS,),
        sections=(
            Section("asked", "What was asked"),
            Section(
                "tables",
                "Tables",
                methods_table(plain),
                sentence("; ".join(notes) or "accuracy: on the clean test set"),
                Folded(summary="Epsilon against each adversary, costs, and what each method is", parts=tuple(every)),
            ),
        ),
        command=("compare", "--methods", ",".join(row["method"] for row in rows), *seeds_option(seeds)),
    )


def write_comparison(plain: Plain, scenario: Scenario, out: Path) -> list[Path]:
    """Write the page as Markdown, rows as CSV, JSON and the picture."""
    rows = list(map(_flat, plain["rows"]))
    names = dict.fromkeys(name for row in rows for name in row)
    return write_study(
        out / "compare",
        comparison_page(plain, scenario),
        plain,
        comparison_figure(plain, scenario),
        csv=rows_csv([{name: row.get(name) for name in names} for row in rows]),
    )


def _flat(row: Plain) -> Plain:
    """Return all numbers of a row by names with dots, for other programs."""
    own, *other = row["privacy"]
    return flat({**row, "privacy": own, "other_neighbours": other[0] if other else {}}, leave_out=("about",))


def comparison_figure(plain: Plain, scenario: Scenario) -> Figure:
    """Return the picture of what the JSON file of a comparison holds."""
    rows, privacy = plain["rows"], scenario.privacy
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} {against(privacy.adversary)} ({privacy.adjacency})"
    seeds = plural(len(plain["seeds"]), "seed")
    title = f"{scenario.title}: {scenario.workers.count:,} workers, target {target}, {seeds}"
    figure = new_figure(8.6, 1.9 + 0.52 * max(len(rows), 5), title)
    axis = figure.subplots()
    _bars(axis, rows)
    guessing = 100.0 * plain["guess"]
    axis.axvline(guessing, color=BLACK, linestyle=":", linewidth=1.2, zorder=0.5, label=f"guessing {guessing:.0f} %")
    axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(guessing / 102.0, 1.0), frameon=False)
    return figure


def _colour(row: Plain) -> str:
    if row["method"] in ("airmix", "airmix-rounds"):
        return ORANGE
    return GREY if row["privacy"][0]["target_epsilon"] is None else BLUE


def _bars(axis: Axes, rows: Sequence[Plain]) -> None:
    places = np.arange(len(rows))[::-1]
    means = [100.0 * row["accuracy"]["mean"] for row in rows]
    spread = [100.0 * (row["accuracy"]["deviation"] or 0.0) for row in rows]
    ends = {"ecolor": "0.15", "capsize": 3, "linewidth": 1.2}
    xerr = spread if any(spread) else None
    axis.barh(places, means, xerr=xerr, color=[_colour(row) for row in rows], height=0.66, error_kw=ends)
    for place, mean, above, row in zip(places, means, spread, rows, strict=True):
        privacy = row["privacy"][0]
        text = f"{mean:.2f} %    ε = {epsilon_text(privacy['epsilon'])} vs. {privacy['adversary']}"
        where, colour = (1.5, "white") if mean > 55.0 else (mean + above + 2.5, "0.15")
        axis.text(where, place, text, va="center", fontsize=9, color=colour)
    axis.set_yticks(places, [row["method"] for row in rows])
    axis.set(xlim=(0.0, 102.0), xlabel="accuracy on the clean test set [%]")
    finish_axis(axis)
    axis.grid(visible=False, axis="y")
    axis.set_axisbelow(True)
