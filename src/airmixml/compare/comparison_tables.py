"""The comparison as a table in files and on the terminal, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from airmixml.compare.comparison import Comparison, Row
from airmixml.compare.comparison_picture import comparison_figure
from airmixml.compare.methods import HEARING
from airmixml.output.figures import save_png_and_svg
from airmixml.output.tables import Table, rows_csv, wide_table, write_all
from airmixml.storage.files import writing_to
from airmixml.wording import NONE, against, duration, epsilon_text, joules, plural, short_count

# What a narrow terminal does without, first to last.
_SPARE: Final = (
    *("wall time", "MACs", "air time", "downlink", "symbols", "bits", "uplink", "slots each"),
    *("replace-one", "remove-one"),
)


def write_comparison(comparison: Comparison) -> list[Path]:
    """Write the table as Markdown, CSV, LaTeX and JSON and the picture as PNG and SVG; return the files."""
    stem, table = comparison.out / "compare", comparison_table(comparison)
    tables = table, adversaries_table(comparison), trust_table(comparison)
    texts = {
        ".md": "\n".join(each.to_markdown() for each in tables) + "\n![comparison](compare.png)\n",
        ".csv": rows_csv([_flat(row) for row in comparison.rows]),
        ".tex": table.to_latex(),
        ".json": json.dumps(comparison.to_dict(), indent=1, allow_nan=False) + "\n",
    }
    with writing_to(comparison.out):
        return write_all(stem, texts) + save_png_and_svg(comparison_figure(comparison), stem)


def comparison_table(comparison: Comparison) -> Table:
    """Return one line per row of the comparison, with all digits."""
    name, title = comparison.scenario.title, comparison.varied or "method"
    varied = f"{name} at several values of {title}" if comparison.varied else f"{name} and its alternatives"
    unit = _uplink_unit(comparison)
    cells = [_cells(row, unit, brief=False) for row in comparison.rows]
    rows = tuple((row.label, *texts.values()) for row, texts in zip(comparison.rows, cells, strict=True))
    return Table(title=varied, note=_note(comparison), columns=(title, *cells[0]), rows=rows)


def adversaries_table(comparison: Comparison) -> Table:
    """Return accuracy and epsilon of every row against each adversary, whichever of them the target is for."""
    rows = tuple(
        (row.label, f"{100 * row.accuracy:.2f} %", *_against_each(row).values())
        for row in comparison.rows
        if row.exposure is not None
    )
    privacy = comparison.scenario.privacy
    note = (
        f"{privacy.adjacency} neighbours, delta {privacy.delta:g}. Everyone: hears every worker separately, without "
        "receiver noise, and knows what the server knows. No guarantee: nothing is promised."
    )
    columns = (comparison.varied or "method", "accuracy", *HEARING, "rests on")
    return Table(title="Epsilon against each adversary", note=note, columns=columns, rows=rows)


def trust_table(comparison: Comparison) -> Table:
    """Return what every row that is sent over a radio takes of time, energy and spectrum, and who is trusted."""
    workers = comparison.scenario.workers.count
    rows = tuple(
        (
            row.label,
            f"{100 * row.accuracy:.2f} %",
            row.privacy[0].adversary,
            duration(row.first.air_seconds),
            NONE if row.energy_joules is None else joules(row.energy_joules / workers),
            NONE if row.first.bandwidth_hz is None else f"{row.first.bandwidth_hz / 1e6:.3g} MHz",
            row.first.trusted or NONE,
        )
        for row in comparison.rows
        if row.first.air_seconds is not None
    )
    note = (
        f"Channel profile {comparison.scenario.air.preset}. Epsilon of the target holds against the adversary if what "
        "is trusted is true; air time is that of the whole run, in the spectrum given, and energy what a worker "
        "radiates."
    )
    columns = (comparison.varied or "method", "accuracy", "against", "air time", "energy per worker", "spectrum")
    return Table(title="Time, energy, spectrum and trust", note=note, columns=(*columns, "trusted"), rows=rows)


def _against_each(row: Row) -> dict[str, str]:
    """Return the texts of epsilon against each adversary, and what it rests on."""
    said = {} if row.exposure is None else {name: getattr(row.exposure, name) for name in HEARING}
    texts = {name: NONE if said.get(name) is None else epsilon_text(said[name]) for name in HEARING}
    return {**texts, "rests on": NONE if row.exposure is None else row.exposure.rests_on}


def brief_table(comparison: Comparison) -> Table:
    """Return one line per row for the terminal, with fewer digits."""
    from rich.markup import escape

    unit = _uplink_unit(comparison)
    rows = [_cells(row, unit, brief=True) for row in comparison.rows]
    return wide_table(
        [comparison.varied or "method", *rows[0]],
        [[row.label, *texts.values()] for row, texts in zip(comparison.rows, rows, strict=True)],
        title=f"{escape(comparison.scenario.title)}: {_target(comparison)}; {plural(len(comparison.seeds), 'seed')}",
        spare=_SPARE,
    ).plain


def brief_trust_tables(comparison: Comparison) -> list[Table]:
    """Return the tables of epsilon against each adversary, and of time, energy and trust, for the terminal."""
    found = []
    for table in (adversaries_table(comparison), trust_table(comparison)):
        # What an epsilon rests on is its condition: words wrap, and no width leaves them out.
        columns, *rows = [(row[0], row[-1], *row[1:-1]) for row in (table.columns, *table.rows)]
        title = table.title[0].lower() + table.title[1:]
        spare = ("accuracy", "spectrum", "energy per worker", "air time")  # the first table has the accuracy
        found.append(wide_table(columns, rows, words=2, title=title, spare=spare).plain)
    return [table for table in found if table.rows]


def _uplink_unit(comparison: Comparison) -> str:
    """Return what the uplink of all rows is counted in, symbols or bits; empty: some in these, some in those."""
    units = {row.first.uplink_unit for row in comparison.rows if row.first.uplink_symbols is not None}
    return units.pop() if len(units) == 1 else "" if units else "symbols"


def _cells(row: Row, unit: str, *, brief: bool) -> dict[str, str]:
    """Return the texts of a row by their columns; each names the unit of its uplink where the column does not."""
    first, own, other = row.first, row.privacy[0], row.privacy[1] if len(row.privacy) > 1 else None
    spread = "" if row.deviation is None else f" ± {100 * row.deviation:.2f}"
    accuracy, epsilon = f"{100 * row.accuracy:.2f}{spread}", epsilon_text(own.epsilon)
    others = NONE if other is None else epsilon_text(other.epsilon)
    uplink, downlink, sent = first.uplink_symbols, first.downlink_bits, first.slots_per_worker
    counted = "" if unit else f" {first.uplink_unit}"
    operations = first.worker_multiply_accumulates
    on_air = NONE if first.air_seconds is None else duration(first.air_seconds)
    energy = NONE if row.energy_joules is None else joules(row.energy_joules)
    wall_time = duration(row.seconds)
    if brief:
        return {
            "accuracy [%]": accuracy,
            "epsilon": epsilon,
            "against": own.adversary,
            "replace-one" if own.adjacency == "remove-one" else "remove-one": others,
            "slots each": NONE if sent is None else f"{sent:,}",
            unit or "uplink": NONE if uplink is None else f"{short_count(uplink)}{counted}",
            "downlink": NONE if downlink is None else short_count(downlink),
            "air time": on_air,
            "energy": energy,
            "MACs": short_count(operations),
            "wall time": wall_time,
        }
    return {
        "accuracy": f"{accuracy} %",
        "epsilon": f"{epsilon} ({own.adversary}, {own.adjacency})",
        "other neighbours": others if other is None else f"{others} ({other.adjacency})",
        "slots per worker": NONE if sent is None else f"{sent:,}",
        f"uplink {unit}".strip(): NONE if uplink is None else f"{uplink:,}{counted}",
        "downlink bits": NONE if downlink is None else f"{downlink:,}",
        "air time": on_air,
        "energy": energy,
        "worker MACs": f"{operations:,}",
        "wall time": wall_time,
    }


def _target(comparison: Comparison) -> str:
    privacy = comparison.scenario.privacy
    shown = {"privacy.epsilon": f"target epsilon {privacy.epsilon:g}", "privacy.delta": f"delta {privacy.delta:g}"}
    shown |= {
        "privacy.adversary": against(privacy.adversary),
        "privacy.adjacency": privacy.adjacency,
    }
    # What the rows vary stands in the rows.
    return ", ".join(text for key, text in shown.items() if key != comparison.varied)


def _note(comparison: Comparison) -> str:
    workers, seeds = comparison.scenario.workers, len(comparison.seeds)
    varied = f"{comparison.varied} varied; " if comparison.varied else ""
    items = [
        f"- **{row.name}**: {row.about}{row.first.note and f' ({row.first.note})'}"
        for row in comparison.rows
        if row.about is not None
    ]
    items += [f"- left out: {name} ({why})" for name, why in comparison.left_out.items()]
    lines = [
        f"{workers.dataset}, {workers.count:,} workers; {varied}{_target(comparison)}; "
        f"{'mean ± standard deviation over ' if seeds > 1 else ''}{plural(seeds, 'seed')}.",
        "",
        "Epsilon is the worst seed's, by the sharpest accountant. Slots per worker say how often each must be "
        "reachable. Uplink symbols are the channel uses of the whole run, all workers together, or bits on a digital "
        "link, and downlink bits what the server broadcasts; energy is what all workers radiate; multiply-accumulates "
        "(MACs) are those of one average worker.",
    ]
    return "\n".join([*lines, *(["", *items] if items else [])])


def _flat(row: Row) -> dict[str, Any]:
    """Return all numbers of a row, for other programs."""
    own, other = row.privacy[0], row.privacy[1] if len(row.privacy) > 1 else None
    return {
        "value" if row.about is None else "method": row.name,
        "accuracy": row.accuracy,
        "accuracy_deviation": row.deviation,
        "accuracy_by_seed": " ".join(f"{value:.6g}" for value in row.accuracies),
        **{name: getattr(own, name) for name in ("epsilon", "delta", "adversary", "adjacency", "accountant")},
        "other_epsilon": None if other is None else other.epsilon,
        "other_adjacency": None if other is None else other.adjacency,
        **{f"epsilon_{name}": None if row.exposure is None else getattr(row.exposure, name) for name in HEARING},
        **row.costs,
    }
