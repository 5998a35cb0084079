"""A sweep as tables: for the terminal, in files for people, and in long form for other programs."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from airmixml.output.figures import save_png_and_svg
from airmixml.output.numbers import plural
from airmixml.output.tables import Table, rows_csv, wide_table, write_all
from airmixml.scenario import keys_in_force
from airmixml.scenario.air_words import finite
from airmixml.scenario.grid import Point, value_text
from airmixml.storage.files import write_bytes, writing_to
from airmixml.sweeps.sweep_picture import drawn_metric, picture_note, sweep_figure
from airmixml.sweeps.swept import FILES, Swept, SweptRow, by_reason, plain_value, summarise, summary_text
from airmixml.wording import sentence

NO_PARQUET: Final = "no sweep.parquet: pyarrow is not installed; pip install 'airmixml[parquet]' and repeat the command"


def write_sweep(swept: Swept) -> list[Path]:
    """Write rows as CSV and Parquet, the summary as Markdown, LaTeX and JSON, and the picture; return the files."""
    stem, table = swept.out / "sweep", summary_table(swept)
    picture = f"\n![{metric}](sweep.png)\n" if (metric := drawn_metric(swept)) else ""
    shown_in_part = picture_note(swept)
    texts = {
        ".csv": rows_csv(swept.long_rows()),
        ".md": table.to_markdown() + picture + (f"\n{shown_in_part}.\n" if shown_in_part else ""),
        ".tex": table.to_latex(booktabs=False),
        ".json": json.dumps(sweep_dict(swept), indent=1, allow_nan=False) + "\n",
    }
    with writing_to(swept.out):
        files = write_all(stem, texts)
        if find_spec("pyarrow") is not None:
            content = io.BytesIO()
            swept.to_frame().to_parquet(content, engine="pyarrow", index=False)
            files.append(stem.with_name("sweep.parquet"))
            write_bytes(files[-1], content.getvalue())
        if (figure := sweep_figure(swept)) is not None:
            files += save_png_and_svg(figure, stem)
        for name in FILES:
            if swept.out / name not in files:  # of an earlier command, which it no longer fits
                (swept.out / name).unlink(missing_ok=True)
    return files


def sweep_dict(swept: Swept) -> dict[str, Any]:
    """Return the summary of every metric as plain values for JSON; a number that is not finite is null."""
    return {
        "name": swept.scenario.name,
        "air": keys_in_force(swept.scenario.air),
        "command": swept.command,
        "mode": "simulation",
        "grid": {key: [plain_value(value) for value in values] for key, values in swept.grid.axes.items()},
        "seeds": swept.seeds,
        "metrics": list(swept.metrics),
        "cells": [_cell_dict(swept, point, rows) for point, rows in swept.cells()],
        "failures": {why: len(rows) for why, rows in swept.failures.items()},
        "notes": list(swept.notes),
        "scenario": swept.scenario.to_json(),
    }


def _cell_dict(swept: Swept, point: Point, rows: Sequence[SweptRow]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in swept.names:
        summary = summarise(rows, name)
        if summary.mean is not None:
            found[name] = {"mean": finite(summary.mean), "deviation": summary.deviation}
        elif summary.values:
            found[name] = {"values": list(summary.values)}
    return {
        "values": {key: plain_value(value) for key, value in point.items()},
        "metrics": found,
        "errors": {str(row.seed): row.error for row in rows if row.error},
    }


def summary_table(swept: Swept) -> Table:
    """Return one line per cell: its values, mean and deviation of each chosen metric, and why seeds failed."""
    failed = bool(swept.failures)
    rows = []
    for point, cell in swept.cells():
        errors = [f"{plural(len(alike), 'seed')}: {why}" for why, alike in by_reason(cell).items()]
        rows.append((*_texts(swept, point, cell), *(("; ".join(errors),) if failed else ())))
    spread = "mean ± standard deviation over " if len(swept.seeds) > 1 else ""
    note = f"{spread}{plural(len(swept.seeds), 'seed')} of airmix {swept.command}. "
    return Table(
        title=f"{swept.scenario.title}: {', '.join(swept.grid.keys)}",
        note=note + " ".join(map(sentence, swept.notes)),
        columns=(*swept.grid.keys, *swept.metrics, *(("failed",) if failed else ())),
        rows=tuple(rows),
    )


def terminal_summary(swept: Swept) -> Table:
    """Return the table for a terminal; metrics that have no room in it are named below."""
    from rich.markup import escape

    seeds = plural(len(swept.seeds), "seed")
    # Heads of two lines leave the metrics more room.
    keys = [key.replace(".", ".\n") if len(swept.grid.keys) > 2 else key for key in swept.grid.keys]
    return wide_table(
        (*keys, *swept.metrics),
        [_texts(swept, point, cell) for point, cell in swept.cells()],
        title=f"{escape(swept.scenario.title)}, airmix {swept.command}, {seeds}, simulation (protects nobody)",
        words=len(keys),
    ).plain


def _texts(swept: Swept, point: Point, rows: Sequence[SweptRow]) -> tuple[str, ...]:
    failed, counted = sum(bool(row.error) for row in rows), len(rows)
    some = f" ({counted - failed} of {counted})" if failed else ""
    metrics = (
        "failed" if failed == counted else summary_text(summarise(rows, name), name) + some for name in swept.metrics
    )
    return (*map(value_text, point.values()), *metrics)
