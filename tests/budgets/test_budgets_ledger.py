"""A ledger in a file: who is in it, what is refused, two processes at once, kills, full disks, broken files."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airmixml import PrivacyError
from airmixml.budgets import LedgerFile, Loss, People, Request
from airmixml.messages import LedgerError

TEN = People(label="rows of ten", count=10)
TENTH = Loss.of(epsilon=0.1)


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerFile:
    return LedgerFile.create(tmp_path / "budgets.sqlite", epsilon=1.0, delta=1e-5)


def request(loss: Loss = TENTH, **others: object) -> Request:
    return Request(about="a test", losses={"server": loss}, **others)  # type: ignore[arg-type]


def spent(ledger: LedgerFile) -> list[float]:
    (standing,) = ledger.standings()
    return standing.budget.epsilons(standing.spent).tolist()


def test_reservations_count_until_they_are_settled_by_less_or_released(ledger: LedgerFile) -> None:
    first, second = ledger.reserve([request(), request()], TEN)
    assert spent(ledger) == pytest.approx([0.2] * 10)
    ledger.settle(first, {"server": Loss.of(epsilon=np.linspace(0.0, 0.09, 10))})
    assert spent(ledger) == pytest.approx(np.linspace(0.1, 0.19, 10))
    ledger.release(second, reason="the transmitter was off")
    assert spent(ledger) == pytest.approx(np.linspace(0.0, 0.09, 10))
    assert [(each.state, each.reason) for each in ledger.entries()] == [
        ("spent", ""),
        ("released", "the transmitter was off"),
    ]
    with pytest.raises(LedgerError, match="entry 2 is released already"):
        ledger.settle(second)
    with pytest.raises(LedgerError, match="has no entry 7"):
        ledger.settle(7)
    with pytest.raises(LedgerError, match="must say why"):
        ledger.release(first, reason=" ")


def test_all_requests_fit_or_none_is_written(ledger: LedgerFile) -> None:
    ledger.reserve([request(who=np.array([4]))], TEN)
    with pytest.raises(PrivacyError, match=r"worker 4 would pass .* spent epsilon = 0.1, this adds 1, together 1.1 of"):
        ledger.reserve([request()] * 10, TEN)
    assert len(ledger.entries()) == 1
    with pytest.raises(PrivacyError, match=r"at most epsilon = 0\.0899\d* at delta = 0 each would fit"):
        ledger.reserve([request()] * 10, TEN)
    with pytest.raises(PrivacyError, match="together just above 1 of 1"):  # a tenth, as a float, is more than a tenth
        ledger.reserve([request()] * 9, TEN)
    ledger.reserve([request()] * 8, TEN)
    assert spent(ledger)[4] == pytest.approx(0.9)


def test_what_was_sent_is_counted_even_beyond_the_budget(ledger: LedgerFile) -> None:
    ledger.reserve([request(Loss.of(epsilon=3.0))], TEN, already_sent=True)
    assert spent(ledger) == [3.0] * 10
    with pytest.raises(PrivacyError, match="nothing fits"):
        ledger.reserve([request(Loss.of(epsilon=1e-3))], TEN)


def test_a_check_writes_nothing(ledger: LedgerFile) -> None:
    before = ledger.path.read_bytes()
    ledger.reserve([request()], TEN, check_only=True)
    assert ledger.path.read_bytes() == before
    assert ledger.facts()["people"] is None


def test_a_check_waits_for_its_turn_as_what_writes_does(ledger: LedgerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    real, found = LedgerFile._reserve, []

    def reserve(*args: Any, **kwargs: Any) -> list[int]:
        with closing(sqlite3.connect(ledger.path, timeout=0.0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                found.append("another one may write")
            except sqlite3.OperationalError:
                found.append("alone")
        return real(*args, **kwargs)

    monkeypatch.setattr(LedgerFile, "_reserve", reserve)
    ledger.reserve([request()], TEN, check_only=True)
    assert found == ["alone"]


def test_other_people_neighbours_and_modes_are_refused(ledger: LedgerFile) -> None:
    ledger.reserve([request()], TEN)
    for others in (People(label="rows of ten", count=11), People(label="rows of iris", count=10), People(label="x")):
        with pytest.raises(LedgerError, match="is about 10 workers by number, rows of ten; this is about"):
            ledger.reserve([request()], others)
    with pytest.raises(LedgerError, match="they do not add up"):
        ledger.check_kind(mode="protection", adjacency="replace-one")
    with pytest.raises(LedgerError, match="keeps what protection spends, and this is simulation"):
        ledger.check_kind(mode="simulation", adjacency="remove-one")
    with pytest.raises(LedgerError, match="from 0 to 9"):
        ledger.reserve([request(who=np.array([10]))], TEN)


def test_a_worker_named_twice_is_refused_since_one_of_its_losses_would_be_lost(ledger: LedgerFile) -> None:
    twice = request(Loss.of(squared_mu=[0.01, 0.02]), who=np.array([3, 3]))
    with pytest.raises(LedgerError, match="who: worker 3 is named 2 times; name each once"):
        ledger.reserve([twice], TEN)
    with pytest.raises(LedgerError, match="who: worker ann is named 2 times; name each once"):
        ledger.reserve([request(who=("bob", "ann", "ann"))], People(label="column patient"))
    assert ledger.entries() == []
    ledger.reserve([request(who=np.array([3])), request(who=np.array([3]))], TEN)  # two mechanisms add up
    assert spent(ledger)[3] == pytest.approx(0.2)


def test_losses_of_another_shape_than_their_workers_are_one_line(ledger: LedgerFile, tmp_path: Path) -> None:
    three = Loss.of(epsilon=[0.1, 0.2, 0.3])
    told = r"epsilon of the loss to server: has 3 numbers; must have one, or one for each worker .*\((2|10)\)"
    for who in (np.array([0, 1]), None):
        with pytest.raises(LedgerError, match=told):
            ledger.reserve([request(three, who=who)], TEN)
    assert ledger.entries() == []
    (number,) = ledger.reserve([request(who=np.array([0, 1]))], TEN)
    with pytest.raises(LedgerError, match=told):
        ledger.settle(number, {"server": three})
    assert spent(ledger)[:3] == pytest.approx([0.1, 0.1, 0.0])
    one = People(label="me", count=1)
    alone = LedgerFile.create(tmp_path / "alone.sqlite", epsilon=1.0, delta=1e-5, people=one)
    with pytest.raises(LedgerError, match=r"has 2 numbers; must have one, .* \(1\)"):
        alone.reserve([request(Loss.of(epsilon=[0.1, 0.2]))], one)
    assert spent(alone) == [0.0]


def test_names_are_known_again_and_new_ones_have_spent_nothing(ledger: LedgerFile) -> None:
    people = People(label="column patient")
    ledger.reserve([request(who=("ada", "bob"))], people, already_sent=True)
    ledger.reserve([request(who=("carol", "ada"))], people)
    (standing,) = ledger.standings()
    assert dict(zip(standing.names, spent(ledger), strict=True)) == pytest.approx(
        {"ada": 0.2, "bob": 0.1, "carol": 0.1}
    )
    with pytest.raises(PrivacyError, match="worker ada would pass"):
        ledger.reserve([request(Loss.of(epsilon=0.85), who=("dora", "ada"))], people)
    assert "dora" not in ledger.standings()[0].names


def test_work_that_repeats_itself_takes_its_own_reservation_over(ledger: LedgerFile) -> None:
    whole = request(Loss.of(epsilon=1.0), key="the same noise")
    assert ledger.reserve([whole], TEN) == ledger.reserve([whole], TEN) == [1]
    with pytest.raises(PrivacyError):
        ledger.reserve([request(Loss.of(epsilon=1.0))], TEN)


def test_work_that_repeats_itself_is_spent_once(ledger: LedgerFile) -> None:
    whole = request(Loss.of(epsilon=1.0), key="the same noise")
    (number,) = ledger.reserve([whole], TEN)
    ledger.settle(number)
    assert ledger.reserve([whole], TEN) == [number]
    ledger.settle(number, repeated=True)
    assert spent(ledger) == pytest.approx([1.0] * 10)
    with pytest.raises(LedgerError, match="is spent already"):
        ledger.settle(number)
    with pytest.raises(PrivacyError):  # beside it nothing fits
        ledger.reserve([whole, request(Loss.of(epsilon=0.01))], TEN)


def test_damage_is_never_mistaken_for_an_empty_ledger(ledger: LedgerFile) -> None:
    """Whatever page is overwritten, the file is refused or says what it said before."""
    ledger.reserve([request(Loss.of(epsilon=0.6))], TEN, already_sent=True)
    content = ledger.path.read_bytes()
    for place in range(0, len(content), 2048):
        ledger.path.write_bytes(content[:place] + bytes(2048) + content[place + 2048 :])
        try:
            found = spent(ledger)
        except LedgerError:
            continue
        assert found == pytest.approx([0.6] * 10), place


def test_budgets_against_several_adversaries(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, adversaries=("server", "release"))
    ledger.reserve([Request(about="", losses={"server": Loss.of(epsilon=0.5), "release": TENTH})], TEN)
    assert {each.adversary: float(each.spent.epsilon[0]) for each in ledger.standings()} == {
        "server": 0.5,
        "release": 0.1,
    }
    ledger.reserve([request(Loss.of(epsilon=0.2))], TEN)  # stated against the server, it counts against the release
    assert {each.adversary: round(float(each.spent.epsilon[0]), 9) for each in ledger.standings()} == {
        "server": 0.7,
        "release": 0.3,
    }
    with pytest.raises(PrivacyError, match="adversary server: the ledger keeps a budget against it"):
        ledger.reserve([Request(about="", losses={"release": TENTH})], TEN)


SPENDER = """
import sys
from airmixml import PrivacyError
from airmixml.budgets import LedgerFile, Loss, People, Request
ledger, done = LedgerFile(sys.argv[1]), 0
for _ in range(8):
    try:
        asked = Request(about="x", losses={"server": Loss.of(epsilon=0.1)})
        (number,) = ledger.reserve([asked], People(label="ten", count=10))
        ledger.settle(number)
        done += 1
    except PrivacyError:
        pass
