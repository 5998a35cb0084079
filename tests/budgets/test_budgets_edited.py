"""Ledgers that something else than airmix has changed: one line, never a traceback and never a wrong number."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from airmixml import PrivacyError
from airmixml.budgets import LedgerFile, Loss, People, Request
from airmixml.budgets.file import packed
from airmixml.messages import AirMixError, LedgerError

PEOPLE = {"names": People(label="column patient"), "numbers": People(label="rows of five", count=5)}
WHO = {"names": ("ann", "bob"), "numbers": np.array([1, 3])}
PACKED = (
    *(packed(np.array(values)) for values in ([], [-0.1], [np.nan], [0.1] * 2, [0.1] * 5, [0.0] * 7, [1e300])),
    *(packed(np.array(values, dtype=np.int64)) for values in ([0, 0], [-1], [99], [2**62])),
)
ODD = (
    *(None, "", "abc", "7", "NaN", "[1]", '{"a": 1e999, "b": NaN}', "[" * 100_000, "\x00", b"", b"\xff" * 9),
    *(-1, 0, 2, 2**62, -(2**63), 0.5, 1e308, float("inf"), "spent", "reserved", "released"),
    *(b"\x00\x00\x00\x00z", b"\x00\x00\x00\x00", packed(np.zeros(2000))[:-3]),
    *PACKED,
)


def request(loss: Loss, **others: object) -> Request:
    return Request(about="a test", losses={"server": loss}, details={"seed": 1}, **others)  # type: ignore[arg-type]


@pytest.fixture(params=["names", "numbers"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ledger(kind: str, tmp_path: Path) -> LedgerFile:
    """One with a spent, a reserved and a released entry."""
    made = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, people=PEOPLE[kind])
    made.reserve([request(Loss.of(epsilon=[0.1, 0.2]), who=WHO[kind])], PEOPLE[kind], already_sent=True)
    made.reserve([request(Loss.of(squared_mu=1e-4), who=WHO[kind], key="k")], PEOPLE[kind])
    (number,) = made.reserve([request(Loss.of(epsilon=0.5), who=WHO[kind])], PEOPLE[kind])
    made.release(number, reason="a test")
    return made


def edit(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    """Change a ledger as somebody with another program would, whatever its rules are."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            file.execute(statement, values)


def every_answer(ledger: LedgerFile, kind: str) -> dict[str, object]:
    """Return what each command says, or the class of its one line; anything else fails."""

    def settle_twice() -> None:
        ledger.settle(2, {"server": Loss.of(epsilon=0.01)})
        ledger.settle(2, repeated=True)

    commands: dict[str, Callable[[], object]] = {
        "facts": ledger.plain_facts,
        "standings": lambda: [row for each in ledger.standings() for row in each.rows()],
        "entries": lambda: [asdict(each) for each in ledger.entries()],
        "kind": lambda: ledger.check_kind(mode="protection", adjacency="remove-one"),
        "check": lambda: ledger.reserve(
            [request(Loss.of(epsilon=0.795), who=WHO[kind])], PEOPLE[kind], check_only=True
        ),
        "spend": lambda: ledger.reserve([request(Loss.of(epsilon=0.795), who=WHO[kind])], PEOPLE[kind]),
        "settle": settle_twice,
        "release": lambda: ledger.release(2, reason="x"),
    }
    found: dict[str, object] = {}
    whole = ledger.path.read_bytes()
    for name, command in commands.items():
        try:
            found[name] = command()
        except AirMixError as problem:
            found[name] = type(problem) if "\n" not in str(problem) else str(problem)
        if ledger.path.read_bytes() != whole:
            ledger.path.write_bytes(whole)
    return found


def assert_refused(said: dict[str, object], where: object = None) -> None:
    assert [name for name, answer in said.items() if answer is not LedgerError] == [], where


def cells(path: Path) -> Iterator[tuple[str, str, int]]:
    with closing(sqlite3.connect(path)) as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            (rows,) = file.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            rows = rows if table == "facts" else min(rows, 2)  # of entries, one is spent and one reserved
            yield from ((table, column, row) for column in columns for row in range(rows))


