"""Names in ledgers: which spellings are one person, and which are warned of."""

from __future__ import annotations

import sqlite3
import unicodedata
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airmixml import PrivacyError
from airmixml.budgets import LedgerFile, Loss, People, Request
from airmixml.budgets.file import packed
from airmixml.data.labels import number_holders
from airmixml.messages import DataError, LedgerError, NameWarning
from airmixml.names import normal_name, similar_names

PEOPLE = People(label="column patient")
ZOE = "Zo\u00eb M\u00fcller"
SAME = (
    f" {ZOE}\t",
    unicodedata.normalize("NFD", ZOE),
    ZOE.replace(" ", "  \n "),
    ZOE.replace(" ", "\u00a0"),
    ZOE.replace(" ", "\u202f\u2009"),
    f"\ufeff{ZOE}\u200b",
    "Zo\u00eb M\u200d\u00fcl\u00adle\ufe0fr\u200e",
    "Zo\u00eb \x00M\u00fcller\u3164",
)


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerFile:
    """Of a simulation, whose warnings show names."""
    return LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, people=PEOPLE, mode="simulation")


def spend(ledger: LedgerFile, *names: str, **loss: float) -> None:
    losses = {"server": Loss.of(**(loss or {"epsilon": 0.1}))}
    ledger.reserve([Request(about="a test", losses=losses, who=names)], PEOPLE, already_sent=True)


def spent(ledger: LedgerFile) -> dict[str, float]:
    (standing,) = ledger.standings()
    return dict(zip(standing.names, standing.budget.epsilons(standing.spent).tolist(), strict=True))


def test_spellings_that_look_the_same_have_one_budget(ledger: LedgerFile) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for spelling in SAME:
            spend(ledger, spelling)
    assert spent(ledger) == pytest.approx({ZOE: 0.8})
    with pytest.raises(PrivacyError, match=f"worker {ZOE} would pass"):
        ledger.reserve([Request(about="", losses={"server": Loss.of(epsilon=0.3)}, who=(ZOE + " ",))], PEOPLE)
    with pytest.raises(LedgerError, match="is named 2 times"):
        spend(ledger, SAME[0], SAME[1])
    assert ledger.facts()["workers"] == 1


@pytest.mark.parametrize("nothing", ["", " \t", "\u200b\ufeff", "\u3164"])
def test_a_name_of_nothing_is_refused(ledger: LedgerFile, nothing: str) -> None:
    with pytest.raises(LedgerError, match="is empty"):
        spend(ledger, "ann", nothing)
    with pytest.raises(DataError, match="name is empty"):
        number_holders(["ann", "bob", nothing], "x.npz")
    assert spent(ledger) == {}


@pytest.mark.parametrize("unseen", ["\u2065", "\ufff0", "\U000e0002", "\U000e0080", "\U000e01f0", "\U0001d159"])
def test_characters_to_ignore_are_no_part_of_a_name_even_if_they_are_not_assigned(unseen: str) -> None:
    assert normal_name(f"a{unseen}nn{unseen}") == "ann"


@given(st.text())
def test_a_normal_name_is_its_own_and_keeps_all_that_is_seen(text: str) -> None:
    name = normal_name(text)
    assert normal_name(name) == name == unicodedata.normalize("NFC", name)
    assert normal_name(f"\u200b {text}\u00a0") == name
    letters = [each for each in unicodedata.normalize("NFC", text) if each.isascii() and each.isalnum()]
    assert [each for each in name if each.isascii() and each.isalnum()] == letters


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann", "Ann"),
        ("stra\u00dfe", "STRASSE"),
        ("7", "007"),
        ("7", "7.0"),
        ("0012", "12.00"),
        ("P-07", "p-7"),
        ("0", "00"),
        ("ann", "\uff41\uff4e\uff4e"),
        ("ann smith", "annsmith"),
        ("O'Brien", "O\u2019Brien"),
        ("Smith-Jones", "Smith\u2013Jones"),
        *(("Smith-Jones", f"Smith{dash}Jones") for dash in "\u2015\u05be\u2e3a\u2212"),
        *(("O'Brien", f"O{quote}Brien") for quote in "\u201b\u02bb\u2032\u00b4`"),
        ("worker 7", "worker 7.0"),
        ("ann", "ann\ue000"),
        ("ann", "ann\ufdd0"),
    ],
)
def test_names_that_look_alike_are_warned_of_once_and_kept_apart(ledger: LedgerFile, one: str, other: str) -> None:
    spend(ledger, one)
    with pytest.warns(NameWarning, match="look like one person") as told:
        spend(ledger, other)
    assert len(told) == 1
    assert repr(one) in str(told[0].message)
    assert repr(other) in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spend(ledger, other)
    assert spent(ledger) == pytest.approx({one: 0.1, other: 0.2})


