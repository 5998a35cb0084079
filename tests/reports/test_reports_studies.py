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
HAS = {"air": "lab", "fall": None, "along": {}}


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    plain = json.loads(path.read_text(encoding="utf-8"))
    change(plain)
    path.write_text(json.dumps(plain), encoding="utf-8")


@pytest.mark.parametrize(
    ("has", "said"),
    [
        ({"size": 0.25, "tolerated": True, "target_kept": False, "epsilon": 5.2, "ok": False}, "0.25 dB (epsilon 5.2)"),
        ({"size": 0.25, "tolerated": True, "target_kept": None, "epsilon": None, "ok": True}, "0.25 dB (tolerated)"),
        (
            {"size": 3, "tolerated": False, "target_kept": True, "epsilon": 5, "ok": False},
            "3 dB (too much for accuracy)",
        ),
        ({"size": None, "tolerated": None, "target_kept": None, "epsilon": None, "ok": None}, "nothing of it"),
    ],
)
def test_hardware_that_is_not_good_enough_says_for_what(
    has: dict[str, Any], said: str, copy_of: CopyOf, read_page: ReadPage
) -> None:
    def change(plain: dict[str, Any]) -> None:
        privacy = {"kept": 0.05, "missed": 0.1, "epsilons": []}
        new = {
            "unit": "dB",
            "tolerated": 20.0,
            "refused": None,
            "privacy": privacy,
            "delivered": {"lab": {**HAS, **has}},
        }
        plain["tolerances"][0].update(new)

    folder = copy_of("tolerances")
    changed(folder / "tolerances.json", change)
    text = read_page(write_report(folder)).text
    assert said in text
    assert "accuracy tolerates all; privacy kept up to 0.05 dB" in text


def test_the_accuracy_that_a_plan_expects_of_masks_is_in_per_cent_once(copy_of: CopyOf, read_page: ReadPage) -> None:
    folder = copy_of("plan")
    changed(folder / "metrics.json", lambda plain: plain.update(masks={"accuracy": 96.3236}))
    assert "masks accuracy 96.32 %" in read_page(write_report(folder)).text


def test_a_quick_reproduction_says_that_it_is_one(copy_of: CopyOf, read_page: ReadPage) -> None:
    folder = copy_of("reproduce")
    assert "it says nothing about the paper" not in read_page(write_report(folder)).text
    changed(folder / "report.json", lambda plain: plain.update(quick=True))
    assert "it says nothing about the paper" in read_page(write_report(folder)).text
