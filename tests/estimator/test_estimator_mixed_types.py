"""One value of another type changes nothing about the others: NumPy would make text of a whole list of numbers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from airmixml import AirMixClassifier, run, streams
from airmixml.budgets import LedgerFile
from airmixml.data.labels import number_holders
from airmixml.estimator.checks import as_given
from airmixml.messages import DataError
from airmixml.scenario import Scenario

ROWS = np.random.default_rng(5).random((40, 3))
LABELS: list[Any] = (np.arange(40) % 2).tolist()
GIVEN: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3, "input_bounds": (0.0, 1.0), "random_state": 0}


def test_one_text_among_the_labels_makes_one_row_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noise in both fits, what is received differs by one row, and not by all of them."""
    monkeypatch.setattr(streams, "secrets", SimpleNamespace(token_bytes=bytes))

    def received(last: object) -> np.ndarray:
        model = AirMixClassifier(classes=(0, 1), unknown_labels="absent", centre="public", **GIVEN)
        return np.asarray(model.fit(ROWS, [*LABELS[:-1], last]).mixtures_.inputs)

    number, text = received(9), received("x")
    assert np.array_equal(number, text)
    assert not np.array_equal(number, received(1))


@pytest.mark.parametrize("names", [[1.0, 2.0, 1.0, "eight"], [1, 2, 1, "eight"], ["1", "2", "1", "eight"]])
def test_a_worker_keeps_its_name_whatever_the_others_are_called(names: list[Any]) -> None:
    numbers, known = number_holders(as_given(names), "worker")
    assert [known[number] for number in numbers] == ["1", "2", "1", "eight"]


@pytest.mark.parametrize("nobody", [None, float("nan"), ""])
def test_a_missing_name_is_refused_in_one_line(nobody: object) -> None:
    with pytest.raises(DataError, match="name is empty"):
        number_holders(as_given(["a", "b", nobody]), "worker")


def test_a_ledger_counts_the_same_people(tmp_path: Path) -> None:
    ledger = tmp_path / "people.sqlite"
    LedgerFile.create(ledger, epsilon=1000.0, delta=0.1)
    for names in ([float(row) for row in range(40)], [*(float(row) for row in range(39)), "eight"]):
        AirMixClassifier(classes=(0, 1), ledger=str(ledger), **GIVEN).fit(ROWS, LABELS, worker=names)
    assert LedgerFile(ledger).facts()["workers"] == 41


def test_the_number_of_test_rows_does_not_tell_an_undeclared_label(tmp_path: Path) -> None:
    told = []
    for name, last in (("one", "0"), ("two", "other")):
        data = tmp_path / f"{name}.csv"
        rows = [f"{a:.3f},{b:.3f},{label}" for (a, b, _), label in zip(ROWS, [*LABELS[:-1], last], strict=True)]
        data.write_text("\n".join(["a,b,label", *rows]) + "\n")
        changes = ("workers.classes=0,1", "workers.unknown_labels=absent", "workers.train_samples=12")
        bounds = ("workers.input_lower=[0]", "workers.input_upper=[1]", "privacy.delta=1e-3")
        scenario = Scenario.preset("private-table").with_overrides(f'workers.dataset="{data}"', *changes, *bounds)
        counts = [run(scenario.with_seed(seed), private=True, out=tmp_path / f"{name}{seed}") for seed in range(3)]
        told.append([each.to_dict()["dataset"]["test_samples"] for each in counts])
    assert told[0] == told[1] == [28] * 3
