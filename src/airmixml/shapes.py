"""What an input looks like where it is more than a row of numbers: an image, grey or with channels, or a series.

A shape is (height, width), or (channels, height, width). A series of several channels over time is an image of height
1: (channels, 1, time). So one tuple says all, and whatever can read an image with channels can read a series.
"""

import math
from collections.abc import Sequence

from airmixml.errors import ScenarioError
from airmixml.wording import shown

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
