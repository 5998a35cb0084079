"""Tables I and II as printed, from the data files beside this one, turned into cells to run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

from airmixml.reproduction.cells import Cell, Quantity, power_of_ten
from airmixml.scenario import Scenario

_QUANTITIES: dict[str, Quantity] = {"table1": "accuracy", "table2": "energy"}


def load_printed(table: str) -> dict[str, Any]:
    """Return a printed table as it stands in its data file."""
    return tomllib.loads(files(__package__).joinpath("printed", f"{table}.toml").read_text(encoding="utf-8"))


def table_notes(table: str, dataset: str) -> list[str]:
    """Return what is known about the differences between print and runs."""
    return list(load_printed(table)[dataset]["notes"])


def table_cells(table: str, dataset: str, base: Scenario, *, printed: bool = True) -> list[Cell]:
    """Return the cells of one half of a table: each entry as printed, then each that is also read otherwise.

    Args:
        table: ``table1`` or ``table2``.
        dataset: ``iris`` or ``mnist``.
        base: the scenario that the rows and columns vary.
        printed: whether the printed values apply to this base.
    """
    half = load_printed(table)[dataset]
    cells = [cell for row in half["row"] for cell in _row_cells(table, dataset, half, row, base)]
    if not printed:
        cells = [replace(cell, printed=None, stands_out=False) for cell in cells if not cell.reading]
    return sorted(cells, key=lambda cell: cell.reading != "")


def _row_cells(table: str, dataset: str, half: dict[str, Any], row: dict[str, Any], base: Scenario) -> Iterator[Cell]:
    read_as = row.get("read_as", {})
    entries = zip(half["scheduled"], half["alpha"], row["printed"], strict=True)
    for number, (scheduled, alpha, value) in enumerate(entries):
        stated = Cell(
            target=table,
            dataset=dataset,
            row=_row_label(row),
            column=f"{scheduled} workers, alpha = {power_of_ten(alpha)}",
            quantity=_QUANTITIES[table],
            scenario=_scenario(base, row, scheduled, alpha),
            printed=value * row.get("unit_joules", 1.0),
            stands_out=number + 1 in row["best"],
        )
        yield stated
        read_alpha = read_as["alpha"][number] if "alpha" in read_as else alpha
        scenario = _scenario(base, {**row, **read_as}, scheduled, read_alpha)
        if scenario != stated.scenario:
            reading = _reading(row, read_as, alpha, read_alpha)
            yield replace(stated, scenario=scenario, reading=reading, why=read_as["why"])


def _scenario(base: Scenario, row: dict[str, Any], scheduled: int, alpha: float) -> Scenario:
    power = (
        ["mixing.power=max"] if row.get("power") == "max" else ["mixing.power=dp", f"privacy.epsilon={row['epsilon']}"]
    )
    noise = [f"radio.noise_dbm={row['noise_dbm']}"] if "noise_dbm" in row else []
    return base.with_overrides(f"radio.scheduled={scheduled}", f"mixing.alpha={alpha}", *power, *noise)


def _row_label(row: dict[str, Any]) -> str:
    return "max. power" if row.get("power") == "max" else f"epsilon = {power_of_ten(row['epsilon'])}"


def _reading(row: dict[str, Any], read_as: dict[str, Any], alpha: float, read_alpha: float) -> str:
    changes = []
    if read_as.get("epsilon", row.get("epsilon")) != row.get("epsilon"):
        changes.append(f"epsilon = {power_of_ten(read_as['epsilon'])}")
    if read_alpha != alpha:
        changes.append(f"alpha = {power_of_ten(read_alpha)}")
    if "noise_dbm" in read_as:
        changes.append(f"noise {read_as['noise_dbm']:g} dBm")
    return ", ".join(changes)
