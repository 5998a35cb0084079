"""What a ledger says of its workers, and how it keeps numbers: a handful, worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from airmixml import PrivacyError
from airmixml.budgets import Budget, LedgerFile, Loss, People, Request
from airmixml.budgets.file import UnsoundError, packed, unpacked
from airmixml.budgets.ledger import Standing, _down
from airmixml.budgets.rows import _who, added, finite
from airmixml.budgets.rules import add_up, root_up, take_off
from airmixml.messages import LedgerError

FIVE = People(label="rows of five", count=5)


def test_what_a_ledger_shows_of_all() -> None:
    """Of five workers, two beyond a budget of 1, one within a billionth of it; the median is that of the third."""
    spent = Loss.of(epsilon=np.array([0.2, 1.0 + 5e-10, 1.05, 3.0, 0.0]))
    standing = Standing(adversary="server", budget=Budget(epsilon=1.0, delta=1e-5), spent=spent.spread(), names=())
    summary = standing.summary(2)
    assert (summary["workers"], summary["over_budget"]) == (5, 2)
    assert summary["median_spent"] == pytest.approx(1.0)
    assert [each["worker"] for each in summary["fullest"]] == ["3", "2"]
    assert [each["spent"] for each in summary["fullest"]] == [3.0, 1.05]
    assert [each["left"] for each in summary["fullest"]] == [0.0, 0.0]
    assert [row["epsilon_spent"] for row in standing.rows()] == pytest.approx([0.2, 1.0, 1.05, 3.0, 0.0])
    nobody = Standing(adversary="server", budget=standing.budget, spent=Loss.nothing(0), names=())
    assert (nobody.summary(3)["median_spent"], nobody.summary(3)["over_budget"]) == (0.0, 0)
    named = Standing(adversary="server", budget=standing.budget, spent=spent.spread(), names=("a", "b", "c", "d", "e"))
    assert named.name_of(3) == "d"


def test_the_fullest_of_equals_is_the_first() -> None:
    equal = Loss.of(epsilon=np.array([0.5, 0.7, 0.7]))
    standing = Standing(adversary="server", budget=Budget(epsilon=1.0, delta=1e-5), spent=equal.spread(), names=())
    assert [each["worker"] for each in standing.summary(3)["fullest"]] == ["1", "2", "0"]


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (Loss.of(squared_mu=0.0625), "--mu 0.25"),
        (Loss.of(epsilon=0.1, delta=1e-7), "--epsilon 0.1 --delta 1e-07"),
        (Loss.of(delta=1e-7), "--epsilon 0.0 --delta 1e-07"),
        (Loss.of(), "--mu 0"),
    ],
)
def test_what_was_sent_after_its_entry_was_lost(tmp_path: Path, loss: Loss, told: str) -> None:
    """A backup is put back while a run sends: its cost must be counted by hand, and the line says how."""
    ledger = LedgerFile.create(tmp_path / "budgets.sqlite", epsilon=1.0, delta=1e-5)
    before = ledger.path.read_bytes()
    (number,) = ledger.reserve([Request(about="a run", losses={"server": loss}, key="k")], FIVE)
    ledger.path.write_bytes(before)
    with pytest.raises(LedgerError, match="count it for all") as refused:
        ledger.settle(number)
    assert f"--adversary server --about ... {told}" in str(refused.value)


def test_what_was_released_and_sent_after_all_is_counted(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "budgets.sqlite", epsilon=1.0, delta=1e-5)
    (number,) = ledger.reserve([Request(about="a run", losses={"server": Loss.of(epsilon=0.1)}, key="k")], FIVE)
    LedgerFile(ledger.path).release(number, reason="it never began")
    ledger.settle(number)
    (entry,) = ledger.entries()
    assert (entry.state, entry.reason) == ("spent", "sent after all; it was released: it never began")
    assert ledger.standings()[0].spent.epsilon.tolist() == [0.1] * 5


@pytest.mark.parametrize("values", [np.zeros(5000), np.random.default_rng(1).random(5000), np.zeros(0)])
def test_numbers_come_back_as_they_were_and_zeros_take_little_room(values: np.ndarray) -> None:
    content = packed(values)
    assert (unpacked(content) == values).all()
    # Four bytes of a checksum and one that says whether the rest is compressed.
    small = len(values) and not values.any()
    assert len(content) < 1000 if small else len(content) == 5 + 8 * len(values)
    with pytest.raises(UnsoundError):
        unpacked(content[:-1] + b"x" if len(content) > 5 else content[:4])


def test_sums_and_differences_are_rounded_to_the_safe_side() -> None:
    """A tenth ten times is above 1; a third less a tenth is not above what it is."""
    total = 0.0
    for _ in range(10):
        total = float(add_up(total, 0.1))
    assert Fraction(total) >= 10 * Fraction(0.1) > 1
    assert 0 <= Fraction(take_off(1 / 3, 0.1)) <= Fraction(1 / 3) - Fraction(0.1)
    assert take_off(0.1, 0.2) == 0.0
    roots = root_up([0.0, 2.0, 4.0, 1e-300])
    assert roots[0] == 0.0
    assert all(Fraction(float(r)) ** 2 >= Fraction(x) for r, x in zip(roots, (0.0, 2.0, 4.0, 1e-300), strict=True))
    assert roots == pytest.approx([0.0, math.sqrt(2.0), 2.0, 1e-150], rel=1e-15)


def test_losses_of_some_workers() -> None:
    spent = Loss.of(squared_mu=np.array([1.0, 2.0, 3.0]), epsilon=np.zeros(3), delta=np.zeros(3))
    more = added(spent, Loss.of(squared_mu=np.array([0.5, 0.25])), np.array([2, 0]))
    assert more.squared_mu == pytest.approx([1.25, 2.0, 3.5])
    assert spent.squared_mu.tolist() == [1.0, 2.0, 3.0]
    assert added(spent, Loss.of(squared_mu=1.0), None).squared_mu == pytest.approx([2.0, 3.0, 4.0])


def test_numbers_shown_are_rounded_down() -> None:
    assert [_down(value) for value in (0.123449, 0.12346, 2.0)] == ["0.1234", "0.1233", "2"]
    assert (finite("1.5"), finite(math.inf), finite(math.nan)) == (1.5, None, None)


@pytest.mark.parametrize("budget", [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0), (math.inf, 1e-5), (1e300, 1e-5)])
def test_budgets_that_cannot_be(budget: tuple[float, float]) -> None:
    with pytest.raises(PrivacyError, match="of a budget"):
        Budget(epsilon=budget[0], delta=budget[1])


def test_people_that_cannot_be() -> None:
    for count in (-1, 10**12):
        with pytest.raises(LedgerError, match="count = "):
            People(label="some", count=count)
    assert People(label="some").named
    assert not People(label="some", count=1).named


@pytest.mark.parametrize("who", [[], [5], [-1], [0.5], [0, 0]])
def test_workers_that_are_not_in_a_ledger(tmp_path: Path, who: list[float]) -> None:
    ledger = LedgerFile.create(tmp_path / "budgets.sqlite", epsilon=1.0, delta=1e-5)
    with pytest.raises(LedgerError, match="who: "):
        ledger.reserve([Request(about="a run", losses={"server": Loss.of(epsilon=0.1)}, who=np.array(who))], FIVE)
    assert ledger.entries() == []


@pytest.mark.parametrize("who", [[1, 7], [-1, 2], [2, 2], [5]])
def test_entries_about_others_are_damage(who: list[int]) -> None:
    with pytest.raises(UnsoundError, match="an entry is about workers"):
        _who({"who": packed(np.array(who, dtype=np.int64))}, 5)  # type: ignore[arg-type]


def test_entries_about_some() -> None:
    for some in ([0, 4], [4, 0, 2], []):
        found = _who({"who": packed(np.array(some, dtype=np.int64))}, 5)  # type: ignore[arg-type]
        assert found is not None
        assert found.tolist() == some
    assert _who({"who": None}, 5) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("gaussian", [True, False])
def test_what_is_left_of_two_is_what_is_left_of_the_one_that_spent_most(gaussian: bool) -> None:
    budget, parts = Budget(epsilon=1.0, delta=1e-5), [Loss.of(squared_mu=value) for value in (0.01, 0.04)]
    left = [budget.epsilon_left(each, delta=1e-7, gaussian=gaussian) for each in parts]
    assert 0.0 < left[1] < left[0]
    both = Loss.of(squared_mu=np.array([0.01, 0.04]))
    assert budget.epsilon_left(both, delta=1e-7, gaussian=gaussian) == left[1]