# What a person may write there, and what airmix might have written: no file tells these from the truth.
FREE = {
    ("facts", "value"): {"created_at", "label"},
    ("workers", "name"): None,
    ("entries", "about"): None,
    ("entries", "key"): None,
    ("entries", "details"): None,
    ("entries", "reserved_at"): None,
    ("entries", "ended_at"): None,
    ("entries", "reason"): None,
}
FORGED = {
    ("budgets", "epsilon"),
    ("budgets", "delta"),
    ("losses", "epsilon"),
    ("losses", "delta"),
    ("losses", "squared_mu"),
}
FORGED |= {("budgets", "squared_mu"), ("budgets", "spent_epsilon"), ("budgets", "spent_delta"), ("entries", "who")}


def key_of(table: str) -> str:
    return {"facts": "name", "budgets": "adversary"}.get(table, "rowid")


def check_cell(ledger: LedgerFile, kind: str, sound: dict[str, object], cell: tuple[str, str, int]) -> None:
    """Put each odd value into a cell, and call every command."""
    table, column, row = cell
    whole = ledger.path.read_bytes()
    key = key_of(table)
    with closing(sqlite3.connect(ledger.path)) as file:
        name = file.execute(f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {row}").fetchone()[0]
        (before,) = file.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", (name,)).fetchone()
    # Each value into every third cell: all of them into all takes minutes.
    for odd in ODD if column == "details" else ODD[sum(map(ord, f"{cell}")) % 3 :: 3]:
        try:
            edit(ledger.path, f"UPDATE {table} SET {column} = ? WHERE {key} = ?", values=(odd, name))
        except (sqlite3.IntegrityError, sqlite3.OperationalError):  # SQLite itself takes no such value
            ledger.path.write_bytes(whole)
            continue
        with closing(sqlite3.connect(ledger.path)) as file:
            found = file.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", (name,)).fetchone()
        said = every_answer(ledger, kind)
        where = (cell, odd if not isinstance(odd, str) else odd[:30], said)
        if found is not None and found[0] == before and type(found[0]) is type(before):
            assert said == sound, where
        elif (table, column) in FORGED:
            number = column in ("epsilon", "delta") and table == "budgets" and odd in ("7", 2, 2**62, 0.5, 1e308)
            refused = said["standings" if table == "budgets" else "entries"] is LedgerError
            assert refused or number or odd in PACKED or (column, odd) == ("who", None), where
        elif (table, column) not in FREE or (FREE[table, column] and name not in FREE[table, column]):
            assert_refused({each: said[each] for each in ("standings", "check", "spend")}, where)
        else:  # words: the numbers are as they were
            kept = ("check", "spend") if table != "workers" else ()
            assert all(said[each] in (sound[each], LedgerError) for each in kept), where
            if said["standings"] is not LedgerError:
                numbers = [[line["epsilon_spent"] for line in rows] for rows in (said["standings"], sound["standings"])]  # type: ignore[union-attr,index]
                assert numbers[0] == numbers[1], where
        ledger.path.write_bytes(whole)


@pytest.mark.long
def test_whatever_stands_in_a_cell_is_one_line_or_leaves_the_numbers_alone(ledger: LedgerFile, kind: str) -> None:
    sound = every_answer(ledger, kind)
    assert isinstance(sound["standings"], list)
    assert sound["check"] is PrivacyError
    every = [cell for cell in cells(ledger.path) if kind == "names" or cell[:2] not in FREE]
    for cell in every:
        check_cell(ledger, kind, sound, cell)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE losses SET epsilon = ? WHERE entry = 2", "must be finite, at least 0"),
        ("UPDATE budgets SET spent_epsilon = ?", "must be finite, at least 0|numbers"),
    ],
)
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_negative_and_endless_losses_are_refused(
    ledger: LedgerFile, kind: str, statement: str, why: str, value: float
) -> None:
    length = 5 if kind == "numbers" and "budgets" in statement else 2
    edit(ledger.path, statement, values=(packed(np.full(length, value)),))
    with pytest.raises(LedgerError, match=rf"b\.sqlite: broken or not a ledger \(.*({why})"):
        ledger.standings()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries WHERE number = 3",
        "DELETE FROM entries",
        "DELETE FROM losses WHERE entry = 1",
        "DELETE FROM losses",
        "DELETE FROM budgets",
        "DELETE FROM facts WHERE name = 'mode'",
        "DELETE FROM facts WHERE name = 'label'",
        "DELETE FROM facts WHERE name IN ('label', 'count')",
        "DELETE FROM facts",
        "DELETE FROM sqlite_sequence",
        "UPDATE entries SET state = 'spent' WHERE number = 2",
        "UPDATE entries SET state = 'odd' WHERE number = 2",
        "UPDATE losses SET entry = 99 WHERE entry = 2",
        "UPDATE losses SET adversary = 'nobody' WHERE entry = 2",
        "INSERT INTO facts VALUES ('more', 1)",
        "INSERT INTO workers VALUES (17, 'eve')",
        "CREATE TRIGGER t AFTER UPDATE ON entries BEGIN UPDATE budgets SET spent_epsilon = old.spent_epsilon; END",
        "CREATE TRIGGER t BEFORE UPDATE ON budgets BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER t BEFORE INSERT ON losses BEGIN SELECT RAISE(IGNORE); END",
        "CREATE VIEW v AS SELECT * FROM entries",
        "CREATE TABLE other (x)",
        "CREATE INDEX other ON entries (about)",
        "DROP INDEX open_entries",
        "DROP TABLE losses",
        "ALTER TABLE entries ADD COLUMN more",
        "ALTER TABLE entries RENAME COLUMN who TO whom",
        "ALTER TABLE budgets ADD COLUMN twice AS (epsilon * 2)",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = -1",
    ],
)
def test_what_airmix_would_not_have_done_is_refused_by_every_command(
    ledger: LedgerFile, kind: str, statement: str
) -> None:
    edit(ledger.path, statement)
    assert_refused(every_answer(ledger, kind))
    with pytest.raises(LedgerError, match=r"b\.sqlite: broken or not a ledger \(.*\); restore it from a copy"):
        ledger.settle(2)


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("budgets", "epsilon REAL NOT NULL", "epsilon REAL NOT NULL DEFAULT 9"),
        ("entries", "CHECK (state IN ('reserved', 'spent', 'released'))", ""),
        ("entries", "AUTOINCREMENT", ""),
        ("workers", "UNIQUE", ""),
        ("facts", "WITHOUT ROWID", ""),
        ("losses", "REFERENCES entries", ""),
        ("losses", "epsilon BLOB NOT NULL", "epsilon BLOB NOT NULL AS (x'00') STORED"),
    ],
)
def test_other_tables_of_the_same_names_are_refused(
    ledger: LedgerFile, kind: str, tmp_path: Path, table: str, old: str, new: str
) -> None:
    """A ledger made anew with tables of its own, and the same rows where they fit."""
    changed = tmp_path / "changed.sqlite"
    with closing(sqlite3.connect(ledger.path)) as one, closing(sqlite3.connect(changed)) as other, other:
        for (sql,) in one.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite%'"):
            assert old in sql or not sql.startswith(f"CREATE TABLE {table}")
            other.execute(sql.replace(old, new) if sql.startswith(f"CREATE TABLE {table}") else sql)
        for pragma in ("application_id", "user_version"):
            other.execute(f"PRAGMA {pragma} = {one.execute(f'PRAGMA {pragma}').fetchone()[0]}")
    shutil.copy(changed, ledger.path)
    assert_refused(every_answer(ledger, kind))


