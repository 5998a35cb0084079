"""A sweep as tables, files and pictures, from rows that were made up."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from airmixml import Scenario
from airmixml.output.tables import Table
from airmixml.reports import write_report
from airmixml.scenario.grid import Grid
from airmixml.sweeps.grid_sweep import SIMULATION_NOTE
from airmixml.sweeps.sweep_page import (
    Swept,
    SweptRow,
    drawn_metric,
    metric_text,
    picture_note,
    summarise,
    sweep_figure,
    sweep_table,
    write_sweep,
)

METRICS = ("accuracy.final", "energy_joules", "snr_db", "grade")


def made_up(
    out: Path, grid: dict[str, Any], *, seeds: int = 3, metrics: tuple[str, ...] = METRICS, **options: Any
) -> Swept:
    """Rows with numbers that follow from their place; every seventh cell fails."""
    rng, axes = np.random.default_rng(7), Grid.of(grid)
    rows = []
    for place, point in enumerate(axes.points):
        for seed in range(seeds):
            found = {
                "accuracy.final": float(rng.random()),
                "energy_joules": float(10.0 ** rng.uniform(-12, 3)),
                "snr_db": float(rng.normal()),
                "epsilon": math.inf if place == 1 else 5.0,
                "grade": ("hidden", "leaks")[seed % 2],
                "caught": seed == 0,
                "nothing": None,
            }
            failed = place % 7 == 6
            rows.append(
                SweptRow(
                    point=point, seed=seed, metrics={} if failed else found, error="x & y | z failed" if failed else ""
                )
            )
    made: dict[str, Any] = {
        "scenario": Scenario.preset("private-iris").with_overrides("name=a_b & $5 {x}"),
        "grid": axes,
        "command": "run",
        "seeds": list(range(seeds)),
        "rows": tuple(rows),
        "metrics": metrics,
        "notes": (SIMULATION_NOTE,),
        "kept": 0,
        "out": out,
        "seconds": 1.0,
        **options,
    }
    return Swept(**made)


def swept_table(swept: Swept) -> Table:
    plain = swept.to_dict()
    return sweep_table(plain, plain["cells"])


TWO_KEYS = {"privacy.epsilon": [0.5, 1, 5], "learner.hidden_units": [(32, 16), (8,), ()]}


# --- Numbers ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=10))
def test_means_and_deviations_are_those_of_numpy(values: list[float]) -> None:
    found = summarise([*values, None])
    assert found["mean"] == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    if len(values) == 1:
        assert found["deviation"] is None
    else:
        assert found["deviation"] == pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.5, 0.7], "0.6 ± 0.14"),
        ([1.0, 1.0], "1"),
        ([9.46e-12], "9.46e-12"),
        ([5.0, math.inf], "unbounded"),
        ([123456.0], "1.235e+05"),
        ([True, False], "0.5 ± 0.71"),
        (["hidden", "hidden"], "hidden"),
        (["hidden", "leaks", "hidden"], "hidden 2, leaks 1"),
        ([], "–"),
    ],
)
def test_numbers_have_few_digits(values: list[Any], text: str) -> None:
    assert metric_text(summarise(values)) == text


# --- Files ------------------------------------------------------------------------------------------------------------


def test_files_hold_every_row_and_every_metric(tmp_path: Path) -> None:
    swept = made_up(tmp_path, TWO_KEYS)
    files = write_sweep(swept)
    assert {path.name for path in files} == {f"sweep.{suffix}" for suffix in ("csv", "md", "json", "png", "svg")}
    assert all(path.stat().st_size > 0 for path in files)
    lines = list(csv.DictReader(io.StringIO((tmp_path / "sweep.csv").read_text())))
    assert len(lines) == 27
    assert {"privacy.epsilon", "learner.hidden_units", "seed", "mode", "error", *METRICS, "caught"} <= set(lines[0])
    assert {line["mode"] for line in lines} == {"simulation"}
    assert lines[0]["learner.hidden_units"] == "[32, 16]"
    assert [float(line["snr_db"]) for line in lines[:18]] == [row.metrics["snr_db"] for row in swept.rows[:18]]
    assert [line["error"] for line in lines[18:21]] == ["x & y | z failed"] * 3
    stored = json.loads((tmp_path / "sweep.json").read_text())
    assert stored["mode"] == "simulation"
    assert stored["grid"]["learner.hidden_units"] == ["[32, 16]", "[8]", "[]"]
    assert len(stored["cells"]) == 9
    assert stored["cells"][1]["metrics"]["epsilon"]["mean"] is None  # unbounded
    assert stored["cells"][6]["errors"] == dict.fromkeys("012", "x & y | z failed")
    markdown = (tmp_path / "sweep.md").read_text()
    assert "protects nobody" in markdown
    table = markdown.partition("### Mean")[2].partition("![")[0]
    table = [line for line in table.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 9
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {2 + 4 + 1 + 1}


def test_a_sweep_that_failed_everywhere_still_says_why(tmp_path: Path) -> None:
    rows = (SweptRow(point={"privacy.epsilon": 1.0}, seed=0, metrics={}, error="no room"),)
    swept = replace(made_up(tmp_path, {"privacy.epsilon": [1]}, seeds=1), rows=rows, metrics=())
    names = {path.name for path in write_sweep(swept)}
    assert names == {f"sweep.{suffix}" for suffix in ("csv", "md", "json")}
    assert "no room" in (tmp_path / "sweep.md").read_text()


# --- The terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
def test_nothing_is_cut_on_a_terminal(width: int, tmp_path: Path) -> None:
    swept, stream = made_up(tmp_path, TWO_KEYS), io.StringIO()
    Console(file=stream, width=width).print(swept_table(swept))
    assert max(map(len, stream.getvalue().splitlines())) <= width
    printed, _, note = " ".join(stream.getvalue().split()).partition("too wide for")
    assert "…" not in printed
    without_room = note.partition("not shown: ")[2].partition("; see")[0].split(", ") if note else []
    shown = [name for name in METRICS if name not in without_room]
    assert shown == list(METRICS[: len(shown)])
    assert shown
    whole = swept_table(swept)
    for row in whole.rows:
        for name, cell in zip(whole.columns, row, strict=True):
            assert name not in (*swept.grid.keys, *shown) or cell in printed
    assert (set(without_room) <= {"failed"}) == (width >= 130)


def test_many_keys_leave_room_for_a_metric(tmp_path: Path) -> None:
    grid = {
        "privacy.epsilon": [0.1, 1],
        "privacy.adjacency": ["remove-one", "replace-one"],
        "learner.model": ["ridge", "lda"],
        "workers.label_weight": [0.5, 1],
    }
    swept, stream = made_up(tmp_path, grid), io.StringIO()
    Console(file=stream, width=80).print(swept_table(swept))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("epsilon", "adjacency", "label_weight", "accuracy.final"):
        assert any(name in line for line in lines)
    cells = [line for line in lines if "place-one" in line or "remove-one" in line]
    assert len(cells) == sum("±" in line or "failed" in line for line in cells) == 16


# --- The picture ------------------------------------------------------------------------------------------------------


def axes_of(tmp_path: Path, grid: dict[str, Any], **options: Any) -> list[Any]:
    figure = sweep_figure(made_up(tmp_path, grid, **options).to_dict(), "x")
    assert figure is not None
    return [axis for axis in figure.axes if axis.get_visible()]


def test_one_key_is_a_line_with_error_bars(tmp_path: Path) -> None:
    swept = made_up(tmp_path, {"privacy.epsilon": [0.5, 1, 5]})
    figure = sweep_figure(swept.to_dict(), swept.scenario.title)
    assert figure is not None
    (axis,) = figure.axes
    (container,) = axis.containers
    line, _, (bars,) = container.lines
    accuracies = np.array([row.metrics["accuracy.final"] for row in swept.rows], dtype=float).reshape(3, 3)
    np.testing.assert_allclose(np.asarray(line.get_xdata(), dtype=float), [0.5, 1, 5])
    np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), accuracies.mean(axis=1))
    heights = [abs(np.diff(segment[:, 1])[0]) for segment in bars.get_segments()]
    np.testing.assert_allclose(heights, 2 * accuracies.std(axis=1, ddof=1))
    assert axis.get_xscale() == "log"  # a decade
    assert axis.get_ylabel() == "accuracy.final"
    assert "simulation" in figure.get_suptitle()
    low, high = axis.get_xlim()
    assert low < 0.5
    assert high > 5


@pytest.mark.parametrize(
    ("values", "scale"), [([1, 2, 5], "linear"), ([1, 10], "log"), ([1e-3, 1e5], "log"), ([0, 1, 1000], "linear")]
)
def test_an_axis_is_logarithmic_where_values_span_decades(values: list[float], scale: str, tmp_path: Path) -> None:
    (axis,) = axes_of(tmp_path, {"workers.bits_range": values} if 0 in values else {"privacy.epsilon": values})
    assert axis.get_xscale() == scale


def test_words_and_lists_stand_side_by_side(tmp_path: Path) -> None:
    (axis,) = axes_of(tmp_path, {"learner.hidden_units": [(32, 16), (8,)]})
    assert [label.get_text() for label in axis.get_xticklabels()] == ["[32, 16]", "[8]"]
    (axis,) = axes_of(tmp_path, {"mixing.policy": ["nonmix", "dirmix"]}, seeds=1)
    assert [label.get_text() for label in axis.get_xticklabels()] == ["nonmix", "dirmix"]


def test_two_keys_are_a_line_for_each_value_of_the_second(tmp_path: Path) -> None:
    (axis,) = axes_of(tmp_path, {"privacy.epsilon": [1, 2, 3, 4], "mixing.alpha": [1, 10]})
    legend = axis.get_legend()
    assert legend.get_title().get_text() == "mixing.alpha"
    assert [text.get_text() for text in legend.get_texts()] == ["1", "10"]
    assert axis.get_xlabel() == "privacy.epsilon"


def test_of_two_keys_of_many_values_some_lines_are_drawn_and_the_rest_told(tmp_path: Path) -> None:
    grid = {"privacy.epsilon": list(range(1, 8)), "mixing.alpha": list(range(1, 8))}
    (axis,) = axes_of(tmp_path, grid)
    assert [text.get_text() for text in axis.get_legend().get_texts()] == list("123456")
    told = picture_note(made_up(tmp_path, grid).to_dict())
    assert told == "the picture shows the first 6 of 7 values of mixing.alpha"


def test_further_keys_stay_at_their_first_value(tmp_path: Path) -> None:
    grid = {"privacy.epsilon": [1, 2], "mixing.alpha": [1, 10], "radio.scheduled": [2, 4, 8]}
    swept = made_up(tmp_path, grid)
    (axis,) = axes_of(tmp_path, grid)
    line = axis.containers[0].lines[0]
    cells = [cell for cell in swept.to_dict()["cells"] if cell["values"]["radio.scheduled"] == 2]
    first = [cell["metrics"].get("accuracy.final") for cell in cells if cell["values"]["mixing.alpha"] == 1]
    np.testing.assert_allclose(
        np.asarray(line.get_ydata(), dtype=float), np.array([each["mean"] for each in first if each])
    )
    assert picture_note(swept.to_dict()) == "the picture shows the first two keys at radio.scheduled = 2"


def test_the_first_metric_that_is_a_number_is_drawn(tmp_path: Path) -> None:
    swept = made_up(tmp_path, TWO_KEYS, metrics=("grade", "nothing", "energy_joules", "snr_db"))
    assert drawn_metric(swept.to_dict()) == "energy_joules"
    (axis,) = axes_of(tmp_path, TWO_KEYS, metrics=("grade", "energy_joules"), seeds=1)
    assert axis.get_yscale() == "log"
    assert sweep_figure(made_up(tmp_path, TWO_KEYS, metrics=("grade",)).to_dict(), "x") is None


def test_a_scenario_that_leaves_numbers_to_its_data_has_a_report(tmp_path: Path) -> None:
    write_sweep(made_up(tmp_path, {"privacy.epsilon": [1, 5]}, scenario=Scenario.preset("private-table")))
    assert "private-table" in write_report(tmp_path).read_text(encoding="utf-8")
