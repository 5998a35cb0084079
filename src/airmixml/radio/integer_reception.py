"""What the server has of a slot whose workers send integers: the mean over them, with noise, modulo 2^b.

Masks cancel and the workers' Skellam numbers add up to one of their total variance, so neither is formed for each
worker. Rounding is, where data are protected or few; else the errors of all workers together are drawn as what they
nearly are, Gaussian, and that protects nobody.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.errors import ScenarioError
from airmixml.radio.integer_sums import IntegerSums
from airmixml.streams import Secret, Streams
from airmixml.workers.payloads import Payload

_MOST_FORMED: Final = 1 << 27  # numbers of all workers of all slots of a simulation: some seconds
_NUMBERS_AT_ONCE: Final = 1 << 22
_PROBED_WORKERS: Final = 256


def receive_integers(
    sums: IntegerSums,
    payload: Payload,
    sample_index: torch.Tensor,
    clean: torch.Tensor,
    slots: range,
    *,
    all_slots: int,
    seed: int,
    secret: Secret | None,
) -> torch.Tensor:
    """Return the mean over the workers of each slot as the server has it; slots x symbols, float64.

    Samples are slots x scheduled; ``clean`` is the mean without noise, slots x symbols.
    """
    if payload.taken_for_exact:
        raise ScenarioError('privacy.arithmetic = "integers": only the workers\' own vectors can be sent; use "real"')
    noise, streams = sums.noise, Streams(seed, secret)
    formed = secret is not None or all_slots * noise.workers * noise.code.numbers <= _MOST_FORMED
    received = []
    for place, slot in enumerate(slots):
        generator = streams.generator("integers", slot)
        index = sample_index[place]
        if formed:
            total = noise.sum_of(_vectors(payload, index, noise.code.numbers), generator, simulated=secret is None)
        else:
            some = payload.vectors(index[:_PROBED_WORKERS].cpu().numpy())
            exact = noise.workers * clean[place].double().cpu().numpy()
            total = noise.modelled_sum(exact, some, generator)
        received.append(torch.from_numpy(total / noise.workers))
    return torch.stack(received).to(clean.device)


def _vectors(payload: Payload, sample_index: torch.Tensor, numbers: int) -> Iterator[NDArray[np.floating]]:
    for index in torch.split(sample_index, max(1, _NUMBERS_AT_ONCE // numbers)):
        yield payload.vectors(index.cpu().numpy())
