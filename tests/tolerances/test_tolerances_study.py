"""A study of a small scenario: its numbers are those of single runs, it is resumed, and privacy follows theory."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError, run
from airmixml.scenario import Air, Speed
from airmixml.tolerances import Tolerances, Tried, find_tolerances
from airmixml.tolerances.tolerance_page import tolerances_figure, tolerances_table, write_tolerances
from airmixml.tolerances.tolerance_search import chosen_ladders

ONLY = "absent,amplitude_error_db,min_power_dbm"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario.preset("private-iris").with_overrides("workers.count=500", "radio.scheduled=500")


@pytest.fixture(scope="module")
def found(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Tolerances:
    out = tmp_path_factory.mktemp("study") / "out"
    return find_tolerances(scenario, seeds=2, only=ONLY, quick=True, jobs=1, drop=5.0, out=out)


def test_each_answer_is_what_single_runs_give(found: Tolerances, scenario: Scenario, tmp_path: Path) -> None:
    absent = next(each for each in found.plain["tolerances"] if each["key"] == "air.absent")
    tried, ideals = absent["tried"][-1], found.plain["ideal"]["scores"]
    for place, seed in enumerate(found.plain["seeds"]):
        alone = scenario.with_seed(seed)
        on_air = replace(alone, air=Air(absent=tried["size"]))
        ideal, impaired = (
            run(each, out=tmp_path / f"{seed}{number}", pictures=False, speed=Speed(threads=1))
            for number, each in enumerate((alone, on_air))
        )
        assert ideal.accuracy is not None
        assert impaired.accuracy is not None
        assert ideals[place] == 100.0 * ideal.accuracy.final
        assert tried["scores"][place] == 100.0 * impaired.accuracy.final
    assert tried["fall"] == pytest.approx(np.subtract(ideals, tried["scores"]).mean())


def test_the_answers_fit_what_was_tried(found: Tolerances) -> None:
    for each in found.plain["tolerances"]:
        (sizes,) = chosen_ladders(each["key"])
        chance = {
            tried["size"]: math.inf if tried["fall"] is None else tried["fall"] - tried["standard_error"]
            for tried in each["tried"]
        }
        assert list(chance) == [size for size in sizes.sizes if size in chance]
        if each["tolerated"] is not None:
            assert chance[each["tolerated"]] <= 5.0
        if each["refused"] is not None:
            assert chance[each["refused"]] > 5.0
            assert each["tolerated"] is None or sizes.is_milder(each["tolerated"], each["refused"])
    power = next(each for each in found.plain["tolerances"] if each["key"] == "air.min_power_dbm")
    assert [has["size"] for has in power["delivered"].values()] == [-100.0, -40.0, -40.0, -20.0]


def test_a_class_has_one_look_in_every_panel(found: Tolerances, scenario: Scenario) -> None:
    """No value of ``lab`` is known of absent workers: the others keep their colours, dashes and widths."""
    figure, looks = tolerances_figure(found.plain, scenario), dict[str, set[tuple[object, ...]]]()
    assert figure is not None
    for axis, each in zip(figure.axes, found.plain["tolerances"], strict=True):
        lines = [line for line in axis.lines if line.get_label() in each["delivered"]]
        known = [name for name, has in each["delivered"].items() if has["size"] is not None]
        assert [line.get_label() for line in lines] == known
        for line in lines:
            look = (line.get_color(), line.get_linewidth(), str(line._dash_pattern))
            looks.setdefault(str(line.get_label()), set()).add(look)
            assert min(axis.get_xlim()) < line.get_xdata()[0] < max(axis.get_xlim())
        (bars,) = (line for line in axis.containers)
        ends = np.concatenate([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
        assert axis.get_ylim()[0] < ends.min()
        assert ends.max() < axis.get_ylim()[1]
    assert all(len(some) == 1 for some in looks.values())
    assert len(set.union(*looks.values())) == 4


def test_a_fall_counts_where_it_is_more_than_its_error() -> None:
    assert Tried(size=1.0, scores=(90.0, 92.0), falls=(2.0, 0.0)).is_tolerated(1.0)
    assert Tried(size=1.0, scores=(90.0, 92.0), falls=(2.1, 1.9)).fall == 2.0
    assert not Tried(size=1.0, scores=(90.0, 92.0), falls=(2.1, 1.9)).is_tolerated(1.0)
    assert Tried(size=1.0, scores=(90.0,), falls=(2.0,), test_error=1.5).is_tolerated(1.0)
    assert not Tried(size=1.0, scores=(), falls=(), error="no").is_tolerated(100.0)


@pytest.mark.long
def test_it_is_resumed_and_files_are_valid(found: Tolerances, scenario: Scenario) -> None:
    again = find_tolerances(scenario, seeds=2, only=ONLY, quick=True, jobs=1, drop=5.0, out=found.out)
    assert again.plain["kept"] == again.plain["runs"] == found.plain["runs"]
    assert again.plain["tolerances"] == found.plain["tolerances"]
    files = write_tolerances(again.plain, scenario, again.out)
    assert {path.suffix for path in files} == {".md", ".csv", ".json", ".png", ".svg"}
    stored = json.loads((found.out / "tolerances.json").read_text(), parse_constant=pytest.fail)
    assert stored["scenario"]["air"]["min_power_dbm"] is None
    every = found.plain["tolerances"]
    rows = sum(max(1, len(tried["scores"])) for each in every for tried in each["tried"])  # an error has one row
    assert (
        len((found.out / "tolerances.csv").read_text().splitlines()) == 1 + len(found.plain["ideal"]["scores"]) + rows
    )
    table, hardware = tolerances_table(stored), ("lab", "line-of-sight", "campus", "low-cost")
    assert table.columns == ("impairment", "tolerated", "too much", *hardware)


def test_another_scenario_does_not_take_its_folder(found: Tolerances, scenario: Scenario) -> None:
    from airmixml import RunFolderError

    with pytest.raises(RunFolderError, match="holds a study with other settings"):
        find_tolerances(scenario.with_overrides("privacy.epsilon=2"), only="absent", jobs=1, out=found.out)


def test_an_air_that_cannot_be_is_too_much(scenario: Scenario, tmp_path: Path) -> None:
    """Blocks of 10 symbols, of which pilots take 9: every speed leaves less."""
    base = scenario.with_overrides(
        "air.pilot_symbols=9", "air.resync_seconds=1.4e-5", "air.coherence_share=1e-6", "air.phase_error_radians=0.1"
    )
    found = find_tolerances(base, seeds=1, only="speed_metres_per_second", quick=True, jobs=1, out=tmp_path / "out")
    (speed,) = found.plain["tolerances"]
    assert speed["tolerated"] is None
    assert "no symbol is left for data" in speed["why_not"]
    assert all(each["fall"] is None for each in speed["tried"])
    assert [path.suffix for path in write_tolerances(found.plain, base, found.out)] == [".md", ".json", ".csv"]


def test_digital_links_feel_absent_workers_alone(tmp_path: Path) -> None:
    few = ("workers.count=200", "radio.scheduled=200", "link.access_points=2")
    scenario = Scenario.preset("trustless-digits-digital").with_overrides(*few)
    found = find_tolerances(scenario, seeds=1, quick=True, jobs=1, drop=5.0, out=tmp_path / "out")
    (absent,) = found.plain["tolerances"]
    assert absent["key"] == "air.absent"
    assert absent["tolerated"] is not None
    assert absent["tolerated"] <= 0.15  # whose masks are recovered
    assert any("most_absent" in (each["error"] or "") for each in absent["tried"])
    with pytest.raises(ScenarioError, match="--only phase_error_radians: nothing of it changes what arrives"):
        find_tolerances(scenario, only="phase_error_radians", out=tmp_path / "none")
    planes = scenario.with_overrides("radio.link=analog")
    with pytest.raises(ScenarioError, match="needs the ideal air"):
        find_tolerances(planes, out=tmp_path / "none")