@pytest.mark.parametrize(
    ("one", "other"), [("7", "70"), ("1.05", "1.5"), ("10", "1"), ("ann", "anna"), ("7.0", "7.01")]
)
def test_names_that_are_others_are_not_warned_of(one: str, other: str) -> None:
    assert similar_names([other], [one]) == []


def test_thousands_of_pairs_are_one_line(ledger: LedgerFile) -> None:
    with pytest.warns(NameWarning) as told:
        spend(ledger, *(f"a{number}" for number in range(2000)), *(f"A{number}" for number in range(2000)))
    assert len(told) == 1
    assert "(and 1,997 more)" in str(told[0].message)
    assert len(str(told[0].message)) < 300


def test_strict_names_refuse_what_else_is_warned_of(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, people=PEOPLE, strict_names=True)
    spend(ledger, "ann", " bob")
    before = ledger.path.read_bytes()
    asked = [Request(about="", losses={"server": Loss.of(epsilon=0.1)}, who=("Ann", "carol"))]
    for check_only in (True, False):
        with pytest.raises(LedgerError, match=r"'ann' and 'Ann' look like one person, .* nothing was sent"):
            ledger.reserve(asked, PEOPLE, check_only=check_only)
    assert ledger.path.read_bytes() == before
    with pytest.warns(NameWarning):  # what was sent is a fact
        spend(ledger, "Ann")
    assert spent(ledger) == pytest.approx({"ann": 0.1, "bob": 0.1, "Ann": 0.1})


def test_in_protection_no_name_is_in_a_warning_nor_in_what_may_be_told_of_an_error(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, people=PEOPLE)
    strict = LedgerFile.create(tmp_path / "s.sqlite", epsilon=1.0, delta=1e-5, people=PEOPLE, strict_names=True)
    asked = [Request(about="", losses={"server": Loss.of(epsilon=0.1)}, who=("ann", "Ann", "bob", "BOB"))]
    with pytest.warns(NameWarning) as told:
        ledger.reserve(asked, PEOPLE)
    with pytest.raises(LedgerError, match="'ann' and 'Ann'") as refused:
        strict.reserve(asked, PEOPLE)
    with pytest.raises(LedgerError, match="udcff") as no_text:
        spend(ledger, "dora\udcff")
    every = [str(told[0].message), refused.value.public, no_text.value.public]
    assert "2 pairs of names look like one person" in every[0]
    assert "2 pairs of names look like one person" in every[1]
    for line in every:
        assert not any(name in line.lower() for name in ("ann", "bob", "dora"))


def test_one_person_of_a_data_set_is_one_worker_however_its_rows_spell_it() -> None:
    numbers, names = number_holders(["bob", *SAME, ZOE], "x.csv")
    assert len(set(numbers.tolist()[1:])) == 1
    assert sorted(names) == sorted(["bob", ZOE])
    assert [names[number] for number in numbers.tolist()] == ["bob", *[ZOE] * 9]
    numbers, names = number_holders(np.array([10.0, 2.0, 10.0]), "x.npz")
    assert (numbers.tolist(), names) == ([1, 0, 1], ("2", "10"))
    with pytest.raises(DataError, match="all rows are of one worker"):
        number_holders(SAME, "x.csv")


