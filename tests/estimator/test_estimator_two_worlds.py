"""Nothing on a fitted estimator depends on private rows but through noise: two worlds that differ in one patient."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from airmixml import AirMixClassifier, AirMixRegressor, streams
from airmixml.estimator import spending
from airmixml.privacy.gaussian import gaussian_mu

Estimator = AirMixClassifier | AirMixRegressor
ROWS = np.random.default_rng(11).random((60, 3))
CLASSES = np.arange(60) % 2
DELTA = 1e-4
GIVEN: dict[str, Any] = {"epsilon": 0.75, "delta": DELTA, "input_bounds": (0.0, 1.0), "random_state": 0}
# What the server receives, what is learnt from it, and a mean that was estimated over the air.
NOISY = {"model_", "mixtures_", "private_mean"}


@pytest.fixture
def one_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fit draws the same noise, so that whatever differs between two fits is due to their rows."""
    monkeypatch.setattr(streams, "secrets", SimpleNamespace(token_bytes=bytes))


@pytest.fixture(autouse=True)
def first_fit_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count from zero: behind many fits of other tests, the mu^2 that one adds is lost in the rounding of the sum."""
    monkeypatch.setattr(spending, "PROTECTED_FITS", spending.Together())


def squared_mu(model: Estimator) -> float:
    return gaussian_mu(model.joint_privacy_.epsilon, DELTA) ** 2


def test_the_joint_statement_does_not_tell_whether_a_patient_was_in_an_earlier_fit() -> None:
    """It told so in every trial, where epsilon 0.75 allows to guess right in 68 % of them."""
    model = AirMixClassifier(classes=(0, 1), **GIVEN)
    before = squared_mu(model.fit(ROWS, CLASSES))
    added = []
    for shared in (ROWS[7], np.full(3, 0.123)):  # a patient of the first fit, or of none
        other = np.random.default_rng(12).random((60, 3))
        other[0] = shared
        total = squared_mu(model.fit(other, CLASSES))
        added.append(total - before)
        before = total
    assert added[0] == pytest.approx(added[1], rel=1e-6)
    assert added[0] == pytest.approx(gaussian_mu(0.75, DELTA) ** 2, rel=1e-6)


def test_the_joint_statement_counts_every_fit_in_the_process() -> None:
    """An upper bound: k fits of one mu are one of sqrt(k) mu, whatever rows they had."""
    model = AirMixClassifier(classes=(0, 1), **GIVEN).fit(ROWS, CLASSES)
    before, fits = squared_mu(model), int(model.joint_privacy_.why.split()[0])
    last = AirMixClassifier(classes=(0, 1), **GIVEN).fit(1.0 - ROWS, CLASSES)
    assert squared_mu(last) - before == pytest.approx(gaussian_mu(0.75, DELTA) ** 2, rel=1e-6)
    assert int(last.joint_privacy_.why.split()[0]) == fits + 1


def test_each_fit_counts_with_its_statement_for_the_same_neighbours() -> None:
    """A replacement is a removal and an addition, so that it moves more than a removal and at most twice as much."""
    mu = gaussian_mu(0.75, DELTA)
    removed = AirMixClassifier(classes=(0, 1), adjacency="remove-one", **GIVEN).fit(ROWS, CLASSES)
    assert squared_mu(removed) == pytest.approx(mu**2, rel=1e-6)
    replaced = AirMixClassifier(classes=(0, 1), adjacency="replace-one", **GIVEN).fit(ROWS, CLASSES)
    assert replaced.joint_privacy_.adjacency == "replace-one"
    assert 1.5 * mu**2 < squared_mu(replaced) - mu**2 < 4.0001 * mu**2
    before = squared_mu(replaced)
    last = AirMixClassifier(classes=(0, 1), adjacency="replace-one", **{**GIVEN, "delta": DELTA / 2}).fit(ROWS, CLASSES)
    assert last.joint_privacy_.delta == DELTA / 2  # mu^2 add up whatever the delta of each
    added = gaussian_mu(last.joint_privacy_.epsilon, DELTA / 2) ** 2 - before
    assert added == pytest.approx(gaussian_mu(0.75, DELTA / 2) ** 2, rel=1e-6)


def test_a_fit_of_rows_makes_the_joint_statement_one_about_rows() -> None:
    """A fit that knew no workers bounds what a row loses, and not what a worker with several loses."""
    workers = np.arange(60) // 2
    model = AirMixClassifier(classes=(0, 1), **GIVEN)
    assert model.fit(ROWS, CLASSES, worker=workers).joint_privacy_.unit == "worker"
    assert model.fit(ROWS, CLASSES).joint_privacy_.unit == "row"
    assert model.fit(ROWS, CLASSES, worker=workers).joint_privacy_.unit == "row"


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what an object is made of, each with the path to it, but for what noise hides."""
    if name.rpartition(".")[2] in NOISY:
        yield f"{name} (its kind)", type(value).__name__
        return
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{name}.{key}")
    elif isinstance(value, list | tuple | set | frozenset):
        yield f"{name} (its length)", len(value)
        for place, each in enumerate(value):
            yield from leaves(each, f"{name}.{place}")
    elif isinstance(value, np.ndarray | torch.Tensor):
        yield name, (value.shape, str(value.dtype), value.tolist())
    elif hasattr(value, "__dict__") and type(value).__module__.startswith("airmixml"):
        yield f"{name} (its kind)", type(value).__name__
        yield from leaves(vars(value), name)
    else:
        yield name, repr(value)


