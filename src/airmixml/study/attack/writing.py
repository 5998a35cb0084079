"""Table, pictures and figures of an attack, as files of its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airmixml.scenario import Scenario
from airmixml.study.attack.parts import Part
from airmixml.study.attack.pictures import draw_attack
from airmixml.study.attack.tables import attack_csv, attack_markdown
from airmixml.study.files import write_text
from airmixml.study.run_folder import METRICS, SCENARIO

__all__ = ["write_attack"]


def write_attack(scenario: Scenario, metrics: dict[str, Any], found: list[dict[str, Part]], folder: Path) -> None:
    """Write everything that belongs to a finished attack."""
    write_text(folder / SCENARIO, scenario.to_toml())
    write_text(folder / "attack.md", attack_markdown(metrics))
    write_text(folder / "attack.csv", attack_csv(metrics))
    draw_attack(metrics, found, folder)
    write_text(folder / METRICS, json.dumps(metrics, indent=2, allow_nan=False) + "\n")
