"""The comparison as a table in files and on the terminal, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from airmixml.compare.chance import LEVEL
from airmixml.compare.comparison import Comparison, Row
from airmixml.compare.comparison_picture import comparison_figure
from airmixml.compare.methods import HEARING
from airmixml.output.figures import save_png_and_svg
from airmixml.output.tables import Table, rows_csv, terminal_table, write_all
from airmixml.storage.files import writing_to
from airmixml.wording import NONE, against, duration, epsilon_text, joules, plural, sentence, simulated

_ONE_LINE: Final = 42  # of what a method is, on a terminal of 80 characters


def write_comparison(comparison: Comparison) -> list[Path]:
    """Write the table as Markdown, CSV, LaTeX and JSON and the picture as PNG and SVG; return the files."""
    stem, table = comparison.out / "compare", comparison_table(comparison)
    tables = table, adversaries_table(comparison), trust_table(comparison)
    texts = {
        ".md": "\n".join(each.to_markdown() for each in tables) + "\n![comparison](compare.png)\n",
        ".csv": rows_csv([_flat(row, rank) for row, rank in comparison.ranked]),
        ".tex": table.to_latex(),
        ".json": json.dumps(comparison.to_dict(), indent=1, allow_nan=False) + "\n",
    }
    with writing_to(comparison.out):
        return write_all(stem, texts) + save_png_and_svg(comparison_figure(comparison), stem)


def comparison_table(comparison: Comparison) -> Table:
    """Return one line per row of the comparison, with all digits."""
    name, title = comparison.scenario.title, comparison.varied or "method"
    varied = f"{name} at several values of {title}" if comparison.varied else f"{name} and its alternatives"
    cells = [_cells(comparison, row, rank) for row, rank in comparison.ranked]
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
    texts = {name: _epsilon_or_none(said.get(name)) for name in HEARING}
    return {**texts, "rests on": NONE if row.exposure is None else row.exposure.rests_on}


def brief_parts(comparison: Comparison) -> list[Table]:
    """Return one screen for the terminal: the verdict, a line per row, and what names and columns mean."""
    rows = []
    for row, rank in comparison.ranked:
        texts = [f"{rank or NONE}", _percent(row), epsilon_text(row.privacy[0].epsilon), row.privacy[0].adversary]
        texts += [_epsilon_or_none(row.row_epsilon)] if comparison.row_name else []
        rows.append((row.label, *texts, NONE if row.energy_joules is None else joules(row.energy_joules)))
    heads = ["rank", "accuracy %", "epsilon", "against", *filter(None, [comparison.row_name]), "energy"]
    told = [_meanings(comparison), simulated(comparison.scenario.seed)]
    told += [f"left out: {', '.join(comparison.left_out)}"] if comparison.left_out else []
    parts = [
        (("",), ((comparison.verdict,),), 1),
        (("",), ((f"{comparison.scenario.title}: {_target(comparison)}",),), 1),
        ((comparison.varied or "method", *heads), rows, 1),
        (("method", "what it is", "epsilon rests on"), _legend(comparison), 3),
        (("",), ((" ".join(map(sentence, told)),),), 1),
    ]
    bare = {"box": None, "padding": (0, 1, 0, 0), "spare": ("energy",)}
    return [terminal_table(heads, lines, words=words, **bare).plain for heads, lines, words in parts if lines]


def _meanings(comparison: Comparison) -> str:
    return "; ".join(comparison.notes) or "accuracy: on the clean test set"


def _legend(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return what each method is and what its guarantee rests on; variants of methods that ran share a line."""
    lines: dict[tuple[str, str], list[str]] = {}
    run = {row.name for row in comparison.rows}
    for row in comparison.rows:
        if row.about is None:
            continue
        base, _, variant = row.name.rpartition("-")
        alike = base in run and row.about.startswith(f"{base}, ")
        line = (f"...-{variant}", f"the same{row.about.removeprefix(base)}") if alike else (row.name, row.about)
        if len(f"{line[1]} ({row.first.note})") <= _ONE_LINE and row.first.note and not alike:
            line = line[0], f"{line[1]} ({row.first.note})"
        lines.setdefault(line, []).append(NONE if row.exposure is None else row.exposure.rests_on)
    return [(*line, rests[0] if len(set(rests)) == 1 else "the same") for line, rests in lines.items()]