print(done)
"""


def test_processes_at_once_never_spend_more_than_there_is(ledger: LedgerFile) -> None:
    command = [sys.executable, "-c", SPENDER, str(ledger.path)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    done = [int(child.communicate()[0]) for child in children]
    assert sum(done) == 9  # each sum is rounded up: ten times a tenth is more than 1
    assert spent(ledger) == pytest.approx([0.9] * 10)


KILLED = """
import os, signal, sys
from airmixml.budgets.rows import Rows
from airmixml.budgets import LedgerFile, Loss, People, Request
ledger, people = LedgerFile(sys.argv[1]), People(label="ten", count=10)
big = [Request(about="x", losses={"server": Loss.of(epsilon=0.3)})]
ledger.reserve(big, people)
write = Rows.write_losses
def killed(*arguments):
    write(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
Rows.write_losses = killed
ledger.reserve(big, people)
"""


def test_a_killed_process_gives_nothing_back_and_leaves_no_half_entry(ledger: LedgerFile) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(ledger.path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [each.state for each in ledger.entries()] == ["reserved"]
    assert spent(ledger) == pytest.approx([0.3] * 10)
    ledger.release(1, reason="a test")  # the next to write clears away what the killed one had begun
    assert [entry.name for entry in ledger.path.parent.iterdir()] == [ledger.path.name]
    assert spent(ledger) == [0.0] * 10


def test_a_full_disk_is_one_line_and_changes_nothing(
    ledger: LedgerFile, files_up_to: Callable[[int], AbstractContextManager[None]]
) -> None:
    ledger.reserve([request()], TEN)
    rng, people = np.random.default_rng(0), People(label="rows of ten", count=10)
    before = spent(ledger)
    losses = [Request(about="y" * 60_000, losses={"server": Loss.of(epsilon=rng.random(10) / 100)})] * 3
    with (
        files_up_to(ledger.path.stat().st_size + 4096),
        pytest.raises(LedgerError, match=r"cannot be used|nothing was"),
    ):
        ledger.reserve(losses, people)
    assert spent(ledger) == before
    ledger.reserve(losses, people)


def test_a_ledger_has_its_name_only_once_it_says_what_it_is_about(tmp_path: Path) -> None:
    place = tmp_path / "new.sqlite"
    with pytest.raises(LedgerError, match=r"new\.sqlite: cannot be written"):  # in the middle of what is written
        LedgerFile.create(place, epsilon=1.0, delta=1e-5, adversaries=("server", object()))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    code = (
        "import os, sys; from airmixml.budgets import LedgerFile\n"
        "class Killed(list):\n    def __iter__(self): os._exit(9)\n"
        "LedgerFile.create(sys.argv[1], epsilon=1.0, delta=1e-5, adversaries=Killed(['server']))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(place)], check=False).returncode == 9
    assert not place.exists()
    assert LedgerFile.create(place, epsilon=1.0, delta=1e-5).facts()["budgets"].keys() == {"server"}


def test_files_that_are_no_ledgers_are_refused_and_left_alone(ledger: LedgerFile, tmp_path: Path) -> None:
    ledger.reserve([request()], TEN, already_sent=True)
    text, foreign, newer, empty = (tmp_path / name for name in ("text", "foreign", "newer", "empty"))
    text.write_text("a" * 5000)
    empty.touch()
    with closing(sqlite3.connect(foreign)) as other:
        other.executescript("CREATE TABLE budgets (x); PRAGMA application_id = 7;")
    shutil.copy(ledger.path, newer)
    with closing(sqlite3.connect(newer)) as other:
        other.execute("PRAGMA user_version = 99")
    found = {
        text: "broken or not a ledger",
        foreign: "another program's file",
        empty: "another program's file",
        newer: "made by a newer airmixml",
        tmp_path / "nowhere": "there is no such ledger",
        tmp_path: "is not a file",
    }
    for path, why in found.items():
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(LedgerError, match=why):
            LedgerFile(path).standings()
        with pytest.raises(LedgerError, match=why):
            LedgerFile(path).reserve([request()], TEN)
        assert not path.is_file() or path.read_bytes() == before
    with pytest.raises(LedgerError, match="exists already"):
        LedgerFile.create(text, epsilon=1.0, delta=1e-5)
    with pytest.raises(LedgerError, match="cannot be written"):
        LedgerFile.create(tmp_path / "no" / "folder", epsilon=1.0, delta=1e-5)


def test_changed_bytes_are_noticed_or_lie_in_unused_space(ledger: LedgerFile) -> None:
    """Half of the file gone, and single bytes of what workers have spent."""
    losses = Loss.of(epsilon=np.linspace(0.01, 0.09, 10))
    ledger.reserve([request(losses)], TEN, already_sent=True)
    whole, before = ledger.path.read_bytes(), spent(ledger)
    ledger.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LedgerError, match="broken"):
        ledger.standings()
    stored = losses.epsilon.tobytes()
    places = [place for place in range(len(whole)) if whole.startswith(stored[:24], place)]
    for place in places:
        changed = bytearray(whole)
        changed[place + 6] ^= 1
        ledger.path.write_bytes(bytes(changed))
        with pytest.raises(LedgerError, match="checksum"):
            ledger.standings(), ledger.entries()
    ledger.path.write_bytes(whole)
    assert len(places) == 2  # of the entry, and of all that is spent
    assert spent(ledger) == before


def test_a_million_workers_take_seconds_and_a_run_for_all_a_few_bytes(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=2.0, delta=1e-6)
    people, started = People(label="all", count=10**6), time.perf_counter()
    (number,) = ledger.reserve([request(Loss.of(squared_mu=0.01), delta=1e-6)], people)
    ledger.settle(number)
    assert ledger.path.stat().st_size < 200_000
    (number,) = ledger.reserve([request(Loss.of(squared_mu=0.01), delta=1e-6)], people)
    ledger.settle(number, {"server": Loss.of(squared_mu=np.random.default_rng(0).random(10**6) / 100)})
    assert ledger.path.stat().st_size < 20_000_000
    with pytest.raises(PrivacyError, match=r"\(and 999,999 more would\)"):
        ledger.reserve([request(Loss.of(squared_mu=1.0), delta=1e-6)], people)
    assert time.perf_counter() - started < 20.0  # about 2 on two cores


def test_a_ledger_of_one_worker_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from airmixml.budgets import *; me = People(label='me', count=1);"
        f"own = LedgerFile.create({str(tmp_path / 'own.sqlite')!r}, epsilon=1, delta=1e-5, people=me);"
        "own.reserve([Request(about='r', losses={'server': Loss.of(squared_mu=.01)})], me);"
        "assert not [m for m in ('torch', 'pandas', 'scipy.stats', 'matplotlib.figure', 'sklearn') if m in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
