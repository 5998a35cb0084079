"""What adds up over the parts of a run, as named arrays that are sent and stored; of long counts only what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Sums = dict[str, NDArray[Any]]


def without_zeros(name: str, values: NDArray[Any]) -> Sums:
    """Return the places and values of an array of one axis that are not zero."""
    places = np.flatnonzero(values)
    return {f"{name}/places": places, f"{name}/values": values[places]}


def with_zeros(sums: Sums, name: str, length: int) -> NDArray[Any]:
    """Return the array of that length of which ``without_zeros`` kept the rest."""
    values = sums[f"{name}/values"]
    every = np.zeros(length, dtype=values.dtype)
    every[sums[f"{name}/places"]] = values
    return every


def below(name: str, sums: Sums) -> Sums:
    """Return the same sums under names that begin with this one."""
    return {f"{name}/{inner}": values for inner, values in sums.items()}


def taken_from(name: str, sums: Sums) -> Sums:
    """Return what ``below`` put under this name."""
    return {key.removeprefix(f"{name}/"): values for key, values in sums.items() if key.startswith(f"{name}/")}


def as_tensor(values: NDArray[Any]) -> torch.Tensor:
    """Return the array as a tensor; what was sent from another process may be read-only, which torch warns of."""
    import torch

    return torch.from_numpy(values if values.flags.writeable else values.copy())