def _uplink_unit(comparison: Comparison) -> str:
    """Return what the uplink of all rows is counted in, symbols or bits; empty: some in these, some in those."""
    units = {row.first.uplink_unit for row in comparison.rows if row.first.uplink_symbols is not None}
    return units.pop() if len(units) == 1 else "" if units else "symbols"


def _cells(comparison: Comparison, row: Row, rank: int | None) -> dict[str, str]:
    """Return the texts of a row by their columns; each names the unit of its uplink where the column does not."""
    first, own, other = row.first, row.privacy[0], row.privacy[1] if len(row.privacy) > 1 else None
    uplink, downlink, sent, unit = (
        first.uplink_symbols,
        first.downlink_bits,
        first.slots_per_worker,
        _uplink_unit(comparison),
    )
    of_row = {} if not comparison.row_name else {comparison.row_name: _epsilon_or_none(row.row_epsilon)}
    return {
        "rank": f"{rank or NONE}",
        "accuracy": f"{_percent(row)} %",
        "epsilon": f"{epsilon_text(own.epsilon)} ({own.adversary}, {own.adjacency})",
        **of_row,
        "other neighbours": NONE if other is None else f"{epsilon_text(other.epsilon)} ({other.adjacency})",
        "slots per worker": NONE if sent is None else f"{sent:,}",
        f"uplink {unit}".strip(): NONE if uplink is None else f"{uplink:,}{'' if unit else f' {first.uplink_unit}'}",
        "downlink bits": NONE if downlink is None else f"{downlink:,}",
        "air time": NONE if first.air_seconds is None else duration(first.air_seconds),
        "energy": NONE if row.energy_joules is None else joules(row.energy_joules),
        "worker MACs": f"{first.worker_multiply_accumulates:,}",
        "wall time": duration(row.seconds),
    }


def _percent(row: Row) -> str:
    return f"{100 * row.accuracy:.2f}" + ("" if row.deviation is None else f" ± {100 * row.deviation:.2f}")


def _epsilon_or_none(epsilon: float | None) -> str:
    return NONE if epsilon is None else epsilon_text(epsilon)


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
        comparison.verdict,
        "",
        f"{sentence(_meanings(comparison))} Beyond chance: p < {LEVEL:g} for each pair, by McNemar's exact test on the "
        "test rows of one seed, or by a paired t test over test rows and seeds. Rank 1: the most accurate and those "
        "that it does not beat beyond chance, or that are as accurate as one of those; then the same of the rest.",
        "",
        "Epsilon is the worst seed's, by the sharpest accountant. Slots per worker say how often each must be "
        "reachable. Uplink symbols are the channel uses of the whole run, all workers together, or bits on a digital "
        "link, and downlink bits what the server broadcasts; energy is what all workers radiate; multiply-accumulates "
        "(MACs) are those of one average worker.",
    ]
    return "\n".join([*lines, *(["", *items] if items else [])])


def _flat(row: Row, rank: int | None) -> dict[str, Any]:
    """Return all numbers of a row, for other programs."""
    own, other = row.privacy[0], row.privacy[1] if len(row.privacy) > 1 else None
    return {
        "value" if row.about is None else "method": row.name,
        "accuracy": row.accuracy,
        "accuracy_deviation": row.deviation,
        "rank": rank,
        "accuracy_by_seed": " ".join(f"{value:.6g}" for value in row.accuracies),
        **{name: getattr(own, name) for name in ("epsilon", "delta", "adversary", "adjacency", "accountant")},
        "row_epsilon": row.row_epsilon,
        "row_copies": row.row_copies,
        "guess": row.guess,
        "no_better_than_guessing": row.no_better_than_guessing,
        "other_epsilon": None if other is None else other.epsilon,
        "other_adjacency": None if other is None else other.adjacency,
        **{f"epsilon_{name}": None if row.exposure is None else getattr(row.exposure, name) for name in HEARING},
        **row.costs,
    }
