"""A user's mistake: exit status 2, one line on stderr, nothing on stdout, nothing left behind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Airmix = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]
NUMBERS = ("account", "--workers", "100", "--slots", "5", "--epsilon", "1")
IRIS = ("run", "--preset", "paper-iris", "--set", "radio.slots=20", "--set", "learner.epochs=1")


def test_neither_or_both_of_file_and_preset(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("seed = 1\n")
    assert "either a scenario file or --preset" in refused("run")
    assert "either a scenario file or --preset" in refused("run", "mine.toml", "--preset", "digits")


def test_files_that_are_no_scenarios(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\x00\xff\xfe")
    assert "missing.toml: cannot be read (No such file or directory)" in refused("run", "missing.toml")
    assert "binary.toml: not UTF-8 text" in refused("run", "binary.toml")


def test_names_that_do_not_exist(refused: Refused) -> None:
    assert "did you mean paper-iris?" in refused("run", "--preset", "paper-irs")
    assert "did you mean radio.slots?" in refused(*IRIS, "--set", "radio.slot=5")


def test_an_option_that_is_gone_says_what_takes_its_place(refused: Refused) -> None:
    line = refused("compare", "--vary", "x")
    assert "--vary" in line  # in the words of a library
    assert "(use airmix sweep --grid" in line
    assert "use --set learner.rounds=N; see airmix deploy up --help" in refused("deploy", "up", "--rounds", "3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*IRIS, "--threads", "-2"), "--threads = -2: must be a whole number of at least 0"),
        ((*IRIS, "--block-slots=-1"), "--block-slots = -1: must be"),
        ((*IRIS, "--device", "gpu"), "--device = 'gpu': must be cpu or cuda"),
        (("audit", "--preset", "paper-iris", "--trials", "0"), "--trials = 0: must be at least 100"),
        (("audit", "--preset", "paper-iris", "--confidence", "2"), "--confidence = 2: must be at least 0.5"),
        ((*NUMBERS, "--scheduled", "200"), "--scheduled = 200: must be at least 1 and at most the 100 workers"),
        ((*NUMBERS, "--scheduled", "9", "--accountant", "foo"), "--accountant = 'foo': must be one of"),
        ((*IRIS, "--set", "=5"), "--set =5: must be key=value"),
        ((*IRIS, "--set", "privacy.epsilon=1e400"), "privacy.epsilon = '1e400': must be a number above 0"),
        ((*IRIS, "--out", ""), "--out = '': must not be empty"),
        ((*IRIS, "--out", "/"), "/: cannot be a run folder; choose another --out"),
        ((*IRIS, "--out", "a.partial"), "choose an --out that does not end in .partial"),
        ((*NUMBERS, "--scheduled", "9", "--picture", "/proc/x.png"), "error: /proc/x.png: cannot be written"),
        (("plan", "--preset", "private-iris", "--write", "/proc/x.toml"), "error: /proc/x.toml: cannot be written"),
        (("ledger", "create", "/proc/l", "--epsilon", "1", "--delta", "1e-5"), "use another folder"),
        (("deploy", "up", "--workers", "0"), "--workers = 0: must be from 1"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(refused: Refused, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(*arguments)


def test_a_scenario_that_extends_a_file(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "base.toml"\n')
    assert "mine.toml: extends = 'base.toml': must name a preset, not a file" in refused("run", "mine.toml")


def test_no_seeds_at_all(refused: Refused) -> None:
    line = refused(*IRIS, "--seeds", "0")
    assert "seeds" in line
    assert "0: must be at least 1" in line


# What follows is found after torch is there, so the processes take seconds.


def test_a_privacy_target_that_cannot_be_certified(refused: Refused) -> None:
    line = refused(*IRIS, "--set", "privacy.epsilon=4.6")
    assert "privacy.epsilon = 4.6: " in line
    assert "ln(1/delta) = 4.6052" in line  # ln 100


def test_an_out_folder_that_exists(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    assert "taken: exists" in refused(*IRIS, "--out", "taken")


def test_a_column_is_named_where_its_bounds_or_its_name_are_wrong(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,height,kind\n1,2,x\n2,3,y\n")
    (tmp_path / "bounds.toml").write_text("age = [0, 120]\nheight = [250, 0]\n")
    own = ("--set", "workers.dataset=rows.csv", "--set", "workers.label_column=kind", "--bounds", "bounds.toml")
    line = refused("run", "--preset", "private-iris", *own)
    assert "workers.input_upper = 0 for column 'height': must be above workers.input_lower = 250" in line
    (tmp_path / "twice.csv").write_text("age,height,age,kind\n1,2,3,x\n2,3,4,y\n")
    assert "columns 1 and 3 are both called 'age'" in refused("init", "twice.csv")


def test_a_brief_account_says_why_nothing_is_stated(airmix: Airmix) -> None:
    told = airmix("account", "--preset", "private-table", "--brief", "--no-picture").stdout
    assert "\n- eavesdropper: no guarantee stated (workers.centre = " in told
