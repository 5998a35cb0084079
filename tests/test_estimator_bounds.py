"""Bounds of inputs as estimators take them: by name, and not those that were measured; fits that are repeated."""

import warnings

import numpy as np
import pytest

from airmixml import AirMixClassifier
from airmixml.estimator import spending
from airmixml.messages import BoundsWarning, RepeatedFitWarning, ScenarioError

pandas = pytest.importorskip("pandas")
SIMULATED = {"classes": (0, 1), "mode": "simulation", "random_state": 0}


def table() -> "pandas.DataFrame":
    rng = np.random.default_rng(3)
    return pandas.DataFrame({"age": rng.uniform(20, 90, 60), "height": rng.uniform(150, 200, 60)})


def test_bounds_by_name_are_those_in_the_order_of_the_columns() -> None:
    rows = table()
    named = AirMixClassifier(input_bounds={"height": (100, 250), "age": (0, 120)}, **SIMULATED)
    listed = AirMixClassifier(input_bounds=((0, 100), (120, 250)), **SIMULATED)
    classes = rows["age"] > 50
    assert np.array_equal(named.fit(rows, classes).predict_proba(rows), listed.fit(rows, classes).predict_proba(rows))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"age": (0, 120)}, "must have .lower, upper. for each column of X, a DataFrame: 'height' is not declared"),
        ({"age": (0, 120), "heigth": (0, 250)}, r"'heigth' is no column; did you mean height\?"),
        ({"age": (0, 120), "height": 250}, r"\['height'\] = 250: must be a pair"),
        ({"age": (0, 120), "height": ([0, 1], [2, 3])}, r"\[0\] has 3 values"),
    ],
)
def test_wrong_bounds_by_name_are_refused(bounds: dict[str, object], message: str) -> None:
    rows = table()
    with pytest.raises(ScenarioError, match=f"^input_bounds.*{message}"):
        AirMixClassifier(input_bounds=bounds, **SIMULATED).fit(rows, rows["age"] > 50)
    with pytest.raises(ScenarioError, match=r"of X, a DataFrame: 'age' is no column"):
        AirMixClassifier(input_bounds=bounds, **SIMULATED).fit(rows.to_numpy(), rows["age"] > 50)


def test_bounds_that_are_the_extremes_of_the_rows_are_warned_of() -> None:
    rows = table()
    values, classes = rows.to_numpy(), rows["age"] > 50
    with pytest.warns(BoundsWarning, match="smallest and largest values of X") as caught:
        AirMixClassifier(input_bounds=(values.min(axis=0), values.max(axis=0)), **SIMULATED).fit(values, classes)
    assert len(caught) == 1
    for declared in (((0, 100), (120, 250)), (0, 250), (values.min(axis=0), (120, 250))):
        with warnings.catch_warnings():
            warnings.simplefilter("error", BoundsWarning)
            AirMixClassifier(input_bounds=declared, **SIMULATED).fit(values, classes)
    shares = (values > values.mean(axis=0)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BoundsWarning)
        AirMixClassifier(input_bounds=((0, 0), (1, 1)), **SIMULATED).fit(shares, classes)


def test_repeated_protected_fits_are_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "PROTECTED_FITS", spending.Together())
    rows = table()
    model = AirMixClassifier(epsilon=3, input_bounds=((0, 100), (120, 250)), classes=(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        model.fit(rows, rows["age"] > 50)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            model.fit(rows, rows["age"] > 50)
    assert sum(issubclass(each.category, RepeatedFitWarning) for each in caught) == 1
