"""The table of designs that were tried: at 80 characters every line differs from all others by what is shown."""

from __future__ import annotations

from itertools import product
from typing import Any

from rich.console import Console

from airmixml import Scenario
from airmixml.output.tables import Table
from airmixml.planning.plan_page import _tried

IRIS = Scenario.preset("private-iris")
KEYS = ("model", "encoder", "features", "centre", "norm", "label_code", "label_weight", "rounds", "clip_norm")


def test_no_column_that_tells_two_lines_apart_is_hidden_at_80_characters() -> None:
    kinds = product(("ridge", "lda"), (("mixed", 256), ("clip", 0)), (("refined", "unit"), ("public", "clip")))
    tried: list[dict[str, Any]] = []
    for number, (model, (encoder, features), (centre, norm)) in enumerate(kinds):
        code, weight = ("centred", 0.7) if number % 2 else ("one-hot", 1.0)
        values = (model, encoder, features, centre, norm, code, weight, 50 * (number % 3 == 0), 1.0)
        cost = {"accuracy": 0.99 - number / 100, "error": 0.018, "uplink_symbols": 111_795}
        tried.append({**dict(zip(KEYS, values, strict=True)), **cost})
    sizes = {"tables": 8, "rows": 100, "inputs": 4, "classes": 3, "basis": "8 synthetic tables"}
    rehearsal = {"own": tried[2], "best": tried[1], "tried": tried, **sizes}
    table, line = _tried(rehearsal, IRIS, "this scenario")
    assert "your data may be easier or harder" in str(line)
    assert isinstance(table, Table)
    assert table.title.endswith("mean accuracy in % ± its standard error")
    assert [row[1] for row in table.rows[:3]] == ["", "recommended", "this scenario"]
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table)
    assert "not shown" not in captured.get()


def test_lines_that_differ_in_the_norm_that_they_are_clipped_at_say_so() -> None:
    cost = {"error": 0.018, "uplink_symbols": 30}
    same = dict(zip(KEYS, ("lda", "clip", 0, "public", "clip", "one-hot", 1.0, 0), strict=False))
    tried: list[dict[str, Any]] = [{**same, **cost, "clip_norm": 0.5, "accuracy": 0.98}]
    tried += [{**same, **cost, "clip_norm": 1.0, "accuracy": 0.97}]
    sizes = {"tables": 8, "rows": 100, "inputs": 4, "classes": 3, "basis": "8 synthetic tables"}
    table, *_ = _tried(
        {"own": tried[1], "best": tried[0], "tried": tried, **sizes}, Scenario.preset("private-iris"), "this scenario"
    )
    assert isinstance(table, Table)
    for row, norm in zip(table.rows, ("0.5", "1"), strict=True):
        assert row[0] == f"clip norm {norm}"