def test_bytes_that_are_no_text_are_broken(ledger: LedgerFile) -> None:
    edit(ledger.path, "UPDATE entries SET about = CAST(x'ff' AS TEXT)")
    with pytest.raises(LedgerError, match="broken or not a ledger"):
        ledger.entries()


def test_an_index_that_hides_a_reservation_is_noticed(ledger: LedgerFile, kind: str) -> None:
    """The index is another file's of the same tables, so that only a comparison of both tells."""
    with closing(sqlite3.connect(ledger.path)) as file, file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute("UPDATE sqlite_master SET sql = sql || ' WHERE number > 2' WHERE name = 'open_entries'")
    with closing(sqlite3.connect(ledger.path)) as file, file:
        file.execute("REINDEX")
        file.execute("PRAGMA writable_schema = ON")
        file.execute("UPDATE sqlite_master SET sql = replace(sql, ' WHERE number > 2', '') WHERE name = 'open_entries'")
    with pytest.raises(LedgerError, match="broken or not a ledger"):
        ledger.standings()


def test_what_sqlite_does_by_itself_is_no_change(ledger: LedgerFile, kind: str) -> None:
    before = every_answer(ledger, kind)
    for statement in ("ANALYZE", "VACUUM", "PRAGMA journal_mode = WAL"):
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as file:
            file.execute(statement)
        assert [row for each in ledger.standings() for row in each.rows()] == before["standings"]
    ledger.settle(2)


