"""A ledger that many processes use at once, and that any of them may be killed at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airmixml.budgets import LedgerFile, People

TEN = People(label="ten", count=10)


def spent(ledger: LedgerFile) -> list[float]:
    (standing,) = ledger.standings()
    return standing.spent.epsilon.tolist()


AT_ONCE = """
import os, sys
from airmixml import PrivacyError
from airmixml.budgets import LedgerFile, Loss, People, Request
ready, go = os.pipe()
children = []
for _ in range(24):
    child = os.fork()
    if not child:
        os.close(go)
        os.read(ready, 1)  # until all are there
        asked = [Request(about="x", losses={"server": Loss.of(epsilon=0.125)})]
        try:
            LedgerFile(sys.argv[1]).reserve(asked, People(label="ten", count=10))
        except PrivacyError:
            os._exit(3)
        os._exit(0)
    children.append(child)
os.close(ready)
os.close(go)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.mark.long
def test_of_24_reservations_at_once_as_many_are_made_as_fit(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5)
    done = subprocess.run([sys.executable, "-c", AT_ONCE, str(ledger.path)], check=True, stdout=subprocess.PIPE)
    codes = json.loads(done.stdout)
    assert sorted(codes) == [0] * 7 + [3] * 17  # sums are rounded up: eight eighths are more than 1
    assert [each.state for each in ledger.entries()] == ["reserved"] * 7
    assert spent(ledger) == pytest.approx([7 / 8] * 10)


# Each child reserves, says that it sends, and settles, time and again, until it is killed.
KILLED = """
import os, random, signal, sys, time
from airmixml.budgets import LedgerFile, Loss, People, Request
ledger, people, asked = LedgerFile(sys.argv[1]), People(label="ten", count=10), 0.001
told = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
pause = random.Random(sys.argv[3])
begun, begins = os.pipe()
for _ in range(int(sys.argv[4])):
    child = os.fork()
    if not child:
        while True:
            os.write(begins, b"x")
            (number,) = ledger.reserve([Request(about="x", losses={"server": Loss.of(epsilon=asked)})], people)
            os.write(told, b"%d\\n" % number)
            ledger.settle(number)
    os.read(begun, 1)
    time.sleep(pause.uniform(0.0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_however_often_processes_are_killed_no_less_is_shown_than_was_sent(tmp_path: Path, seed: int) -> None:
    ledger, told = LedgerFile.create(tmp_path / "b.sqlite", epsilon=100.0, delta=1e-5, people=TEN), tmp_path / "told"
    for more in range(4):
        subprocess.run([sys.executable, "-c", KILLED, str(ledger.path), str(told), f"{seed} {more}", "15"], check=True)
        sent = [int(line) for line in told.read_text().splitlines()]
        assert len(set(sent)) == len(sent)  # no number is given twice
        entries = {each.number: each.state for each in ledger.entries()}
        assert set(sent) <= set(entries)
        assert all(number in sent for number, state in entries.items() if state == "spent")
        assert spent(ledger) == pytest.approx([0.001 * len(entries)] * 10)
    for number, state in entries.items():
        if state == "reserved":
            ledger.settle(number)
    assert spent(ledger) == pytest.approx([0.001 * len(entries)] * 10)
