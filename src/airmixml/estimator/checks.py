"""What users give beside ``X`` and ``y``, refused in one line where it makes no sense."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from airmixml.arrays import Doubles
from airmixml.data.labels import number_holders
from airmixml.messages import BoundsWarning, DataError, ScaledRowsWarning, ScenarioError, did_you_mean, shown


def declared_pair(name: str, given: Any, of_each: str, example: str, measured: str) -> tuple[list[float], list[float]]:
    """Return the lower and the upper bounds in ``given``: a number each, or one per feature or target.

    The message says what they are ``of_each``, which ``example`` there is, and on what they must not be ``measured``.
    """
    if given is None:
        raise ScenarioError(
            f"{name} = None: must be a pair (lower, upper), each a number or one number per {of_each}; declare "
            f"what you know beforehand{example}: bounds measured on {measured} would leak it"
        )
    try:
        lower, upper = (np.atleast_1d(np.asarray(bound, dtype=np.float64)).tolist() for bound in given)
    except (TypeError, ValueError):
        raise ScenarioError(f"{name} = {shown(given)}: must be a pair (lower, upper) of numbers") from None
    return lower, upper


def bounds_by_name(given: Mapping[str, Any], names: Any) -> tuple[list[float], list[float]]:
    """Return the lower and the upper bounds of a table's columns, in their order, from (lower, upper) by name."""
    columns = [] if names is None else [str(name) for name in names]
    for name in (*given, *columns):
        if name not in columns or name not in given:
            hint = "not declared" if name in columns else f"no column{did_you_mean(str(name), columns)}"
            raise ScenarioError(
                f"input_bounds must have (lower, upper) for each column of X, a DataFrame: {shown(name)} is {hint}"
            )
    pairs = [declared_pair(f"input_bounds[{shown(name)}]", given[name], "column", "", "X") for name in columns]
    return [each for lower, _ in pairs for each in lower], [each for _, upper in pairs for each in upper]


def warn_of_measured(inputs: NDArray[Any], lower: Doubles | None, upper: Doubles | None) -> None:
    """Warn where declared bounds are the smallest and largest values of every column: they were probably measured."""
    if lower is None or upper is None or not len(inputs):
        return
    usual = ((lower == 0.0) | (lower == -1.0)) & (upper == 1.0)  # of shares and yes or no, whatever the rows hold
    looked_at = ~usual & (np.ptp(lower) + np.ptp(upper) > 0.0)  # one pair for all columns is no measurement
    extremes = (inputs.min(axis=0) == lower) & (inputs.max(axis=0) == upper)
    if looked_at.any() and extremes[looked_at].all():
        warnings.warn(
            "input_bounds: are the smallest and largest values of X in every column; bounds that were measured leak "
            "the most extreme rows, and no epsilon covers that: declare what you know without the data",
            BoundsWarning,
            stacklevel=2,
        )


_FEWEST_SCALED = 3
_SCALING_TOLERANCE = 1e-6  # float32 rows, whose means were removed


def warn_of_scaled(inputs: NDArray[Any]) -> None:
    """Warn of columns that have what only a scaler that was fitted on these very rows gives them.

    That is mean 0 and variance 1, median 0 and an interquartile range of 1, or in all columns exactly 0 and 1 as
    smallest and largest value, or 1 as largest magnitude. Columns that are constant or hold 0 and 1 alone say nothing.
    """
    if len(inputs) < _FEWEST_SCALED:
        return
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    telling = (low < high) & ~np.isin(inputs, (0.0, 1.0)).all(axis=0)
    if not telling.any():
        return
    rows = np.asarray(inputs[:, telling], dtype=np.float64)
    lower, middle, upper = np.quantile(rows, (0.25, 0.5, 0.75), axis=0)
    scaled = np.abs(rows.mean(axis=0)) + np.abs(rows.var(axis=0) - 1.0) < _SCALING_TOLERANCE
    scaled |= np.abs(middle) + np.abs(upper - lower - 1.0) < _SCALING_TOLERANCE
    if ((rows.min(axis=0) == 0.0).all() and (rows.max(axis=0) == 1.0).all()) or (np.abs(rows).max(axis=0) == 1.0).all():
        scaled[:] = True
    if scaled.any():
        warnings.warn(
            f"X: {scaled.sum():,} of {inputs.shape[1]:,} columns look scaled by a scaler that was fitted on these very "
            "rows, which no epsilon covers: give X in its own units and declare input_bounds, or fit the scaler on "
            "public data",
            ScaledRowsWarning,
            stacklevel=2,
        )


def as_given(values: Any) -> NDArray[Any]:
    """Return values as an array that leaves each as it is: NumPy makes text of all numbers where one value is text."""
    if isinstance(values, list | tuple) and len({isinstance(each, str | bytes) for each in values}) > 1:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.asarray(values)


def holders_of(worker: ArrayLike, samples: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the number of the worker that holds each row (samples), and the names of the workers in that order."""
    given = as_given(worker)
    if given.shape != (samples,):
        raise ScenarioError(f"worker has the shape {shown(given.shape)}: must be ({samples},), one for each row of X")
    return number_holders(given, "worker")


def validated(estimator: Any, X: Any, y: Any, *, protected: bool, **how: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ``X`` and ``y`` as scikit-learn checks them; where they are ``protected``, no error quotes a value."""
    try:
        inputs, labels = validate_data(estimator, X, y, **how)
    except (ValueError, TypeError) as problem:
        if not protected:
            raise
        kind = type(problem).__name__
    else:
        if protected:
            warn_of_scaled(inputs)
        return inputs, labels
    raise DataError(_fault_of(X, y) or f"X or y: scikit-learn cannot use them ({kind}); try synthetic data")


def _unusable(X: Any, y: Any) -> str:
    """Return which kind of data cannot be used at all; empty: none."""
    if y is None:
        return "y is None: fit requires y to be passed, but the target y is None; give a label for each row of X"
    if hasattr(X, "toarray"):
        return "X is sparse: must be a dense array; give X.toarray()"
    complex_parts = "X holds complex numbers. Complex data not supported; give their parts as columns"
    return complex_parts if np.iscomplexobj(X) else ""


def _fault_of(X: Any, y: Any) -> str:
    """Return what is wrong with the data, by its kind and column alone; empty where it is something else."""
    if unusable := _unusable(X, y):
        return unusable
    table, labels = np.asarray(X, dtype=object), np.asarray(y, dtype=object)
    if table.ndim != 2 or labels.ndim not in (1, 2) or len(table) != len(labels):
        return (
            f"X has the shape {shown(table.shape)} and y {shown(labels.shape)}: must be samples x features, and "
            "a class or targets for each sample"
        )
    if not table.size:
        of_what = "sample(s)" if not len(table) else "feature(s)"
        return f"X has 0 {of_what} (shape={shown(table.shape)}) while a minimum of 1 is required; give some"
    names = [str(name) for name in getattr(X, "columns", range(1, table.shape[1] + 1))]
    for name, column in zip(names, table.T, strict=True):
        try:
            finite = bool(np.isfinite(column.astype(np.float64)).all())
        except (ValueError, TypeError):
            return f"X, column {shown(name)}: holds something that is not a number; inputs must be numbers"
        if not finite:
            return f"X, column {shown(name)}: holds a missing or infinite value; fill it in or leave its row out"
    return ""
