"""Errors of protected fits: they name the fault and the column, and nothing of a row, not even in what caused them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from airmixml import AirMixClassifier, AirMixError, AirMixRegressor
from airmixml.budgets import LedgerFile
from airmixml.workers import Encoder, FeatureCost

SECRET, NUMBER = "SECRET-CELL", 31415.9265
ROWS = np.random.default_rng(1).random((40, 3))
CLASSES = np.arange(40) % 2
GIVEN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "input_bounds": (0.0, 1.0), "random_state": 0}


def told(fit: Callable[[], object]) -> str:
    """Return the message of the error that a fit ends with, after a search of all that it hands on."""
    with pytest.raises(AirMixError) as refused:
        fit()
    problem: BaseException | None = refused.value
    shown = "".join(traceback.format_exception(problem))
    while problem is not None:
        shown += repr(problem) + repr(vars(problem))
        problem = problem.__cause__ or problem.__context__
    assert SECRET not in shown
    assert str(NUMBER)[:6] not in shown
    return str(refused.value)


def table(column: str, value: object) -> pd.DataFrame:
    frame = pd.DataFrame(ROWS, columns=["age", "salary", "height"]).astype(object)
    frame.loc[29, column] = value
    return frame


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (table("salary", SECRET), "X, column 'salary': holds something that is not a number"),
        (table("salary", np.nan), "X, column 'salary': holds a missing or infinite value"),
        (table("height", -np.inf), "X, column 'height': holds a missing or infinite value"),
        (table("age", SECRET).to_numpy(), "X, column '1': holds something that is not a number"),
        (ROWS[:-1], "X has the shape (39, 3) and y (40,): must be"),
        ([[SECRET, 1.0]] * 40, "X, column '1': holds something that is not a number"),
    ],
)
@pytest.mark.parametrize("kind", [AirMixClassifier, AirMixRegressor])
def test_faults_of_inputs(rows: Any, message: str, kind: type) -> None:
    declared = {"classes": (0, 1)} if kind is AirMixClassifier else {"target_bounds": (0, 1)}
    assert told(lambda: kind(**declared, **GIVEN).fit(rows, CLASSES)).startswith(message)


def test_faults_of_labels() -> None:
    words = np.array(["n", "y"] * 20, dtype=object)
    words[29] = SECRET
    declared = AirMixClassifier(classes=["n", "y"], **GIVEN)
    assert "a label is not among classes" in told(lambda: declared.fit(ROWS, words))
    words[29] = None
    told(lambda: declared.fit(ROWS, words))
    numbers = CLASSES.astype(float)
    numbers[29] = NUMBER
    assert "a label is not among classes" in told(lambda: AirMixClassifier(classes=[0, 1], **GIVEN).fit(ROWS, numbers))
    several = np.column_stack([CLASSES, numbers])
    assert "must hold 0 and 1 alone" in told(lambda: AirMixClassifier(**GIVEN).fit(ROWS, several))
    targets = CLASSES.astype(object)
    targets[29] = SECRET
    told(lambda: AirMixRegressor(target_bounds=(0, 1), **GIVEN).fit(ROWS, targets))


def test_an_encoder_that_fails_on_a_row() -> None:
    class Touchy(Encoder):
        about = "fails on rows that it does not like"
        bounds_norm = True

        def feature_count(self, workers: Any, input_dim: int) -> int:
            return input_dim

        def cost(self, workers: Any, input_dim: int) -> FeatureCost:
            return FeatureCost(multiply_accumulates=1, constant_bytes=0, working_bytes=0)

        def features(self, workers: Any, unit_inputs: Any, image_shape: Any, rng: Any) -> Any:
            if len(unit_inputs) == 40:
                raise ValueError(f"no {SECRET}: {unit_inputs[29]}")
            return unit_inputs

    encoder = Touchy()
    model = AirMixClassifier(classes=(0, 1), encoder=encoder, **GIVEN)
    assert told(lambda: model.fit(ROWS, CLASSES)).startswith("encoder = Touchy: its features fails")
    with pytest.raises(ValueError, match=SECRET):
        AirMixClassifier(classes=(0, 1), encoder=encoder, mode="simulation", **GIVEN).fit(ROWS, CLASSES)


def test_a_ledger_names_nobody(tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=0.5, delta=1e-3)
    model = AirMixClassifier(classes=(0, 1), ledger=str(ledger.path), **GIVEN)
    worker = [SECRET if row < 4 else f"w{row // 4}" for row in range(40)]
    assert "a worker would pass its budget" in told(lambda: model.fit(ROWS, CLASSES, worker=worker))
    told(lambda: model.fit(ROWS, CLASSES, worker=[SECRET] * 40))
    told(lambda: model.fit(ROWS, CLASSES, worker=[SECRET] * 39))


def test_a_wrong_value_is_named_as_the_parameter_is() -> None:
    assert told(lambda: AirMixClassifier(classes=(0, 1), **GIVEN | {"epsilon": -1}).fit(ROWS, CLASSES)).startswith(
        "epsilon = -1: must be a number above 0"
    )


@pytest.mark.parametrize(
    ("classes", "example"),
    [(CLASSES, "[0, 1]"), (CLASSES > 0, "[False, True]"), (np.array(["a", "b"])[CLASSES], '["no", "yes"]')],
)
def test_the_example_of_classes_is_of_their_type(classes: Any, example: str) -> None:
    assert f"add classes={example}, with" in told(lambda: AirMixClassifier(**GIVEN).fit(ROWS, classes))
