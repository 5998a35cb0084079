"""Reports of studies say what the terminal says: what is tolerated, percentages once, quick versions as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airmixml.reports import write_report

CopyOf = Callable[..., Path]
ReadPage = Callable[[Path], Any]


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    plain = json.loads(path.read_text(encoding="utf-8"))
    change(plain)
    path.write_text(json.dumps(plain), encoding="utf-8")


@pytest.mark.parametrize(
    ("has", "said"),
    [
        ({"size": 0.25, "tolerated": True}, "0.25 ok"),
        ({"size": 3, "tolerated": False}, "3 too much"),
        ({"size": None, "tolerated": None}, "–"),
    ],
)
def test_hardware_that_is_not_good_enough_says_for_what(
    has: dict[str, Any], said: str, copy_of: CopyOf, read_page: ReadPage
) -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["tolerances"][0].update({"unit": "dB", "tolerated": 20.0, "refused": None, "delivered": {"lab": has}})

    folder = copy_of("tolerances")
    changed(folder / "tolerances.json", change)
    text = read_page(write_report(folder)).text
    assert f"absent workers [dB] all {said}" in text


@pytest.mark.parametrize("kind", ["attack", "plan"])
def test_a_report_has_the_tables_that_the_command_wrote(kind: str, copy_of: CopyOf, read_page: ReadPage) -> None:
    folder = copy_of(kind)
    lines = (folder / f"{kind}.md").read_text(encoding="utf-8").splitlines()
    cells = {
        cell.replace("\\", "") for line in lines if line.startswith("| ") for cell in line.strip("| ").split(" | ")
    }
    text = read_page(write_report(folder)).text
    # Cards, which are a table in Markdown, have no head on the page.
    assert [cell for cell in cells if cell not in text and cell != "what it means"] == []


def test_a_plan_of_masks_is_in_its_report(copy_of: CopyOf, read_page: ReadPage) -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["masks"] = {
            **{"degree": 40, "mask_share": 0.1, "above_thermal_db": 20.0, "honest": 100, "neighbours": 30},
            **{
                "nearest_dbm": -50.0,
                "farthest_dbm": -20.0,
                "gain_error": 0.01,
                "times_the_noise": 2.0,
                "absent": 0.0,
                "overrides": [],
            },
            "gain_db": 0.0,
            "noise": {
                "own_watts": 3.0,
                "gains_watts": 1.0,
                "absent_watts": 0.0,
                "receiver_watts": 0.0,
                "total_watts": 4,
            },
            "costs": [{"name": "5 colluders (5%)", "override": "privacy.colluders=5", "noise_db": None}],
        }

    folder = copy_of("plan")
    changed(folder / "metrics.json", change)
    text = read_page(write_report(folder)).text
    assert "workers' own 75.0%, gain errors 25.0%" in text
    assert "impossible (privacy.colluders=5)" in text


def test_a_quick_reproduction_says_that_it_is_one(copy_of: CopyOf, read_page: ReadPage) -> None:
    folder = copy_of("reproduce")
    assert "the rest is not decided by --quick" not in read_page(write_report(folder)).text
    changed(folder / "report.json", lambda plain: plain.update(quick=True))
    assert "the rest is not decided by --quick" in read_page(write_report(folder)).text
