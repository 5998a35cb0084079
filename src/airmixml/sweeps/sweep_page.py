"""A sweep as a page, as rows for other programs and in files, made of what its JSON file holds."""

from __future__ import annotations

import io
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from airmixml.output.cards import claimed_card
from airmixml.output.commands import seeds_option, values_option
from airmixml.output.page import Cards, Page
from airmixml.output.tables import Table, rows_csv
from airmixml.scenario import Scenario
from airmixml.scenario.toml import value_text
from airmixml.storage.files import write_bytes, writing_to
from airmixml.sweeps.metric_text import metric_text
from airmixml.sweeps.study_files import BARE, write_study
from airmixml.sweeps.sweep_picture import picture_note, sweep_figure
from airmixml.sweeps.swept import Swept
from airmixml.wording import epsilon_text, plural, sentence

_MOST_ROWS: Final = 500  # of a page that opens quickly
_NO_ADVERSARIES: Final = ("row", "lower", "claimed")
Plain = dict[str, Any]


def sweep_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a sweep tells."""
    cells, grid, seeds = plain["cells"], plain["grid"], plural(len(plain["seeds"]), "seed")
    failed = f"; {plural(sum(plain['failures'].values()), 'run')} failed" if plain["failures"] else ""
    words = [word for key, values in grid.items() for word in values_option("--grid", key, values)]
    command = () if plain["command"] == "run" else ("--command", plain["command"])
    more = f"{plural(len(cells) - _MOST_ROWS, 'more row')} in sweep.csv" if len(cells) > _MOST_ROWS else ""
    return Page.of_result(
        kind="sweep",
        title=f"{scenario.title}: {', '.join(grid)}",
        verdict=f"{plural(len(cells), 'cell')} of airmix {plain['command']}, {seeds} each{failed}.",
        notices=tuple(map(sentence, plain["notes"])),
        results=tuple((name, _range(cells, name)) for name in plain["metrics"]),
        cards=_cards(cells, scenario),
        tables=(sweep_table(plain, cells[:_MOST_ROWS]), *map(sentence, filter(None, (more, picture_note(plain))))),
        command=("sweep", *words, *command, *seeds_option(len(plain["seeds"]))),
    )


def sweep_table(plain: Plain, cells: list[Plain]) -> Table:
    """Return one line per cell: its values, mean and deviation of each chosen metric, and why seeds failed."""
    seeds, metrics, failed = len(plain["seeds"]), plain["metrics"], bool(plain["failures"])
    rows = []
    for cell in cells:
        errors = list(cell["errors"].values())
        some = f" ({seeds - len(errors)} of {seeds})" if errors else ""
        texts = [metric_text(cell["metrics"].get(name, {}), name) + some for name in metrics]
        why = "; ".join(f"{plural(errors.count(each), 'seed')}: {each}" for each in dict.fromkeys(errors))
        values = map(value_text, cell["values"].values())
        rows.append((*values, *(["failed"] * len(metrics) if len(errors) == seeds else texts), *[why] * failed))
    keys = list(plain["grid"])
    short = [key.rpartition(".")[2] for key in keys]  # which leave the metrics more room
    return Table(
        title="Mean ± standard deviation" if seeds > 1 else "One seed",
        columns=(*(short if len(set(short)) == len(keys) > 2 else keys), *metrics, *["failed"] * failed),
        rows=tuple(rows),
        words=len(keys),
        options=BARE,
    )


def _range(cells: list[Plain], name: str) -> str:
    """Return the smallest and the largest mean of a metric over all cells; words as they are."""
    found = [cell["metrics"][name] for cell in cells if name in cell["metrics"]]
    numbers = sorted((each for each in found if each.get("mean") is not None), key=lambda each: float(each["mean"]))
    ends = [numbers[0], numbers[-1]] if numbers else found
    return " to ".join(dict.fromkeys(metric_text({**each, "deviation": None}, name) for each in ends))


def _cards(cells: list[Plain], scenario: Scenario) -> tuple[Cards, ...]:
    """Return for each adversary what its epsilon is over all cells; the worst decides what that promises."""
    cards = []
    names = dict.fromkeys(name for cell in cells for name in cell["metrics"] if name.startswith("epsilon_"))
    deltas = {cell["metrics"]["delta"]["mean"] for cell in cells if "delta" in cell["metrics"]}
    delta = deltas.pop() if len(deltas) == 1 else scenario.privacy.delta
    for name in names:
        adversary = name.removeprefix("epsilon_")
        found = [cell["metrics"].get(name, {}).get("mean") for cell in cells]
        known = [value for value in found if value is not None]
        if known and adversary not in _NO_ADVERSARIES:
            worst = math.inf if None in found else max(known)
            text = " to ".join(dict.fromkeys((epsilon_text(min(known)), epsilon_text(worst))))
            cards.append(claimed_card(adversary, worst, scenario, delta=delta, text=text, words="Worst cell: "))
    return (Cards(title="All cells", cards=tuple(cards)),) if cards else ()


def write_sweep(swept: Swept) -> list[Path]:
    """Write CSV, Parquet (with pyarrow), Markdown, LaTeX, JSON and the picture; return the files."""
    plain, parquet = swept.to_dict(), swept.out / "sweep.parquet"
    files = write_study(
        swept.out / "sweep",
        sweep_page(plain, swept.scenario),
        plain,
        sweep_figure(plain, swept.scenario.title),
        csv=rows_csv(swept.long_rows()),
        tex=sweep_table(plain, plain["cells"]).to_latex(booktabs=False),
    )
    with writing_to(swept.out):
        parquet.unlink(missing_ok=True)  # of an earlier command, which it no longer fits
        if find_spec("pyarrow") is None:
            return files
        content = io.BytesIO()
        swept.to_frame().to_parquet(content, engine="pyarrow", index=False)
        write_bytes(parquet, content.getvalue())
    return [*files, parquet]
