"""Airs that set keys of other tables: defaults that a scenario overrides and another air takes back; old files."""

from __future__ import annotations

import re

import pytest

from airmixml import Scenario
from airmixml.scenario import AIR_PRESETS, air_text, preset_names
from airmixml.scenario.air import air_tables


def test_campus_sets_path_loss_and_fading_as_well() -> None:
    plain = Scenario.preset("private-mnist")
    campus = plain.on_air("campus")
    assert (campus.radio.fading, campus.radio.path_loss_exponent) == ("rayleigh", 3.53)
    assert campus.workers.side_metres == 200.0
    assert campus.radio.slots == plain.radio.slots
    assert campus.workers.count == plain.workers.count


def test_what_a_scenario_says_stands() -> None:
    told = Scenario.from_toml(
        'extends = "private-mnist"\n[air]\npreset = "campus"\n[radio]\npath_loss_exponent = 2.5\n'
    )
    assert (told.radio.path_loss_exponent, told.radio.fading) == (2.5, "rayleigh")
    both = Scenario.preset("private-mnist").with_overrides("air.preset=campus", "radio.fading=rician")
    assert both.radio.fading == "rician"
    assert both.with_overrides("air.absent=0.2").radio.fading == "rician"


@pytest.mark.parametrize("air", AIR_PRESETS)
@pytest.mark.parametrize("file", ["pets.csv", "pets.npz"])
def test_a_file_of_ones_own_is_read_on_any_profile(air: str, file: str) -> None:
    """A profile that sets some keys of a table leaves the others of it at their defaults."""
    told = Scenario.from_toml(f'[workers]\ndataset = "{file}"\nlabel_column = "kind"\n[air]\npreset = "{air}"\n')
    plain = Scenario.from_toml(f'[workers]\ndataset = "{file}"\nlabel_column = "kind"\n')
    assert told == plain.on_air(air)
    assert (told.workers.count, told.radio.scheduled) == (0, 4)
    assert Scenario.from_toml(told.to_toml()) == told


@pytest.mark.parametrize("other", ["ideal", "lab"])
def test_another_air_takes_its_keys_back(other: str) -> None:
    plain = Scenario.preset("private-mnist")
    assert plain.on_air("campus").on_air(other) == plain.on_air(other)
    changed = plain.on_air("campus").with_overrides("radio.noise_dbm=-90")
    assert changed.on_air(other).radio.noise_dbm == -90.0


@pytest.mark.parametrize("air", AIR_PRESETS)
@pytest.mark.parametrize("preset", ["private-mnist", "paper-iris"])
def test_a_scenario_reads_back(air: str, preset: str) -> None:
    scenario = Scenario.preset(preset).on_air(air)
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert Scenario.from_json(scenario.to_json()) == scenario


def test_every_preset_can_be_on_campus() -> None:
    for preset in preset_names():
        assert Scenario.preset(preset).on_air("campus").air.preset == "campus"


@pytest.mark.parametrize("air", [name for name in AIR_PRESETS if name != "ideal"])
def test_line_of_sight_is_what_it_says_and_campus_states_its_sources(air: str) -> None:
    tables = air_tables(air)
    if air == "campus":
        before, told = "", {}
        for line in air_text(air).splitlines():
            if "=" in line and not line.startswith("#"):
                told[line.partition("=")[0].strip()] = before + line
                before = ""
            else:
                before += line
        every = [key for table in tables.values() for key in table]
        assert [key for key in every if not re.search(r"T[RS] 38\.|assumed", told.get(key, ""))] == []
    else:
        assert set(tables) == {"air"}  # path loss and fading are the scenario's own
        assert "fading" in air_text(air) or air != "line-of-sight"