def neighbours(kind: str) -> list[Estimator]:
    """Fit two data sets that differ in one patient, whose values lie far outside the bounds of all others."""
    models: list[Estimator] = []
    for patient, label in ((np.array([0.2, 0.3, 0.4]), 1), (np.array([1e9, -1e9, 1e-310]), 0)):
        spending.PROTECTED_FITS = spending.Together()  # undone by the fixture
        rows, labels = ROWS.copy(), CLASSES.copy()
        rows[17], labels[17] = patient, label
        worker = [f"w{row // 2}" for row in range(60)] if kind == "workers" else None
        if kind == "numbers":
            targets = rows[:, 0] * 50
            models.append(AirMixRegressor(target_bounds=(0, 100), **GIVEN).fit(rows, targets))
        elif kind == "labels":
            models.append(AirMixClassifier(**GIVEN).fit(rows, np.column_stack([labels, 1 - labels, labels])))
        else:
            recipe = {"recipe": "paper", "slots": 20, "epochs": 1, "accountant": "pld"} if kind == "paper" else {}
            recipe |= {"centre": "private"} if kind == "centre" else {}
            recipe |= {"unknown_labels": "absent"} if kind == "absent" else {}
            if kind == "absent" and label == 0:
                labels[17] = 7  # a class that nobody declared
            declared = AirMixClassifier(classes=(0, 1, 2), **recipe, **GIVEN)
            models.append(declared.fit(rows, labels) if worker is None else declared.fit(rows, labels, worker=worker))
    return models


@pytest.mark.usefixtures("one_entropy")
@pytest.mark.parametrize("kind", ["paper", "centre", "workers", "numbers", "labels", "absent"])
def test_what_is_not_noisy_is_the_same_for_neighbouring_data(kind: str) -> None:
    first, second = neighbours(kind)
    assert dict(leaves(vars(first))) == dict(leaves(vars(second)))
    assert {name for name in dir(first) if not name.startswith("__")} == {
        name for name in dir(second) if not name.startswith("__")
    }
    assert (repr(first), str(first)) == (repr(second), str(second))
    # The same entropy was used: all that differs is what one patient moves, and something does.
    moved = np.linalg.norm(first.mixtures_.inputs - second.mixtures_.inputs)
    assert 0.0 < moved < math.inf
    stored = [pickle.loads(pickle.dumps(each)) for each in (first, second)]
    assert dict(leaves(vars(stored[0]))) == dict(leaves(vars(stored[1])))
    content = pickle.dumps(second)
    assert np.float64(1e9).tobytes() not in content
    assert b"1000000000.0" not in content
