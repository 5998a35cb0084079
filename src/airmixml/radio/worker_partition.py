"""A few slots with very many workers each: the workers are partitioned, and each part is added up anywhere.

Where parts begin follows from the number of workers in a slot alone, and they are added in order, in float64: the sum
is the same on any number of machines, and that of one process up to the rounding of sums.
"""

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.radio.draws import shards_of, suitable_block
from airmixml.radio.scheduling import seats_of
from airmixml.radio.shards import Air
from airmixml.scenario import RunContext
from airmixml.storage.results import ResultStore
from airmixml.sums import as_tensor
from airmixml.workers.payloads import Payload, Places

_LEAST_WORKERS: Final = 4096
_MOST_PARTS: Final = 256
_Part = tuple[NDArray[np.int64], NDArray[np.float64]]


def parts_of(workers: int) -> list[slice]:
    """Partition the workers of a slot into parts of at least 4,096 and at most 256 parts."""
    length = _LEAST_WORKERS
    while workers > _MOST_PARTS * length:
        length *= 2
    return [slice(first, first + length) for first in range(0, workers, length)]


def suits_partition(air: Air) -> bool:
    """Return whether a run has too few slots to be cut, and so many workers in each that these can be."""
    first = air.settings[0]
    if not first.scenario.air.is_ideal:  # shares differ from piece to piece there
        return False
    if not first.scenario.privacy.noise_kind.real:  # workers round before they add up
        return False
    one_block = air.slots <= (air.speed.block_slots or suitable_block(first))
    return one_block and len(shards_of(first)) == 1 and seats_of(first.scenario) >= 2 * _LEAST_WORKERS


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionedPayload(Payload):
    """Sends what the workers of the air would, part after part; parts in the store are not added up again."""

    air: Air
    context: RunContext
    store: ResultStore | None
    in_any_order = False

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i q_i v_i, slots x symbols, of workers with these samples and weights, slots x scheduled."""
        engine, progress = self.context.engine, self.context.progress
        samples, shares = index.cpu().numpy(), weights.cpu().numpy()
        parts = [(samples[:, some].copy(), shares[:, some].copy()) for some in parts_of(samples.shape[1])]
        names = [f"{_digest(part)}.npz" for part in parts]
        sums: dict[int, torch.Tensor] = {}
        for number, name in enumerate(names):
            kept = None if self.store is None else self.store.load(name, lambda _, arrays: arrays["sum"])
            if kept is not None:
                sums[number] = as_tensor(kept)
        missing = [number for number in range(len(parts)) if number not in sums]
        done = len(parts) - len(missing)
        progress("workers added up", done, len(parts))
        device = self.air.speed.device
        finishing = engine.run(
            prepare_part, self.air.to_be_sent(), [parts[number] for number in missing], on_gpu=device != "cpu"
        )
        with closing(finishing):
            for place, found in finishing:
                sums[missing[place]] = as_tensor(found)
                if self.store is not None:
                    self.store.save(names[missing[place]], {}, {"sum": found})
                done += 1
                progress("workers added up", done, len(parts))
        total = torch.zeros((len(samples), self.air.settings[0].signal.symbols), dtype=torch.float64)
        for number in range(len(parts)):
            total += sums[number]
        return total.to(index.device, sums[0].dtype)


def prepare_part(air: Air) -> Callable[[_Part], NDArray[Any]]:
    """Return what adds up some workers of each slot; what they send is laid out once."""
    payload = air.new_payload(in_slot=seats_of(air.settings[0].scenario))
    return partial(_add_up, payload, air.speed.device)


def _add_up(payload: Payload, device: str, part: _Part) -> NDArray[Any]:
    index, shares = (torch.from_numpy(each).to(device) for each in part)
    return payload.weighted_sum(index, shares).cpu().numpy()


def _digest(part: _Part) -> str:
    digest = hashlib.sha256()
    for each in part:
        digest.update(f"{each.shape} {each.dtype.str} ".encode() + each.tobytes())
    return digest.hexdigest()
