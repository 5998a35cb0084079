"""A sweep as tables for the terminal and in files, made of what its JSON file holds."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from airmixml.output.figures import save_png_and_svg
from airmixml.output.tables import Table, rows_csv, wide_table, write_all
from airmixml.scenario import Scenario
from airmixml.scenario.toml import value_text
from airmixml.storage.files import write_bytes, writing_to
from airmixml.storage.run_folder import REPORT
from airmixml.sweeps.metric_text import metric_text
from airmixml.sweeps.sweep_picture import drawn_metric, picture_note, sweep_figure
from airmixml.sweeps.swept import Swept
from airmixml.wording import plural, sentence

FILES: Final = (*(f"sweep.{suffix}" for suffix in ("csv", "md", "tex", "json", "parquet", "png", "svg")), REPORT)
Plain = dict[str, Any]


def write_sweep(swept: Swept) -> list[Path]:
    """Write rows as CSV and Parquet, the summary as Markdown, LaTeX and JSON, and the picture; return the files."""
    plain = swept.to_dict()
    stem, table = swept.out / "sweep", sweep_table(plain, swept.scenario)
    picture = f"\n![{metric}](sweep.png)\n" if (metric := drawn_metric(plain)) else ""
    shown_in_part = picture_note(plain)
    texts = {
        ".csv": rows_csv(swept.long_rows()),
        ".md": table.to_markdown() + picture + (f"\n{shown_in_part}.\n" if shown_in_part else ""),
        ".tex": table.to_latex(booktabs=False),
        ".json": json.dumps(plain, indent=1, allow_nan=False) + "\n",
    }
    with writing_to(swept.out):
        files = write_all(stem, texts)
        if find_spec("pyarrow") is not None:
            content = io.BytesIO()
            swept.to_frame().to_parquet(content, engine="pyarrow", index=False)
            files.append(stem.with_name("sweep.parquet"))
            write_bytes(files[-1], content.getvalue())
        if (figure := sweep_figure(plain, swept.scenario.title)) is not None:
            files += save_png_and_svg(figure, stem)
        for name in FILES:
            if swept.out / name not in files:  # of an earlier command, which it no longer fits
                (swept.out / name).unlink(missing_ok=True)
    return files


def sweep_table(plain: Plain, scenario: Scenario) -> Table:
    """Return one line per cell: its values, mean and deviation of each chosen metric, and why seeds failed."""
    seeds, metrics = len(plain["seeds"]), plain["metrics"]
    failed = bool(plain["failures"])
    rows = []
    for cell in plain["cells"]:
        errors = list(cell["errors"].values())
        some = f" ({seeds - len(errors)} of {seeds})" if errors else ""
        texts = [metric_text(cell["metrics"].get(name, {}), name) + some for name in metrics]
        why = "; ".join(f"{plural(errors.count(each), 'seed')}: {each}" for each in dict.fromkeys(errors))
        values = map(value_text, cell["values"].values())
        rows.append((*values, *(["failed"] * len(metrics) if len(errors) == seeds else texts), *[why] * failed))
    spread = "mean ± standard deviation over " if seeds > 1 else ""
    note = f"{spread}{plural(seeds, 'seed')} of airmix {plain['command']}. "
    return Table(
        title=f"{scenario.title}: {', '.join(plain['grid'])}",
        note=note + " ".join(map(sentence, plain["notes"])),
        columns=(*plain["grid"], *metrics, *["failed"] * failed),
        rows=tuple(rows),
    )


def terminal_summary(plain: Plain, scenario: Scenario) -> Table:
    """Return the table for a terminal; metrics that have no room in it are named below."""
    table, keys = sweep_table(plain, scenario), len(plain["grid"])
    # Heads of two lines leave the metrics more room.
    heads = [name.replace(".", ".\n") if place < keys and keys > 2 else name for place, name in enumerate(table.columns)]
    shown = keys + len(plain["metrics"])
    title = f"{scenario.title}, airmix {plain['command']}, {plural(len(plain['seeds']), 'seed')}, simulation"
    return wide_table(heads[:shown], [row[:shown] for row in table.rows], title=title, words=keys).plain
