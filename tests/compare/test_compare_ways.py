"""Ways to send side by side: without masks, with masks, and as integers over digital links, all on one air."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.compare import compare_methods, load_methods
from airmixml.compare.comparison_page import comparison_page

FEW = ("workers.count=300", "radio.scheduled=300", "link.access_points=3")
AIR = "air.reciprocity_nmse_db=-10"


def test_three_ways_on_one_air(tmp_path: Path) -> None:
    scenario = Scenario.preset("trustless-digits").with_overrides(*FEW, AIR)
    found = compare_methods(scenario, load_methods("unmasked", "masked", "digital"), out=tmp_path / "out")
    plain = found.to_dict()
    rows = {row["method"]: row for row in plain["rows"]}
    against = {name: row["privacy"][0]["adversary"] for name, row in rows.items()}
    assert against == {"unmasked": "server", "masked": "everyone", "digital": "everyone"}
    assert all(row["privacy"][0]["epsilon"] <= 10.0 for row in rows.values())
    accuracy = {name: row["accuracy"]["mean"] for name, row in rows.items()}
    assert accuracy["digital"] > accuracy["masked"] + 0.1  # 22 % of gain error leave 4.9 times the noise
    assert rows["digital"]["bandwidth_hz"] == 100e6
    assert [rows[name]["uplink_unit"] for name in ("masked", "digital")] == ["symbols", "bits"]
    assert rows["digital"]["air_seconds"] > 10.0 * rows["masked"]["air_seconds"]
    assert rows["unmasked"]["energy_joules"] < rows["masked"]["energy_joules"] < rows["digital"]["energy_joules"]
    assert "keep keys" in rows["digital"]["trusted"]
    assert "receiver" in rows["unmasked"]["trusted"]
    text = comparison_page(plain, scenario).to_markdown()
    assert "| energy per worker | spectrum | worker MACs | wall time | trusted |" in text


@pytest.mark.parametrize("preset", ["trustless-digits", "trustless-digits-digital", "private-iris"])
def test_a_way_is_the_same_whatever_the_scenario_is(preset: str) -> None:
    scenario = Scenario.preset(preset).with_overrides("air.absent=0.05")
    ways: dict[str, Any] = load_methods("unmasked", "masked", "digital", "digital-rounds")
    made = {name: way.own_scenario(scenario) for name, way in ways.items()}
    kinds = {name: (each.radio.link, each.privacy.noise, each.privacy.arithmetic) for name, each in made.items()}
    digital = ("digital", "masked", "integers")
    assert kinds["unmasked"] == ("analog", "receiver", "real")
    assert kinds["masked"] == ("analog", "masked", "real")
    assert kinds["digital"] == kinds["digital-rounds"] == digital
    assert made["digital"].privacy.most_absent >= 0.06  # more than 5 % may be absent in a slot
    assert made["unmasked"].privacy.adversary == "server"
