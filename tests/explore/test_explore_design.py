"""The design page has the numbers and the words of the command line."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from airmixml import Scenario, run
from airmixml.explore.asked import choices
from airmixml.explore.design import LIGHT_ACCOUNTANTS, is_light, light_parts, plan_part
from airmixml.explore.run_book import curve_of
from airmixml.messages import AirMixError, joules
from airmixml.planning.account import account_scenario
from airmixml.planning.known_inputs import data_dimensions, input_moments
from airmixml.planning.plan import make_plan
from airmixml.radio.mixing import TransmitPower
from airmixml.radio.tally import rehearse
from airmixml.scenario import AIR_PRESETS, preset_names
from airmixml.workers import settle

Finished = subprocess.CompletedProcess[str]
Design = Callable[..., dict[str, Any]]
CHANGED = {"radio.scheduled": 16, "privacy.epsilon": 7.5, "mixing.alpha": 100.0, "radio.noise_dbm": -100}


def sets(overrides: dict[str, Any]) -> list[str]:
    return [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]


@pytest.mark.parametrize(
    ("preset", "overrides"),
    [
        ("paper-iris", CHANGED),
        pytest.param("digits", {"mixing.power": "dp", "privacy.epsilon": 9}, marks=pytest.mark.long),
        pytest.param("trustless-iris", {}, marks=pytest.mark.long),
        pytest.param("private-table", {}, marks=pytest.mark.long),
        pytest.param("trustless-digits-rounds", {}, marks=pytest.mark.long),
    ],
)
def test_plan_and_accounts_are_those_of_the_command_line(
    airmix: Callable[..., Finished], design: Design, preset: str, overrides: dict[str, Any]
) -> None:
    parts = design(preset, overrides=overrides)
    asked = ("--preset", preset, *sets(overrides), "--json", "--no-picture")
    plan = json.loads(airmix("plan", *asked).stdout)
    for name in ("feasible", "verdict", "energy_joules", "power_dbm", "snr_inputs_db", "noise_multipliers"):
        assert parts["plan"]["plan"].get(name) == plan.get(name), name
    account = json.loads(airmix("account", *asked).stdout)
    quick = [each for each in account["statements"] if each["accountant"] != "pld"]
    assert parts["account"]["statements"] == quick
    assert [each for each in account["refusals"] if each["accountant"] != "pld"] == parts["account"]["refusals"]


@pytest.mark.long
def test_heavy_parts_come_as_they_finish(client: TestClient, airmix: Callable[..., Finished]) -> None:
    """The slow accountant and better designs, from a process of its own."""
    overrides = {"radio.slots": 50, "learner.epochs": 2}
    answer = client.post("/api/design", json={"preset": "paper-iris", "overrides": overrides})
    parts = [json.loads(line) for line in answer.text.splitlines()]
    names = [part["part"] for part in parts if part["part"] != "progress"]
    assert names == ["scenario", "plan", "account", "light", "account", "options", "done"]
    asked = ("--preset", "paper-iris", *sets(overrides), "--json", "--no-picture")
    account = json.loads(airmix("account", *asked).stdout)
    slow = next(part for part in parts if part.get("accountants") == ["pld"])
    assert slow["statements"] == [each for each in account["statements"] if each["accountant"] == "pld"]
    options = next(part for part in parts if part["part"] == "options")["plan"]
    assert options["energy_joules"] == json.loads(airmix("plan", *asked).stdout)["energy_joules"]


QUICK = {("digits", "ideal"), ("paper-iris", "campus"), ("trustless-iris", "lab")}


@pytest.mark.parametrize(
    ("preset", "overrides"),
    [
        *(
            pytest.param(name, {"air.preset": air}, marks=[] if (name, air) in QUICK else [pytest.mark.long])
            for name in preset_names()
            for air in AIR_PRESETS
        ),
        ("paper-iris", {"mixing.power": "max"}),
        ("paper-iris", {"mixing.power": "fixed", "mixing.power_scale_watts": 1e-30}),
        ("digits", {"mixing.power": "dp"}),
    ],
)
def test_verdict_cards_and_table_are_about_the_design_on_the_page(preset: str, overrides: dict[str, Any]) -> None:
    """The verdict against the scenario's own account, the table against it, the cards against plan or a rehearsal."""
    scenario = settle(Scenario.preset(preset).with_overrides(*sets(overrides)[1::2]))
    page = {part["part"]: part for part in light_parts(scenario)}
    privacy, dimensions = scenario.privacy, data_dimensions(scenario, None, None)
    if "problem" in page:  # then the commands say the same, and there is nothing else on the page
        with pytest.raises(AirMixError) as refused:
            account_scenario(scenario, *dimensions, accountants=(privacy.accountant,))
        assert set(page) == {"problem"}
        assert page["problem"]["line"] == " ".join(str(refused.value).split())
        return
    verdict, cards = page["plan"]["verdict"], {each["name"]: each["value"] for each in page["plan"]["cards"]}
    account = account_scenario(scenario, *dimensions, accountants=(*LIGHT_ACCOUNTANTS, privacy.accountant))
    stated = {(each.adversary, each.accountant): each.epsilon for each in account.statements}
    table = {(each["adversary"], each["accountant"]): each["epsilon"] for each in page["account"]["statements"]}
    assert table == {pair: value for pair, value in stated.items() if pair[1] in LIGHT_ACCOUNTANTS}
    epsilon = stated[privacy.adversary, privacy.accountant]
    assert (verdict["kind"] == "bad") == (epsilon > privacy.epsilon * (1 + 1e-6))
    if scenario.mixing.power == "dp":
        assert (verdict["kind"], verdict["word"]) == ("good", "feasible")
        plan = make_plan(scenario, *dimensions, input_moments(scenario, None, None, named=True), alternatives=False)
        assert verdict["text"] == plan.verdict
        power, energy = plan.power_dbm, plan.energy_joules
    else:
        assert verdict["kind"] != "good"
        assert "is met" not in verdict["text"]
        assert f'mixing.power = "{scenario.mixing.power}", not by the target' in verdict["text"]
        sent = rehearse(scenario, *dimensions).to_dict()
        power, energy = TransmitPower(**sent["power_dbm"]), sent["energy_joules"]
    assert power is not None
    assert cards["Transmit power"] == f"{power.median:.1f} dBm"
    assert cards["Energy"] == joules(energy)


