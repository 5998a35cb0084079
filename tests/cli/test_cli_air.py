"""``--air``, ``airmix airs``, ``airmix show --air`` and ``airmix tolerances``, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.scenario import AIR_PRESETS, Air

Airmix = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]
DIGITS = ("run", "--preset", "digits", "--set", "radio.slots=40", "--set", "learner.epochs=1")


def strict(text: str) -> Any:
    """Read JSON as other languages do: without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_airs_are_listed(airmix: Airmix) -> None:
    listed = strict(airmix("airs", "--json").stdout)["airs"]
    assert [each["name"] for each in listed] == list(AIR_PRESETS)
    assert all(each["summary"] for each in listed)
    assert all(name in airmix("airs").stdout for name in AIR_PRESETS)


@pytest.mark.parametrize("name", AIR_PRESETS)
def test_an_air_is_shown_with_what_its_file_says(airmix: Airmix, name: str) -> None:
    shown = airmix("show", "--air", name).stdout
    keys = tomllib.loads(shown)
    described = strict(airmix("show", "--air", name, "--json").stdout)
    others = {table: part for table, part in keys.items() if isinstance(part, dict)}
    own = {key: value for key, value in keys.items() if key not in others}
    assert described["tables"] == {"air": own, **others}
    assert Air(preset=name, **own) == Scenario().on_air(name).air
    assert shown.splitlines()[0] == f"# {described['about']}"


def test_a_preset_on_an_air(airmix: Airmix) -> None:
    shown = airmix("show", "private-iris", "--air", "line-of-sight")
    assert Scenario.from_toml(shown.stdout) == Scenario.preset("private-iris").on_air("line-of-sight")
    table = strict(airmix("show", "private-iris", "--air", "line-of-sight", "--json").stdout)
    assert table["air"]["preset"] == "line-of-sight"
    assert table["air"]["truncation_db"] is None


def test_a_run_names_its_air(airmix: Airmix, tmp_path: Path) -> None:
    air = ("--air", "line-of-sight", "--set", "air.absent=0.25", "--out", "here")
    done = airmix(*DIGITS, *air, columns=200)
    assert done.returncode == 0, done.stderr
    assert "digits on a changed line-of-sight, seed 0" in done.stdout
    assert "line-of-sight: phase_error_radians = " in done.stdout
    metrics = strict((tmp_path / "here" / "metrics.json").read_text())
    wanted = {**tomllib.loads((Path(__file__).parents[2] / "src/airmixml/airs/line-of-sight.toml").read_text())}
    defaults = vars(Air())
    changed = {key: value for key, value in wanted.items() if value not in (defaults[key], [])}
    assert metrics["air"] == {"preset": "line-of-sight", **changed, "absent": 0.25}
    assert Scenario.load(tmp_path / "here" / "scenario.toml").air.absent == 0.25


def test_the_ideal_air_is_not_mentioned(airmix: Airmix) -> None:
    done = airmix(*DIGITS, "--json")
    assert strict(done.stdout)["air"] == {"preset": "ideal"}
    assert Scenario.preset("digits").title == "digits"


@pytest.mark.long
def test_other_commands_take_and_name_it(airmix: Airmix) -> None:
    iris = ("--preset", "private-iris", "--air", "line-of-sight", "--json")
    for command in (("account", "--no-picture"), ("plan", "--no-picture"), ("compare", "--methods", "raw")):
        done = airmix(command[0], *iris, *command[1:])
        assert done.returncode == 0, done.stderr
        assert strict(done.stdout)["air"]["preset"] == "line-of-sight"
    swept = strict(airmix("sweep", *iris, "--grid", "air.absent=0,0.5", "--jobs", "1").stdout)
    assert swept["scenario"]["air"]["preset"] == swept["air"]["preset"] == "line-of-sight"
    assert [cell["values"] for cell in swept["cells"]] == [{"air.absent": 0.0}, {"air.absent": 0.5}]


def test_a_sweep_over_airs_has_all_their_keys(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix("sweep", "--preset", "private-iris", "--grid", "air.preset=ideal,low-cost", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    alone = airmix("run", "--preset", "private-iris", "--air", "low-cost", "--threads", "1", "--json")
    cells = strict((tmp_path / "runs/sweep-private-iris/sweep.json").read_text())["cells"]
    energies = [cell["metrics"]["energy_joules"]["mean"] for cell in cells]
    assert energies[0] != energies[1]
    assert energies[1] == strict(alone.stdout)["energy_joules"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--air", "line-of-sigh"), 'did you mean "line-of-sight"?'),
        (
            ("--air", "lab", "--set", "air.preset=line-of-sight"),
            "--air lab and --set air.preset: both choose the channel profile",
        ),
        (("--set", "air.preset=low-cots"), "air.preset = 'low-cots': must be one of"),
        (("--set", "air.absend=0.1"), "air.absend: unknown key; did you mean air.absent?"),
        (("--set", "air.absent=nan"), "air.absent = nan: must be a number"),
        (("--set", "air.min_power_dbm=nan"), "air.min_power_dbm = nan: must be a number"),
        (("--set", "air.roll_off=1.5"), "air.roll_off = 1.5: must be a number of at least 0.05 and of at most 1"),
        (("--set", "air.pilot_symbols=80", "--set", "air.resync_seconds=1e-4"), "no symbol is left for data"),
        (("--air", "line-of-sight", "--set", "air.guard_symbols=1000"), "no symbol is left for data"),
        (("--set", "air.also=nothing"), "air.also"),
    ],
)
def test_mistakes(refused: Refused, options: tuple[str, ...], told: str) -> None:
    assert told in refused(*DIGITS, *options)


def test_mistakes_elsewhere(refused: Refused) -> None:
    assert "give the name of a preset" in refused("show")
    assert 'did you mean "lab"?' in refused("show", "--air", "lap")
    assert "--workers and --air" in refused("account", "--workers", "5", "--air", "lab")
    iris = ("tolerances", "--preset", "private-iris")
    assert "did you mean absent?" in refused(*iris, "--only", "absend")
    assert "--drop = 0: must be" in refused(*iris, "--drop", "0")
    assert "--drop = nan: must be" in refused(*iris, "--drop", "nan")
    assert "seeds = 0: must be" in refused(*iris, "--seeds", "0")
    assert "--jobs = 0: must be" in refused(*iris, "--jobs", "0")
    assert "engine" in refused(*iris, "--engine", "proceses")


@pytest.mark.long
def test_tolerances(airmix: Airmix, tmp_path: Path) -> None:
    # A table's own choice of a centre, which on the ideal air alone would be estimated over the air.
    asked = ("tolerances", "--preset", "private-iris", "--set", "workers.centre=auto", "--only", "absent", "--quick")
    asked = (*asked, "--jobs", "1")
    done = airmix(*asked, columns=200)
    assert done.returncode == 0, done.stderr
    assert "absent workers" in done.stdout
    assert "Cannot be run" not in done.stdout
    assert (tmp_path / "runs/tolerances-private-iris/tolerances.png").stat().st_size > 10_000
    again = strict(airmix(*asked, "--json").stdout)
    assert again["kept"] == again["runs"] > 3
