"""Arrays and numbers that pass between the rooms: short names of types, shapes of inputs, decibels, sums that are sent.

A shape is (height, width), or (channels, height, width). A series of several channels over time is an image of height
1: (channels, 1, time). So one tuple says all, and whatever can read an image with channels can read a series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.errors import PluginError, ScenarioError
from airmixml.wording import shown

if TYPE_CHECKING:
    import torch


Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]


def own_numbers(
    make: Callable[[], object], shape: tuple[int, ...], fits: Callable[[Doubles], NDArray[np.bool_]], refusal: str
) -> Doubles:
    """Return the numbers that an object of a user makes; refuse those of another shape, and those that do not fit."""
    try:
        found = np.asarray(make(), dtype=np.float64)
    except (TypeError, ValueError, NotImplementedError):
        found = np.full((), np.nan)
    if found.shape != shape or not np.all(fits(found)):
        raise PluginError(refusal)
    return found


Shape = tuple[int, ...]
ImageShape = Shape | None
"""None where an input is a row of numbers without neighbours."""


def planes(shape: Shape) -> tuple[int, int, int]:
    """Return channels, height and width."""
    channels, height, width = shape if len(shape) == 3 else (1, *shape)
    return channels, height, width


def is_series(shape: ImageShape) -> bool:
    """Whether it is that of channels over time."""
    return shape is not None and len(shape) == 3 and shape[1] == 1


def in_words(shape: Shape) -> str:
    """Return the shape with crosses, as "3 x 32 x 32"; a series without its height."""
    sides = (shape[0], shape[2]) if is_series(shape) else shape
    return " x ".join(str(side) for side in sides)


def declared_shape(declared: Sequence[int], own: ImageShape, inputs: int, name: str = "workers.shape") -> ImageShape:
    """Return the shape that the user declares for an input of so many numbers; where none, the data set's own."""
    if not declared:
        return own
    shape = tuple(declared)
    if len(shape) not in (2, 3) or math.prod(shape) != inputs:
        raise ScenarioError(
            f"{name} = {shown(list(shape))}: must hold the {inputs} numbers of an input, as [height, width], "
            "[channels, height, width], or [channels, 1, time]"
        )
    if own is not None and planes(own) != planes(shape) and len(own) != 2:
        raise ScenarioError(
            f"{name} = {shown(list(shape))}: the data set says {in_words(own)} itself; leave {name} out"
        )
    return shape


def per_input(bounds: Sequence[float], shape: ImageShape) -> Sequence[float]:
    """Return a bound for each number of an input where one is given for each channel; else the bounds as they are."""
    if shape is None or len(shape) != 3 or len(bounds) != shape[0]:
        return bounds
    return tuple(bound for bound in bounds for _ in range(math.prod(shape[1:])))


def db_to_ratio(decibels: float) -> float:
    """Power ratio of a value in dB; beyond what a double holds, infinity or zero."""
    try:
        return float(10.0 ** (decibels / 10.0))
    except OverflowError:
        return math.inf


def ratio_to_db(ratio: ArrayLike) -> Doubles:
    """dB of a power ratio; zero gives -inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(np.asarray(ratio, dtype=np.float64)))


def dbm_to_watts(dbm: float) -> float:
    """Watts of a power in dBm."""
    return db_to_ratio(dbm - 30.0)


def watts_to_dbm(watts: ArrayLike) -> Doubles:
    """dBm of a power in watts; zero gives -inf."""
    return np.asarray(ratio_to_db(watts) + 30.0)


def as_tensor(values: NDArray[Any]) -> torch.Tensor:
    """Return the array as a tensor; one that was read may be read-only, which torch warns of."""
    import torch

    return torch.from_numpy(values if values.flags.writeable else values.copy())