def test_places_that_are_no_files_are_one_line_and_nothing_waits(tmp_path: Path) -> None:
    pipe, link, folder = tmp_path / "pipe", tmp_path / "link", tmp_path / "folder"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    folder.mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for place, why in {
        pipe: "is not a file",
        link: "is not a file",
        folder: "is not a file",
        Path("/dev/zero"): "is not a file",
        tmp_path / "dangling": "there is no such ledger",
        tmp_path / "loop": "not found",
        tmp_path / ("x" * 300): "not found",
        tmp_path / "nul\0": "not found",
    }.items():
        for command in (LedgerFile(place).facts, LedgerFile(place).entries, lambda p=place: LedgerFile(p).settle(1)):
            with pytest.raises(LedgerError, match=why):
                command()
    made = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5)
    os.mkfifo(tmp_path / "b.sqlite-journal")
    (tmp_path / "elsewhere").symlink_to(made.path)
    for ledger in (made, LedgerFile(tmp_path / "elsewhere")):
        with pytest.raises(LedgerError, match=r"b\.sqlite-journal: is not a file"):
            ledger.facts()


def test_a_ledger_has_one_name(tmp_path: Path) -> None:
    """Under another one SQLite would not find the journal of a process that was killed."""
    made = LedgerFile.create(tmp_path / "b[1].sqlite", epsilon=1.0, delta=1e-5)
    (tmp_path / "soft").symlink_to(made.path)
    unfinished, other = tmp_path / ".b[1].sqlite.0123abcd.airmix-unfinished", tmp_path / "other.sqlite"
    unfinished.hardlink_to(made.path)  # as a kill at the end of `create` leaves it
    assert LedgerFile(tmp_path / "soft").entries() == []
    assert not unfinished.exists()
    other.hardlink_to(made.path)
    for path in (made.path, other, tmp_path / "soft"):
        with pytest.raises(LedgerError, match="hard link"):
            LedgerFile(path).entries()
    other.unlink()
    assert made.entries() == []
    for ending in ("-journal", "-wal", "-shm"):
        left = tmp_path / f"new.sqlite{ending}"
        left.touch()
        with pytest.raises(LedgerError, match=f"new.sqlite{ending}: is left of another file"):
            LedgerFile.create(tmp_path / "new.sqlite", epsilon=1.0, delta=1e-5)
        assert left.exists()
        left.unlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_that_may_not_be_read_or_written_are_one_line(ledger: LedgerFile, kind: str) -> None:
    before = every_answer(ledger, kind)["standings"]
    ledger.path.chmod(0o400)
    assert [row for each in ledger.standings() for row in each.rows()] == before
    with pytest.raises(LedgerError, match="cannot be used"):
        ledger.settle(2)
    ledger.path.chmod(0)
    with pytest.raises(LedgerError, match="cannot be used"):
        ledger.standings()


def test_a_ledger_that_finds_no_space_leaves_nothing(
    tmp_path: Path, files_up_to: Callable[[int], AbstractContextManager[None]]
) -> None:
    with files_up_to(4096), pytest.raises(LedgerError, match=r"b\.sqlite: cannot be written"):
        LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_no_entry_has_are_one_line(ledger: LedgerFile) -> None:
    for number in (99999999999999999999, 2**63, 2**63 - 1, 0, -1, -(2**63) - 1, 10**5000):
        with pytest.raises(LedgerError, match=r"has no entry (-?\d+|a int too large to print);"):
            ledger.settle(number)
        with pytest.raises(LedgerError, match="has no entry"):
            ledger.release(number, reason="x")


def test_values_without_a_number_in_json_are_none(ledger: LedgerFile, kind: str) -> None:
    details = {"epsilon": float("inf"), "seed": 3, "share": float("nan")}
    odd = Request(about="", losses={"server": Loss.of(epsilon=0.1)}, who=WHO[kind], details=details)
    ledger.reserve([odd], PEOPLE[kind])  # type: ignore[arg-type]
    assert ledger.entries()[-1].details == {"epsilon": None, "seed": 3, "share": None}


def test_too_many_workers_are_one_line() -> None:
    for count in (-1, 10**9 + 1, 10**30):
        with pytest.raises(LedgerError, match=re.escape("must be from 0 (names) to 1,000,000,000")):
            People(label="x", count=count)
