"""``airmix account`` and ``airmix plan`` as processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
Refused = Callable[..., str]
NUMBERS = ("account", "--workers", "2000", "--scheduled", "8", "--slots", "1000")


def test_numbers_have_a_table_their_assumptions_and_a_picture(airmix: Airmix, tmp_path: Path) -> None:
    numbers = ("--workers", "20", "--scheduled", "4", "--slots", "3", "--noise-multiplier", "5")
    done = airmix("account", *numbers, "--picture", "here/account.svg")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("paper-loose", "server", "20, 4 at a time in 3 slots", "noise multiplier 5 in", "account.svg"):
        assert words in done.stdout
    assert (tmp_path / "here" / "account.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.long
def test_an_account_has_a_table_its_assumptions_and_a_picture(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix("account", "--preset", "paper-iris")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("paper-loose", "eavesdropper", "knows all mixtures, and no schedule", "noise multiplier 0.6308"):
        assert words in done.stdout
    with Image.open(tmp_path / "runs" / "paper-iris-account.png") as picture:
        assert min(picture.size) > 300


def test_a_brief_account_says_what_is_assumed_of_colluders(airmix: Airmix) -> None:
    for changes, times in (("--set", "privacy.colluders=12"), 1), ((), 0):
        finished = airmix("account", "--preset", "trustless-digits", "--brief", "--no-picture", *changes)
        assert " ".join(finished.stdout.split()).count("if colluders are chosen without knowing the graph") == times


def test_the_reason_why_nothing_is_stated_is_said_once(airmix: Airmix) -> None:
    """All five accountants share the reason; the brief account has it in the same words."""
    told = [
        " ".join(airmix("account", "--preset", "private-table", "--no-picture", *brief).stdout.split())
        for brief in ((), ("--brief",))
    ]
    for text in told:
        assert text.count("what a receiver near the workers hears of the slot for the mean is not accounted for") == 1
        assert '- eavesdropper: no guarantee stated (workers.centre = "private" or "refined": what a' in text
    assert "median worker │ epsilon 1 against the server" in told[0]


@pytest.mark.long
def test_accounts_plans_and_runs_count_the_slot_for_the_mean(airmix: Airmix) -> None:
    """One slot for the mean, one of moments and 20 rounds are 22."""
    table = ("--preset", "private-table")
    commands = (
        (("account", *table, "--no-picture"), "in 22 slots, one of them for the mean"),
        (
            ("run", *table),
            "the 21 slots of the worst worker together, with a known schedule; with the slot that estimated the mean",
        ),
    )
    for command, counted in commands:
        told = " ".join(airmix(*command).stdout.replace("│", " ").split())
        assert "379, 379 at a time in 1 slot and 20 rounds, after a slot for the mean" in told, command
        assert counted in told, command
    plain = json.loads(airmix("account", *table, "--no-picture", "--json").stdout)
    assert (plain["slots"], plain["rounds"], plain["slots_for_mean"]) == (21, 20, 1)
    assert json.loads(airmix("plan", *table, "--no-picture", "--json").stdout)["uplink"]["reachable"] == 22


@pytest.mark.parametrize("command", ["account", "plan"])
def test_a_delta_that_permits_revealing_a_worker_is_told(command: str, airmix: Airmix) -> None:
    """2,000 workers: 1 / 2,000 = 5e-4."""
    for delta, told in (("5e-4", True), ("4.9e-4", False)):
        said = airmix(command, "--preset", "private-iris", "--set", f"privacy.delta={delta}", "--no-picture").stdout
        assert ("Delta is not below 1 in 2,000 workers" in said) == told


def test_an_account_as_json(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix(*NUMBERS, "--epsilon", "1", "--delta", "1e-5", "--accountant", "pld", "--json", "--no-picture")
    account = json.loads(done.stdout)
    by_name = {(each["adversary"], each["accountant"]): each for each in account["statements"]}
    assert 0.99 < by_name["release", "pld"]["epsilon"] <= 1.0
    for each in account["statements"]:
        assert {"epsilon", "delta", "adversary", "accountant", "adjacency", "sensitivity", "sampling"} <= set(each)
        assert each["delta"] == 1e-5
    assert by_name["server", "gdp"]["schedule_failure"] == 1e-9
    assert {(each["adversary"], each["accountant"]) for each in account["refusals"]} == {("release", "gdp")}
    assert list(tmp_path.iterdir()) == []


def test_own_data_needs_no_reading_if_its_dimensions_are_given(airmix: Airmix, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "paper-iris"\n[workers]\ndataset = "not/there.csv"\n')
    refused = airmix("plan", "mine.toml", "--input-dim", "12", "--label-dim", "2")
    assert refused.stderr.startswith("airmix: error: workers.count = 0: needs data to count")
    given = ("--input-dim", "12", "--label-dim", "2", "--set", "workers.count=500")
    done = airmix("plan", "mine.toml", *given)
    assert done.returncode == 0, done.stderr
    assert "12 inputs, 2 classes" in done.stdout


def test_a_plan_as_json(airmix: Airmix) -> None:
    done = airmix("plan", "--preset", "paper-iris", "--json", "--no-picture", "--set", "radio.slots=100")
    plan = json.loads(done.stdout)
    assert plan["feasible"] is True
    assert plan["power_dbm"]["limit"] == 23
    assert not {"recommended", "note"} & plan.keys()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("account",), "or plain numbers: --workers"),
        (
            ("account", "--preset", "paper-iris", "--delta", "1e-3"),
            "--delta and --preset: plain numbers and a scenario",
        ),
        ((*NUMBERS, "--noise-multiplier", "1", "--ledger"), "--workers and --ledger: plain numbers and a scenario"),
        ((*NUMBERS, "--noise-multiplier", "1", "--accountant", "PLD"), 'did you mean "pld"?'),
        ((*NUMBERS, "--noise-multiplier", "1", "--colluders", "2000"), "error: --colluders = 2000: must be fewer than"),
        ((*NUMBERS, "--epsilon", "1", "--accountant", "gdp"), "error: --accountant = 'gdp': cannot treat sampling"),
        ((*NUMBERS, "--epsilon", "1", "--delta", "0.01"), "error: --epsilon = 1: paper-loose certifies only"),
        ((*NUMBERS, "--epsilon", "9", "--adversary", "everyone"), "must be release or server; others need a scenario"),
        (("account", "--workers", "5"), "--scheduled: missing; plain numbers need"),
        ((*NUMBERS, "--preset", "digits"), "plain numbers and a scenario exclude each other"),
        (NUMBERS, "either a noise multiplier (--noise-multiplier)"),
        ((*NUMBERS, "--noise-multiplier", "0"), "--noise-multiplier = 0.0: must be a number"),
        ((*NUMBERS, "--noise-multiplier", "nan"), "--noise-multiplier = nan: must be a number"),
        ((*NUMBERS, "--epsilon", "1", "--delta", "1"), "--delta = 1.0: must be a number"),
        ((*NUMBERS, "--epsilon", "1", "--delta", "0.01"), "certifies only epsilon above ln(1/delta) = 4.6052"),
        ((*NUMBERS, "--epsilon", "9", "--accountant", "pdl"), 'did you mean "pld"?'),
        ((*NUMBERS, "--epsilon", "9", "--adversary", "me"), "must be release or server"),
        ((*NUMBERS, "--noise-multiplier", "1", "--adjacency", "swap"), "must be one of replace-one, remove-one"),
        ((*NUMBERS, "--noise-multiplier", "1", "--sampling", "all"), "must be without-replacement or poisson"),
        (("account", "--preset", "paper-iris", "--picture", "here.jpg"), "must end in .png, .svg or .pdf"),
        (("account", "--preset", "paper-iris", "--input-dim", "3"), "--input-dim and --label-dim: go together"),
        (("plan", "--preset", "paper-iris", "--input-mean", "2"), "--input-mean = 2: must be above 0 and at most 1"),
        (("plan", "--preset", "paper-iris", "--input-deviation", "0"), "--input-deviation = 0: must be above 0"),
        (("plan", "--preset", "paper-iris", "--set", "privacy.adversary=evil"), "privacy.adversary = 'evil'"),
        (("plan", "--preset", "paper-iris", "--set", "radio.max_participations=2"), "must be at least 4"),
    ],
)
def test_mistakes(refused: Refused, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_the_help_names_the_adversaries_that_plain_numbers_may_have(airmix: Airmix) -> None:
    told = " ".join(airmix("account", "--help").stdout.split())
    listed = told.partition("Adversary of --epsilon: ")[2].partition(".")[0]
    assert listed == "release or server"
    for adversary in listed.split(" or "):
        done = airmix(*NUMBERS, "--epsilon", "20", "--adversary", adversary, "--no-picture", "--json")
        assert f"against {adversary}" in json.loads(done.stdout)["power"]


@pytest.mark.parametrize("command", ["account", "plan"])
def test_a_table_is_worth_more_than_a_picture_that_nobody_asked_for(
    airmix: Airmix, tmp_path: Path, command: str
) -> None:
    (tmp_path / "runs").write_text("where a folder should be")
    done = airmix(command, "--preset", "private-iris")
    assert done.returncode == 0
    assert done.stderr.startswith("airmix: the picture is left out: runs/private-iris-")
    assert done.stderr.count("\n") == 1
    assert "server" in done.stdout
    assert ".png" not in done.stdout


@pytest.mark.parametrize("command", ["account", "plan"])
def test_a_picture_that_cannot_be_written(refused: Refused, tmp_path: Path, command: str) -> None:
    """And nothing is computed before: these scenarios would take hours."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    endless = ("--preset", "paper-mnist", "--set", "radio.slots=1000000000", "--set", "mixing.power=max")
    for picture in ("file/plan.png", "folder.png"):
        line = refused(command, *endless, "--picture", picture)
        assert line.startswith(f"airmix: error: {picture}: ")
        assert "cannot be written" in line
        assert line.endswith(" choose another --picture\n")