def test_an_invalid_value_is_not_called_infeasible(design: Design) -> None:
    refused = design(overrides={"privacy.epsilon": -3})["problem"]
    assert refused["invalid"]
    assert refused["line"].startswith("privacy.epsilon = -3")
    assert not design(overrides={"privacy.accountant": "gdp"})["plan"]["verdict"]["runs"]


def test_what_is_known_is_said_while_the_rest_is_computed(design: Design) -> None:
    parts = design(overrides={"privacy.accountant": "pld"})
    assert parts["scenario"]["known"] == (
        "Target epsilon 5 by pld against the release; 2,000 workers, 8 at a time in 1,000 slots"
    )


def test_every_symbol_has_a_meaning(design: Design) -> None:
    parts = design()
    assert all(each["about"] for each in parts["plan"]["cards"])
    assert set(parts["account"]["about"]) == set(parts["account"]["all_accountants"])
    assert all(parts["account"]["about"].values())
    assert all(each["about"] for each in choices()["keys"].values())


@pytest.mark.parametrize(
    "overrides",
    [
        {"privacy.accountant": "gdp"},
        {"privacy.delta": "much"},
    ],
)
def test_what_cannot_be_had_says_why_in_the_words_of_plan(
    airmix: Callable[..., Finished], design: Design, overrides: dict[str, Any]
) -> None:
    parts = design(overrides=overrides)
    done = airmix("plan", "--preset", "paper-iris", *sets(overrides), "--no-picture", "--json")
    if done.returncode == 2:
        assert parts["problem"]["line"] == done.stderr.removeprefix("airmix: error: ").rstrip("\n")
    else:
        plan = json.loads(done.stdout)
        assert (parts["plan"]["plan"]["feasible"], parts["plan"]["plan"]["verdict"]) == (False, plan["verdict"])
        assert not plan["feasible"]


def test_exports_are_the_same_scenario(design: Design) -> None:
    exports = design(overrides=CHANGED)["scenario"]["exports"]
    wanted = Scenario.preset("paper-iris").with_overrides(*(f"{key}={value}" for key, value in CHANGED.items()))
    assert Scenario.from_toml(exports["toml"]) == wanted
    words = shlex.split(exports["command"])
    assert words[:4] == ["airmix", "run", "--preset", "paper-iris"]
    assert Scenario.preset("paper-iris").with_overrides(*words[5::2]) == wanted


def test_a_file_that_is_opened_is_the_base_of_all_forms(design: Design, tmp_path: Path) -> None:
    text = 'extends = "private-iris"\nname = "mine"\n[privacy]\nepsilon = 3.0\n'
    found = design(toml=text, file="../my scenario.toml", overrides={"radio.noise_dbm": -110})["scenario"]
    assert found["name"] == "mine"
    assert found["values"]["privacy.epsilon"] == 3.0
    assert found["values"]["radio.noise_dbm"] == -110
    assert shlex.split(found["exports"]["command"])[2:] == ["my scenario.toml", "--set", "radio.noise_dbm=-110"]


def test_where_everybody_sends_more_workers_send_too(design: Design) -> None:
    assert design("private-iris", overrides={"workers.count": 500})["scenario"]["values"]["radio.scheduled"] == 500
    assert design("paper-iris", overrides={"workers.count": 500})["scenario"]["values"]["radio.scheduled"] == 8


