"""What a worker does to its input before it sends it: scale to [0, 1] by the declared bounds."""

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.arrays import Doubles, Singles
from airmixml.errors import BoundsWarning, DataError, ScenarioError
from airmixml.wording import shown

_ABSURD_WIDTH: Final = 1e9
_MOST: Final = 0.5
_TARGET_KEYS: Final = ("workers.target_lower", "workers.target_upper")


def declare_bounds(
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    features: int,
    lower_name: str = "workers.input_lower",
    upper_name: str = "workers.input_upper",
    columns: Sequence[str] = (),
) -> tuple[Doubles, Doubles]:
    """Return lower and upper bounds with one entry per feature; one given value serves all features.

    A complaint names the column where ``columns`` has a name for each feature.
    """
    missing = [name for name, values in ((lower_name, lower), (upper_name, upper)) if len(values) == 0]
    if missing:
        raise DataError(
            f"{' and '.join(missing)}: must be declared for your own data, one value for all inputs or one "
            f"for each of the {features}, or beside the names of CSV columns in [workers.bounds] or a file for "
            "--bounds (`airmix init` begins one); bounds measured on private samples would leak them, so write down "
            "what you know beforehand"
        )
    lower_bounds, upper_bounds = _one_for_each("input", (lower, upper), features, (lower_name, upper_name), columns)
    widest = float((upper_bounds - lower_bounds).max(initial=0.0))
    if widest > _ABSURD_WIDTH:
        warnings.warn(
            f"{upper_name}: an input may vary by {widest:.3g}; if its values vary by much less than that, nothing is "
            "left of them once they are scaled",
            BoundsWarning,
            stacklevel=2,
        )
    return lower_bounds, upper_bounds


def declare_target_bounds(
    lower: Sequence[float], upper: Sequence[float], *, targets: int, names: tuple[str, str] = _TARGET_KEYS
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return lower and upper bounds with one entry per target of a regression; one given value serves all."""
    if len(lower) == 0 or len(upper) == 0:
        raise DataError(
            f"{names[0]} and {names[1]}: must be declared for a regression, one value for all targets or one for each "
            f"of the {targets}, such as 0 and 120 for an age; bounds measured on private samples would leak them"
        )
    lower_bounds, upper_bounds = _one_for_each("target", (lower, upper), targets, names)
    return tuple(lower_bounds.tolist()), tuple(upper_bounds.tolist())


def warn_of_clipping(clipped: int, values: int, name: str = "workers.input_lower and workers.input_upper") -> None:
    """Warn where bounds clip most values. Only for simulations: how many there are is private."""
    if clipped > _MOST * values:
        warnings.warn(
            f"{name}: {clipped:,} of {values:,} input values lie outside and were clipped; check the units and declare "
            "wider bounds",
            BoundsWarning,
            stacklevel=2,
        )


def _one_for_each(
    what: str,
    given: tuple[Sequence[float], Sequence[float]],
    count: int,
    names: tuple[str, str],
    columns: Sequence[str] = (),
) -> tuple[Doubles, Doubles]:
    """Return both bounds of each input or target; refuse any that leave no room between them."""
    for name, values in zip(names, given, strict=True):
        if len(values) not in (1, count):
            each = f"must have 1, which serves all {what}s, or {count}, one for each {what}"
            raise ScenarioError(f"{name} has {len(values)} values: {each}")
    lower, upper = (np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (count,))) for values in given)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow gives an infinite width, which is refused as well
        width = upper - lower
    wrong = np.flatnonzero(~((width > 0) & np.isfinite(width)))
    if wrong.size:
        place = int(wrong[0])
        which = f"column {shown(columns[place])}" if len(columns) == count else f"{what} {place + 1}"
        raise ScenarioError(
            f"{names[1]} = {upper[place]:g} for {which}: must be above {names[0]} = {lower[place]:g}, at a "
            "finite distance; correct the two"
        )
    return lower, upper


_VALUES_PER_BLOCK = 1 << 20


def scale_to_unit(inputs: NDArray[Any], lower: ArrayLike, upper: ArrayLike) -> tuple[Singles, int]:
    """Return the inputs scaled to [0, 1], and how many values lay outside the bounds and were clipped.

    Inputs are samples x features, finite, of any real type. Each feature has its bounds, or one pair serves all; lower
    ones lie below upper ones (``declare_bounds`` checks that).
    """
    lower_bounds, upper_bounds = as_stored(inputs.dtype, lower, upper)
    if inputs.dtype == np.uint8 and inputs.size > _VALUES_PER_BLOCK and not (np.ptp(lower) or np.ptp(upper)):
        return _scale_bytes(inputs, lower_bounds.flat[0], upper_bounds.flat[0])
    width = upper_bounds - lower_bounds
    scaled = np.empty(inputs.shape, dtype=np.float32)
    clipped = 0
    # In blocks, so that bytes never become one large array of float64.
    samples_per_block = max(1, _VALUES_PER_BLOCK // max(1, inputs.shape[1]))
    for start in range(0, inputs.shape[0], samples_per_block):
        stop = start + samples_per_block
        block = inputs[start:stop].astype(np.float64)
        clipped += int(np.count_nonzero(block < lower_bounds)) + int(np.count_nonzero(block > upper_bounds))
        # Clipped first: then the difference cannot overflow, and rounding leaves the quotient within [0, 1].
        np.clip(block, lower_bounds, upper_bounds, out=block)
        block -= lower_bounds
        block /= width
        scaled[start:stop] = block
    return scaled, clipped


def _scale_bytes(inputs: NDArray[np.uint8], lower: float, upper: float) -> tuple[Singles, int]:
    """Return bytes that share their bounds: each of the 256 is scaled once."""
    table, _ = scale_to_unit(np.arange(256, dtype=np.uint8)[None], lower, upper)
    outside = (np.arange(256) < lower) | (np.arange(256) > upper)
    return table[0][inputs], int(np.count_nonzero(outside[inputs])) if outside.any() else 0


def as_stored(dtype: np.dtype[Any], lower: ArrayLike, upper: ArrayLike) -> tuple[Doubles, Doubles]:
    """Return the bounds as the type of the inputs would store them.

    A float32 file stores 7.9 as 7.9000001; against the bound 7.9 that value would count as clipped though it
    lies on the bound.
    """
    lower_bounds = np.asarray(lower, dtype=np.float64)
    upper_bounds = np.asarray(upper, dtype=np.float64)
    if dtype.kind != "f":
        return lower_bounds, upper_bounds
    with np.errstate(over="ignore", under="ignore"):
        lower_stored = lower_bounds.astype(dtype).astype(np.float64)
        upper_stored = upper_bounds.astype(dtype).astype(np.float64)
    usable = (lower_stored < upper_stored) & np.isfinite(lower_stored) & np.isfinite(upper_stored)
    return np.where(usable, lower_stored, lower_bounds), np.where(usable, upper_stored, upper_bounds)
