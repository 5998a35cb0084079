"""Estimators that keep a ledger: refused before anything is sent, and people known by their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_validate

from airmixml import AirMixClassifier, AirMixRegressor, PrivacyError
from airmixml.budgets import LedgerFile, People
from airmixml.messages import LedgerError, ScenarioError
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu

DELTA = 1e-3
Rows = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.str_]]


@pytest.fixture
def rows() -> Rows:
    """Forty people with three rows each."""
    rng = np.random.default_rng(0)
    classes = rng.integers(2, size=120)
    inputs = np.clip(0.5 + 0.3 * (2 * classes - 1)[:, None] + 0.1 * rng.standard_normal((120, 3)), 0.0, 1.0)
    return inputs, classes, np.array([f"person {number % 40}" for number in range(120)])


def classifier(ledger: LedgerFile | None, epsilon: float = 0.5, **given: object) -> AirMixClassifier:
    place = None if ledger is None else str(ledger.path)
    return AirMixClassifier(classes=(0, 1), epsilon=epsilon, delta=DELTA, input_bounds=(0, 1), ledger=place, **given)


def epsilons(ledger: LedgerFile) -> dict[str, float]:
    (standing,) = ledger.standings()
    return dict(zip(standing.names, standing.budget.epsilons(standing.spent).tolist(), strict=True))


def test_a_fit_is_counted_and_one_too_many_is_refused_before_anything_is_sent(rows: Rows, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=0.8, delta=DELTA)
    inputs, classes, worker = rows
    fitted = classifier(ledger).fit(inputs, classes, worker=worker)
    assert fitted.privacy_.epsilon == pytest.approx(0.5, rel=1e-6)
    found = epsilons(ledger)
    assert len(found) == 40
    assert set(found) == set(worker.tolist())
    assert list(found.values()) == pytest.approx([0.5] * 40, rel=1e-6)
    refused = classifier(ledger, epsilon=0.7)
    with pytest.raises(PrivacyError, match=r"would pass its budget against the server .* nothing was sent"):
        refused.fit(inputs, classes, worker=worker)
    with pytest.raises(NotFittedError):
        refused.predict(inputs)
    assert epsilons(ledger) == found
    # Others have budgets of their own.
    others = np.char.add("new ", worker)
    classifier(ledger, epsilon=0.7).fit(inputs, classes, worker=others)
    assert max(epsilons(ledger).values()) == pytest.approx(0.7, rel=1e-6)


def test_cross_validation_counts_each_person_as_often_as_it_takes_part(rows: Rows, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=2.0, delta=DELTA)
    inputs, classes, _ = rows
    worker = np.array([f"{number}" for number in range(120)])
    cross_validate(classifier(ledger, 0.4), inputs, classes, cv=3, params={"worker": worker}, error_score="raise")
    twice = gaussian_epsilon(2**0.5 * gaussian_mu(0.4, DELTA), DELTA)
    assert list(epsilons(ledger).values()) == pytest.approx([twice] * 120, rel=1e-6)
    assert [each.about for each in ledger.entries()] == ["AirMixClassifier.fit"] * 3


def test_people_of_a_run_are_known_again_by_name(rows: Rows, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=DELTA, people=People(label="column patient"))
    inputs, classes, _ = rows
    numbers = np.arange(120) % 40 + 10**7
    classifier(ledger).fit(inputs, classes, worker=numbers)
    assert set(epsilons(ledger)) == set(map(str, numbers.tolist()))
    by_number = LedgerFile.create(
        tmp_path / "n.sqlite", epsilon=1.0, delta=DELTA, people=People(label="rows of iris", count=150)
    )
    with pytest.raises(LedgerError, match="is about 150 workers by number, rows of iris"):
        classifier(by_number).fit(inputs, classes, worker=numbers)


def test_a_simulation_has_a_ledger_of_its_own(rows: Rows, tmp_path: Path) -> None:
    inputs, classes, worker = rows
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=DELTA, mode="simulation")
    classifier(ledger, mode="simulation", random_state=0).fit(inputs, classes, worker=worker)
    assert list(epsilons(ledger).values()) == pytest.approx([0.5] * 40, rel=1e-6)
    with pytest.raises(LedgerError, match="this is protection; create one without --simulation"):
        classifier(ledger).fit(inputs, classes, worker=worker)
    protected = LedgerFile.create(tmp_path / "p.sqlite", epsilon=1.0, delta=DELTA)
    with pytest.raises(LedgerError, match='use mode="protection"'):
        classifier(protected, mode="simulation").fit(inputs, classes, worker=worker)


def test_mistakes_cost_one_line(rows: Rows, tmp_path: Path) -> None:
    inputs, classes, worker = rows
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=DELTA)
    with pytest.raises(ScenarioError, match=r"give fit\(X, y, worker=...\) the name"):
        classifier(ledger).fit(inputs, classes)
    with pytest.raises(ScenarioError, match="ledger = 3: must be the path"):
        AirMixClassifier(classes=(0, 1), input_bounds=(0, 1), ledger=3).fit(inputs, classes, worker=worker)
    with pytest.raises(LedgerError, match="there is no such ledger"):
        AirMixClassifier(classes=(0, 1), input_bounds=(0, 1), ledger=tmp_path / "nowhere").fit(
            inputs, classes, worker=worker
        )
    assert ledger.entries() == []


def test_it_is_a_parameter_like_others_and_of_the_regressor_too(rows: Rows, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=DELTA)
    regressor = AirMixRegressor(epsilon=0.5, delta=DELTA, input_bounds=(0, 1), target_bounds=(0, 1), ledger=ledger.path)
    assert clone(regressor).get_params()["ledger"] == ledger.path
    inputs, classes, worker = rows
    clone(regressor).fit(inputs, classes.astype(float), worker=worker)
    assert list(epsilons(ledger).values()) == pytest.approx([0.5] * 40, rel=1e-6)
