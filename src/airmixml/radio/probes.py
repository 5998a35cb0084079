"""On which symbols of a slot the server measures what arrives a quarter turn off, and how much each of them counts.

A few symbols stand for all inputs. Phases drift while a block lasts, so distortion depends on the time t since the
resynchronisation, about as a + b t + c t^2 (phases and amplitudes, phase noise, offsets and movement). Weights close to
equal ones make the means of t and t^2 over the probed symbols those over all inputs, so that the measured variance has
the mean that it would have on all of them, wherever a slot has its few probes.
"""

from typing import Final, NamedTuple

import numpy as np
import torch

from airmixml.impairments.frame import Frame
from airmixml.impairments.timing import smears
from airmixml.scenario import Air
from airmixml.workers.payloads import Payload

_RUN: Final = 4


class Probes(NamedTuple):
    """Symbols of a slot that are probed, and their weights, which add up to 1."""

    symbols: torch.Tensor
    weights: torch.Tensor

    def mean_square(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mean square over all inputs as far as values of the probes, slots x probes, tell it; slots."""
        return values.square() @ self.weights.to(values.dtype)


def probes_of(air: Air, frame: Frame, payload: Payload, device: torch.device) -> Probes:
    """Return where a server measures noise in slots of such a payload."""
    symbols, inputs = payload.probed_symbols(), payload.signal.input_symbols
    if smears(air) and not payload.signal.moments:
        symbols = in_runs(inputs, len(symbols))
    ends = np.cumsum(frame.lengths)
    seconds = np.array(frame.seconds) / max(*frame.seconds, 1e-300)
    of_inputs = np.diff(np.minimum(ends, inputs), prepend=0) / inputs  # share of each piece
    at_probes = seconds[np.searchsorted(ends, symbols.numpy(), side="right")]
    return Probes(symbols.to(device), torch.from_numpy(_balanced(at_probes, seconds, of_inputs)).to(device))


def in_runs(inputs: int, count: int) -> torch.Tensor:
    """Return about so many of the inputs, in runs of four that are spread evenly.

    What is heard in a run of symbols that ring is little more than the run itself, while all symbols together are heard
    in every eleventh.
    """
    runs = max(1, round(count / _RUN))
    middles = (torch.arange(runs) + 0.5) * (inputs / runs)
    around = (middles - _RUN / 2.0).long()[:, None] + torch.arange(_RUN)
    symbols: torch.Tensor = around.clamp(0, inputs - 1).unique()  # type: ignore[no-untyped-call]
    return symbols


def _balanced(at_probes: np.ndarray, seconds: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the weights nearest to equal ones with which means of t and t^2 over probes are those of all; probes."""
    powers = np.stack([at_probes, at_probes**2], axis=1)
    apart = powers - powers.mean(axis=0)
    missing = np.array([shares @ seconds, shares @ seconds**2]) - powers.mean(axis=0)
    weights = 1.0 / len(at_probes) + apart @ (np.linalg.pinv(apart.T @ apart, rcond=1e-9, hermitian=True) @ missing)
    positive = np.maximum(weights, 0.0)
    return np.asarray(positive / positive.sum())
