"""What users give beside ``X`` and ``y``, refused in one line where it makes no sense."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.data.labels import number_holders
from airmixml.errors import ScenarioError
from airmixml.wording import shown


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


def holders_of(worker: ArrayLike, samples: int) -> NDArray[np.int64]:
    """Return the number of the worker that holds each row; shape samples."""
    given = np.asarray(worker)
    if given.shape != (samples,):
        raise ScenarioError(
            f"worker has the shape {shown(given.shape)}: must be ({samples},), the worker of each row of X"
        )
    return number_holders(given, "worker")[0]
