"""A preset runs on every channel profile that ships, or its first line names the profiles on which it does."""

from __future__ import annotations

import re

import pytest

from airmixml import AirMixError, Scenario
from airmixml.planning.known_inputs import data_dimensions
from airmixml.radio.draws import AirSetting
from airmixml.radio.tally import placed_distances
from airmixml.scenario import AIR_PRESETS
from airmixml.scenario.toml import preset_names, preset_text
from airmixml.workers import settle


def declared(preset: str) -> set[str]:
    """Return the profiles that the first line of a preset names; all of them where it names none."""
    found = re.search(r"on the profiles ([a-z-]+(?:(?:, | and )[a-z-]+)*)", preset_text(preset).partition("\n")[0])
    return set(re.split(r", | and ", found[1])) if found else set(AIR_PRESETS)


def refused(preset: str, air: str, *changes: str) -> str:
    """Return why the air refuses the preset before anything is drawn; empty: it does not."""
    scenario = settle(Scenario.preset(preset).on_air(air).with_overrides(*changes))
    try:
        AirSetting.of(scenario, *data_dimensions(scenario, None, None), placed_distances(scenario))
    except AirMixError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_runs_where_its_first_line_says(preset: str) -> None:
    found = {air: refused(preset, air) for air in AIR_PRESETS}
    assert {air for air, why in found.items() if not why} == declared(preset), found


def test_too_few_workers_for_an_air_are_told_that_more_are_needed() -> None:
    more = ("workers.count=32", "radio.scheduled=32", "privacy.most_absent=0.44")  # as the preset's comment says
    for air in ("campus", "line-of-sight", "low-cost"):
        assert refused("trustless-wine", air).endswith("schedule more workers")
        assert refused("trustless-wine", air, *more) == ""


def test_the_digital_preset_needs_what_its_comment_says() -> None:
    assert refused("trustless-mnist-digital", "low-cost", "privacy.most_absent=0.11") == ""