def old_names(ledger: LedgerFile, **spelt: str) -> None:
    """Have names as airmixml 0.1 kept them, as they were typed."""
    with closing(sqlite3.connect(ledger.path)) as file, file:
        for name, spelling in spelt.items():
            file.execute("UPDATE workers SET name = ? WHERE name = ?", (spelling, name))


def test_an_old_ledger_with_two_spellings_of_one_name_is_refused(ledger: LedgerFile) -> None:
    spend(ledger, "ann", "a2", epsilon=0.1)
    old_names(ledger, a2="ann\u00a0")
    for use in (ledger.standings, lambda: spend(ledger, "ann", epsilon=0.1)):
        with pytest.raises(LedgerError, match="several spellings of one name"):
            use()


def test_an_old_ledger_knows_a_person_under_the_new_spelling(ledger: LedgerFile) -> None:
    spend(ledger, "zoe", "bob")
    old_names(ledger, zoe=unicodedata.normalize("NFD", ZOE) + " ")
    spend(ledger, ZOE)
    assert spent(ledger) == pytest.approx({ZOE: 0.2, "bob": 0.1})


def test_names_and_numbers_are_not_mistaken_for_each_other(ledger: LedgerFile, tmp_path: Path) -> None:
    def ask(file: LedgerFile, people: People, who: object) -> list[int]:
        return file.reserve([Request(about="", losses={"server": Loss.of(epsilon=0.1)}, who=who)], people)  # type: ignore[arg-type]

    five = People(label="rows", count=5)
    by_number = LedgerFile.create(tmp_path / "n.sqlite", epsilon=1.0, delta=1e-5, people=five)
    for names in (("0", "1"), np.array(["ann"]), [], np.array([0.0, 1.0]), ("ann",)):
        with pytest.raises(LedgerError, match="must be numbers from 0 to 4"):
            ask(by_number, five, names)
    for numbers in (np.array([0]), None, (), (3, "ann"), [b"ann"]):
        with pytest.raises(LedgerError, match="workers of this ledger have names"):
            ask(ledger, PEOPLE, numbers)
    assert by_number.entries() == ledger.entries() == []
    ask(by_number, five, [0, 4])
    ask(ledger, PEOPLE, np.array(["ann", "bob "]))
    assert spent(ledger) == pytest.approx({"ann": 0.1, "bob": 0.1})


def test_what_is_no_text_is_one_line(ledger: LedgerFile, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="is not UTF-8 text"):
        spend(ledger, "\udcff")
    (number,) = ledger.reserve([Request(about="", losses={"server": Loss.of(epsilon=0.1)}, who=("ann",))], PEOPLE)
    with pytest.raises(LedgerError, match="is not UTF-8 text"):
        ledger.settle(number, reason="\udcff")
    with pytest.raises(LedgerError, match="is not UTF-8 text"):
        LedgerFile.create(tmp_path / "c.sqlite", epsilon=1.0, delta=1e-5, people=People(label="\udcff"))
    assert [each.name for each in tmp_path.iterdir()] == ["b.sqlite"]
    assert spent(ledger) == pytest.approx({"ann": 0.1})


def test_nobody_is_found_in_an_old_entry_of_nobody(ledger: LedgerFile) -> None:
    """Once `spend` took a ledger without names, and noted an entry of no worker."""
    nobody = packed(np.zeros(0, dtype=np.int64))
    number = packed(np.zeros(1))
    with closing(sqlite3.connect(ledger.path)) as file, file:
        texts = "(state, about, key, details, reserved_at, ended_at, who)"
        file.execute(f"INSERT INTO entries {texts} VALUES ('spent', '', '', '{{}}', '1', '2', ?)", (nobody,))
        file.execute("INSERT INTO losses VALUES (1, 'server', ?, ?, ?)", (number,) * 3)
    spend(ledger, "ann")
    assert spent(ledger) == pytest.approx({"ann": 0.1})
    assert [each.workers for each in ledger.entries()] == [0, 1]
