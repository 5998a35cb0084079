"""``airmix ledger`` through real processes."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

Airmix = Callable[..., subprocess.CompletedProcess[str]]
CREATE = ("ledger", "create", "b.sqlite", "--epsilon", "1", "--delta", "1e-5", "--people", "patients", "--workers", "5")


def test_by_hand_from_beginning_to_end(airmix: Airmix, tmp_path: Path) -> None:
    made = json.loads(airmix(*CREATE, "--adversary", "server", "--adversary", "release", "--json").stdout)
    assert made["people"] == "5 workers by number, patients"
    assert made["budgets"] == {name: {"epsilon": 1.0, "delta": 1e-5} for name in ("release", "server")}
    spend = ("ledger", "spend", "b.sqlite", "--adversary", "server", "--about")
    assert airmix(*spend, "a mean", "--mu", "0.1").returncode == 0
    assert airmix(*spend, "a vote", "--epsilon", "0.3", "--worker", "2", "--worker", "4").returncode == 0
    found = json.loads(airmix("ledger", "show", "b.sqlite", "--json", "--top", "3").stdout)
    for against in found["adversaries"]:
        assert [line["worker"] for line in against["fullest"]] == ["2", "4", "0"]
        assert against["fullest"][0]["spent"] == pytest.approx(against["fullest"][2]["spent"] + 0.3)
    history = json.loads(airmix("ledger", "history", "b.sqlite", "--json").stdout)["entries"]
    assert [(each["about"], each["state"], each["workers"]) for each in history] == [
        ("a mean", "spent", None),
        ("a vote", "spent", 2),
    ]
    assert airmix("ledger", "export", "b.sqlite", "--out", "b.csv").returncode == 0
    with (tmp_path / "b.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert float(rows[2]["squared_mu"]) == pytest.approx(0.01)
    done = airmix("ledger", "export", "b.sqlite", "--out", "b.json", "--json")
    assert json.loads(done.stdout)["rows"] == len(json.loads((tmp_path / "b.json").read_text())["workers"]) == 10
    for table in ("show", "history"):
        assert "mean" in (printed := airmix("ledger", table, "b.sqlite").stdout) or "fullest workers" in printed


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("spend", "b.sqlite", "--about", "x"), "give either --mu"),
        (("spend", "b.sqlite", "--about", "x", "--mu", "1", "--delta", "0.1"), "--delta: goes with --epsilon"),
        (("spend", "b.sqlite", "--about", "x", "--mu", "9"), "nothing was sent; at most epsilon = "),
        (("spend", "b.sqlite", "--about", "x", "--mu", "-1"), "--mu = -1.0: must be a number of at least 0"),
        (("spend", "b.sqlite", "--about", "x", "--epsilon", "nan"), "--epsilon = nan of a loss: must be finite, at"),
        (("spend", "b.sqlite", "--about", "x", "--mu", "0.1", "--worker", "ada"), "must be a number from 0 to 4"),
        (("spend", "b.sqlite", "--about", "x", "--mu", "0.1", "--worker", "5"), "from 0 to 4"),
        (("spend", "b.sqlite", "--about", "x", "--mu", "0.1", "--adversary", "release"), "adversary server"),
        (("spend", "b.sqlite", "--about", "x", "--mu", "0.1", "--worker", "1_0"), "must be a number"),
        (("spend", "b.sqlite", "--about", "\udcff", "--mu", "0.1"), "is not UTF-8 text"),
        (("settle", "b.sqlite", "1", "--reason", "x"), "has no entry 1"),
        (("settle", "b.sqlite", "99999999999999999999", "--reason", "x"), "has no entry 99999999999999999999"),
        (("release", "b.sqlite", "--reason", "x", "--", "-9223372036854775809"), "has no entry -9223372036854775809"),
        (("check", "b.sqlite", "--preset", "private-table", "--seeds", "0"), "--seeds = 0: must be at least 1"),
        (("check", "b.sqlite", "--preset", "private-table", "--seeds", "99999999999999999999"), "at most"),
        (("release", "b.sqlite", "1", "--reason", ""), "must say why"),
        (("export", "b.sqlite", "--out", "b.xls"), "must end in .csv or .json"),
        (("show", "nowhere.sqlite"), "there is no such ledger"),
        (("show", "b.sqlite", "--top", "-1"), "--top = -1: must be a whole number of at least 0"),
        (
            ("spend", "b.sqlite", "--about", "x", "--mu", "0.1", "--worker", "4", "--worker", "004"),
            "4 is named 2 times",
        ),
        (("create", "c", "--epsilon", "0", "--delta", "1e-5"), "epsilon = 0 of a budget"),
        (("create", "c", "--epsilon", "1e308", "--delta", "1e-5"), "epsilon = 1e+308 of a budget"),
        (("create", "c", "--epsilon", "1", "--delta", "1"), "delta = 1 of a budget"),
        (("create", "c", "--epsilon", "1", "--delta", "1e-5", "--adversary", "servr"), 'did you mean "server"?'),
        (("create", "c", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "x"), "must be one of replace-one"),
        (("create", "c", "--epsilon", "1", "--delta", "1e-5", "--workers", "3"), "with --people"),
        (
            ("create", "c", "--epsilon", "1", "--delta", "1e-5", "--people", "x", "--workers", "1" * 20),
            "to 1,000,000,000",
        ),
    ],
)
def test_mistakes_are_one_line(
    airmix: Airmix, refused: Callable[..., str], arguments: tuple[str, ...], why: str
) -> None:
    assert airmix(*CREATE).returncode == 0
    assert why in refused("ledger", *arguments)


def test_the_square_of_any_mu_is_rounded_up(airmix: Airmix) -> None:
    assert airmix(*CREATE).returncode == 0
    assert airmix("ledger", "spend", "b.sqlite", "--about", "x", "--mu", "1.1e60", "--already-sent").returncode == 0
    (entry,) = json.loads(airmix("ledger", "history", "b.sqlite", "--json").stdout)["entries"]
    assert Fraction(entry["largest"]["server"]["squared_mu"]) >= Fraction(1.1e60) ** 2


def test_names_that_look_alike_are_a_line_or_refused(
    airmix: Airmix, refused: Callable[..., str], run_python: Airmix
) -> None:
    create = ("--epsilon", "1", "--delta", "1e-5", "--people", "column patient")
    spend = ("--about", "x", "--epsilon", "0.1", "--worker")
    for file, strictly in (("a.sqlite", ("--simulation",)), ("b.sqlite", ("--strict-names",))):
        assert airmix("ledger", "create", file, *create, *strictly).returncode == 0
        for spelling in ("ann", " ann\u00a0"):
            done = airmix("ledger", "spend", file, *spend, spelling)
            assert (done.returncode, done.stderr) == (0, "")
    told = "'ann' and 'Ann' look like one person"
    done = run_python("-m", "airmixml", "ledger", "spend", "a.sqlite", *spend, "Ann")
    assert done.returncode == 0
    assert done.stderr.startswith("airmix: warning: a.sqlite: " + told)
    assert done.stderr.count("\n") == 1
    assert told in refused("ledger", "spend", "b.sqlite", *spend, "Ann")
    for file, people in (("a.sqlite", ["ann", "Ann"]), ("b.sqlite", ["ann"])):
        found = json.loads(airmix("ledger", "show", file, "--json").stdout)
        assert [line["worker"] for line in found["adversaries"][0]["fullest"]] == people
        assert found["adversaries"][0]["fullest"][0]["spent"] == pytest.approx(0.2)


def test_a_check_in_protection_names_nobody_unless_its_owner_asks(airmix: Airmix, tmp_path: Path) -> None:
    rows = [
        f"{who},0.{place % 9},{'no' if place % 2 else 'yes'}" for place, who in enumerate(["ada", "ADA", "bob"] * 4)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["patient,a,label", *rows]) + "\n")
    create = ("--epsilon", "9", "--delta", "1e-3", "--strict-names")
    assert airmix("ledger", "create", "b.sqlite", *create).returncode == 0
    changes = ["dataset=rows.csv", "worker_column=patient", "classes=no,yes", "input_lower=0", "input_upper=1"]
    settings = [part for change in changes for part in ("--set", f"workers.{change}")]
    check = ("ledger", "check", "b.sqlite", "--preset", "private-table", *settings)
    hidden, shown = airmix(*check), airmix(*check, "--show-values")
    assert (hidden.returncode, shown.returncode) == (2, 2)
    assert "1 pair of names look like one person" in hidden.stderr
    assert "ada" not in hidden.stderr.lower()
    assert "--show-values" in hidden.stderr
    assert "'ADA' and 'ada' look like one person" in shown.stderr
    undeclared = airmix(*check[:5], *settings[:4])
    assert undeclared.returncode == 2
    assert "workers.classes: must be declared" in undeclared.stderr