@pytest.mark.parametrize(
    "text",
    [
        '[workers]\ndataset = "/etc/hosts.csv"',
        '[workers]\ndataset = "../private.csv"',
        '[workers]\ndataset = "~/private.npz"',
        '[workers]\ndataset = "runs/../private.csv"',
        '[workers]\nencoder = "onnx:/tmp/model.onnx"',
        '[workers]\nencoder = "onnx:model.onnx"',
        '[workers]\ndataset = "\\u0000.csv"',
        '[workers]\nencoder = "onnx:\\u0000"',
    ],
)
def test_scenarios_reach_no_file_outside_the_runs_folder(design: Design, client: TestClient, text: str) -> None:
    assert "the explorer reads files in" in design(toml=text)["problem"]["line"]
    for path in ("/api/watch", "/api/runs"):
        answer = client.post(path, json={"toml": text})
        assert answer.status_code == 400
        assert "the explorer reads files in" in answer.json()["line"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"workers.dataset": "/etc/hosts.csv"},
        {"workers.dataset": '"/etc/hosts.csv"'},
        {"workers.dataset": "'/etc/hosts.csv'"},
        {"workers.dataset": '"/etc/hosts.\\u0063sv"'},
        {"workers.dataset": " /etc/hosts.csv "},
        {" workers.dataset": "/etc/hosts.csv"},
        {"workers.dataset=/etc/x": ".csv"},
        {"workers.encoder": '"onnx:/tmp/model.onnx"'},
    ],
)
def test_overrides_reach_no_file_outside_the_runs_folder(design: Design, overrides: dict[str, Any]) -> None:
    assert "the explorer reads files in" in design("private-table", overrides=overrides)["problem"]["line"]


def test_files_in_the_runs_folder_are_read(design: Design, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    rows = "\n".join(f"{number % 7},{number % 5},{'yes' if number % 2 else 'no'}" for number in range(60))
    (tmp_path / "runs" / "mine.csv").write_text(f"a,b,label\n{rows}\n")
    text = f'extends = "private-table"\n[workers]\ndataset = "{tmp_path}/runs/mine.csv"\nlabel_column = "label"\n'
    parts = design(toml=text + "[workers.bounds]\na = [0, 10]\nb = [0, 10]\n")
    assert parts["scenario"]["values"]["workers.count"] == 40
    assert parts["plan"]["plan"]["feasible"]


@pytest.mark.parametrize(
    "body", [[], {"toml": "x = ["}, {"preset": "x", "toml": ""}, {"preset": "paper-iris", "overrides": 3}]
)
def test_odd_requests_get_one_line(client: TestClient, body: Any) -> None:
    answer = client.post("/api/watch", json=body)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["line"]


def test_rounds_are_chosen_and_counted(design: Design, tmp_path: Path) -> None:
    assert {"0", "auto", "20"} <= set(choices()["keys"]["learner.rounds"]["words"])
    parts = {rounds: design("private-table", overrides={"learner.rounds": rounds}) for rounds in ("0", "auto", "4")}
    assert [parts[each]["scenario"]["values"]["learner.rounds"] for each in parts] == [0, 20, 4]
    assert [parts[each]["scenario"]["slots"] for each in parts] == [
        "1 slot, after a slot for the mean",
        "1 slot and 20 rounds, after a slot for the mean",
        "1 slot and 4 rounds, after a slot for the mean",
    ]
    assert all(each["plan"]["verdict"]["kind"] == "good" for each in parts.values())
    result = run(
        Scenario.preset("private-table").with_overrides("learner.rounds=4"), out=tmp_path / "run", pictures=False
    )
    planned = parts["4"]["plan"]
    assert planned["air_seconds"] == pytest.approx(result.air_seconds, rel=1e-9)
    assert planned["plan"]["energy_joules"] == pytest.approx(result.energy_joules, rel=1e-6)
    assert planned["plan"]["rounds"]["downlink_bits_per_round"] == result.rounds["downlink_bits_per_round"]


def test_the_curve_of_rounds_begins_with_the_first_model(tmp_path: Path) -> None:
    run(Scenario.preset("private-iris").with_overrides("learner.rounds=3"), out=tmp_path / "run", pictures=False)
    curve = curve_of(tmp_path, tmp_path / "run")
    assert (curve["step"], curve["first"], len(curve["score"])) == ("round", 0, 4)


def test_what_takes_long_is_left_to_a_process(design: Design) -> None:
    for preset, light in {
        "paper-iris": True,
        "private-mnist": True,
        "private-mnist-rounds": True,
        "trustless-mnist": False,
    }.items():
        assert is_light(Scenario.preset(preset)) is light
    assert set(design(overrides={"privacy.accountant": "pld"})) == {"scenario", "light"}


def test_the_explorer_draws_no_more_workers_than_it_can(design: Design) -> None:
    assert "at most 2,000,000 workers" in design(overrides={"workers.count": 3_000_000})["problem"]["line"]


def test_one_page_says_one_thing_of_a_design_whose_power_keeps_no_target() -> None:
    scenario = Scenario.preset("digits").with_overrides("radio.slots=200")
    part = plan_part(scenario)
    assert part["plan"]["verdict"] == part["verdict"]["text"]
    assert "is met" not in part["plan"]["verdict"]


def test_the_air_time_includes_the_slot_for_the_mean() -> None:
    scenario = settle(Scenario.preset("private-table"))
    assert scenario.workers.centre_on_air
    rehearsed = rehearse(scenario, *data_dimensions(scenario, None, None))
    assert plan_part(scenario)["air_seconds"] == pytest.approx(rehearsed.air_seconds)
