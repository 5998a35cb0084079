"""A comparison as tables and a page, made of what its JSON file holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from airmixml.compare.chance import LEVEL
from airmixml.compare.comparison_picture import comparison_figure
from airmixml.compare.methods import HEARING
from airmixml.output.cards import cards_of, claimed_card
from airmixml.output.commands import seeds_option
from airmixml.output.page import Card, Cards, Folded, Lines, Page, section
from airmixml.output.tables import Table, rows_csv
from airmixml.privacy import PrivacyStatement
from airmixml.scenario import Scenario
from airmixml.storage.files import from_plain
from airmixml.sweeps.cells import flat
from airmixml.sweeps.study_files import BARE, SIMULATED_SEEDS, write_study
from airmixml.wording import NONE, against, duration, epsilon_text, joules, sentence
from airmixml.workers.population import row_name

Plain = dict[str, Any]
_ONE_LINE: Final = 42  # of what a method is, on a terminal of 80 characters
_CHANCE: Final = (
    f"Beyond chance: p < {LEVEL:g} for each pair, by McNemar's exact test on the test rows of one seed, or by a paired "
    "t test over test rows and seeds. Rank 1: the most accurate and those that it does not beat beyond chance, or that "
    "are as accurate as one of those; then the same of the rest."
)
_COSTS: Final = (
    "Slots per worker say how often each must be reachable. Uplink symbols are the channel uses of the whole run, all "
    "workers together, or bits on a digital link, and downlink bits what the server broadcasts; energy is what a "
    "worker radiates on average; multiply-accumulates (MACs) are those of one average worker. The epsilon holds if "
    "what is trusted is true."
)


def methods_table(plain: Plain, scenario: Scenario) -> Table:
    """Return one line per method: rank, accuracy, the worst seed's epsilon, and energy."""
    copies = max((row["row"]["copies"] for row in plain["rows"] if row["row"]["epsilon"] is not None), default=0)
    of_row = row_name(scenario.workers, copies).removesuffix(" of the data") if copies else ""
    rows = []
    for row in plain["rows"]:
        own, spread = row["privacy"][0], row["accuracy"]["deviation"]
        percent = f"{100 * row['accuracy']['mean']:.2f}" + ("" if spread is None else f" ± {100 * spread:.2f}")
        texts = [f"{row['rank'] or NONE}", percent, epsilon_text(own["epsilon"]), own["adversary"]]
        texts += [_epsilon(row["row"]["epsilon"])] if of_row else []
        rows.append((row["method"], *texts, _text(row["energy_joules"], joules)))
    columns = ("method", "rank", "accuracy %", "epsilon", "against", *filter(None, [of_row]), "energy")
    return Table(columns=columns, rows=tuple(rows), spare=("energy",), options=BARE)


def legend_table(plain: Plain) -> Table:
    """Return what each method is and what its guarantee rests on; variants of methods that ran share a line."""
    lines: dict[tuple[str, str], list[str]] = {}
    run = {row["method"] for row in plain["rows"]}
    for row in plain["rows"]:
        base, _, variant = row["method"].rpartition("-")
        alike = base in run and row["about"].startswith(f"{base}, ")
        name, about = row["method"], row["about"]
        if alike:
            name, about = f"...-{variant}", f"the same{about.removeprefix(base)}"
        elif row["note"] and len(f"{about} ({row['note']})") <= _ONE_LINE:
            about = f"{about} ({row['note']})"
        lines.setdefault((name, about), []).append((row["exposure"] or {}).get("rests_on", NONE))
    rows = tuple((*line, rests[0] if len(set(rests)) == 1 else "the same") for line, rests in lines.items())
    return Table(columns=("method", "what it is", "epsilon rests on"), rows=rows, words=3, options=BARE)


def adversaries_table(plain: Plain, scenario: Scenario) -> Table:
    """Return epsilon of every method against each adversary, and for the other kind of neighbours."""
    rows = []
    for row in plain["rows"]:
        said, (_, *other) = row["exposure"] or {}, row["privacy"]
        others = f"{epsilon_text(other[0]['epsilon'])} ({other[0]['adjacency']})" if other else NONE
        rows.append((row["method"], *(_epsilon(said.get(name)) for name in HEARING), others))
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


def _epsilon(value: float | str | None) -> str:
    """Return an epsilon of JSON, which has no infinity; None is that of an adversary who hears nothing."""
    return _text(math.inf if value == "infinite" else value, epsilon_text)


def comparison_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a comparison tells; cards are those of the first method, tables have every one."""
    rows, privacy, seeds = plain["rows"], scenario.privacy, len(plain["seeds"])
    target = f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g} {against(privacy.adversary)}"
    left_out = plain["left_out"]
    notes = [*plain["notes"], *([f"left out: {', '.join(left_out)}"] if left_out else [])]
    reasons = Lines(tuple(f"left out: {name} ({why})" for name, why in left_out.items()))
    every = adversaries_table(plain, scenario), costs_table(plain, scenario), reasons, _CHANCE
    # Without facts, so that all methods fit one screen.
    return Page(
        kind="comparison",
        title=f"{scenario.title} and its alternatives at {target}",
        verdict=plain["verdict"],
        notices=(SIMULATED_SEEDS,),
        sections=(
            section("asked", "What was asked"),
            section("privacy", "Who learns what", Cards(title=rows[0]["method"], cards=_cards(rows[0], scenario))),
            section(
                "tables",
                "Tables",
                methods_table(plain, scenario),
                legend_table(plain),
                sentence("; ".join(notes) or "accuracy: on the clean test set"),
                Folded(summary="Epsilon against each adversary, and costs", parts=every),
            ),
        ),
        command=("compare", "--methods", ",".join(row["method"] for row in rows), *seeds_option(seeds)),
    )


def _cards(row: Plain, scenario: Scenario) -> tuple[Card, ...]:
    """Return the cards of a method: what it states, and for other adversaries what it exposes."""
    statements = [from_plain(PrivacyStatement, each) for each in row["privacy"]]
    told = {each.adversary for each in statements}
    cards = [card for card in cards_of(statements, scenario) if card.adversary in told]
    exposure = row["exposure"] or {}
    for adversary in HEARING:
        if adversary not in told and (value := exposure.get(adversary)) is not None:
            epsilon = math.inf if value == "infinite" else float(value)
            cards.append(claimed_card(adversary, epsilon, scenario, extra=(("rests on", exposure["rests_on"]),)))
    return tuple(cards)


def write_comparison(plain: Plain, scenario: Scenario, out: Path) -> list[Path]:
    """Write the page as Markdown, rows as CSV, the table of methods as LaTeX, JSON and the picture."""
    rows = list(map(_flat, plain["rows"]))
    names = dict.fromkeys(name for row in rows for name in row)
    return write_study(
        out / "compare",
        comparison_page(plain, scenario),
        plain,
        comparison_figure(plain, scenario),
        csv=rows_csv([{name: row.get(name) for name in names} for row in rows]),
        tex=methods_table(plain, scenario).to_latex(),
    )


def _flat(row: Plain) -> Plain:
    """Return all numbers of a row by names with dots, for other programs."""
    own, *other = row["privacy"]
    return flat({**row, "privacy": own, "other_neighbours": other[0] if other else {}}, leave_out=("about",))
