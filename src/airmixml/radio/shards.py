"""One run cut into parts that are simulated anywhere: shards of slots, or the workers of a few large slots.

Where shards begin follows from the scenario alone, so that the sums are the same on any number of machines. What was
sent is drawn and counted again where the shards are merged, slot by slot. Sums of mixtures are those of an unsharded
run where a shard is a block of a CPU, which has 128 slots or more unless they are large; else they differ by rounding.

Where parts of a slot begin follows from its number of workers alone, and they are added in order, in float64: the sum
is the same on any number of machines, and that of one process up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Sums, as_tensor, below, taken_from
from airmixml.data import DataSet
from airmixml.errors import RunFolderError
from airmixml.radio.draws import shards_of, slots_in, suitable_block
from airmixml.radio.ideal_air import air_of
from airmixml.radio.mixtures import Air, AirReport, MixtureBlock, check_finite
from airmixml.radio.tally import add_slots
from airmixml.scenario import RunContext, Scenario
from airmixml.storage.files import ResultStore
from airmixml.workers.payloads import Payload, Places

_LEAST_WORKERS: Final = 4096
_MOST_PARTS: Final = 256
_Part = tuple[NDArray[np.int64], NDArray[np.float64]]


class Gatherer(Protocol):
    """Makes of the blocks of a run what a learner needs."""

    def add(self, block: MixtureBlock) -> None:
        """Take one block into account; blocks come in order."""

    def sums(self) -> Sums:
        """Return what was gathered, for ``merge``."""

    def merge(self, sums: Sums) -> None:
        """Take what was gathered of the slots that follow into account."""


Gather = Callable[[Scenario, DataSet, range], Gatherer]
"""Makes the gatherer of some slots of a scenario, whose workers send these data; it is sent to other processes."""


def require_independent(air: Air, context: RunContext) -> None:
    """Refuse other processes where slots are not independent of each other, or nothing may leave this process."""
    if context.secret is not None:
        context.engine.require_here("a secret is never sent to another process")
    signal = air.settings[0].signal
    if signal.moments and signal.bits:
        context.engine.require_here("workers.bits rounds the products of one worker after the other")


def _to_be_sent(air: Air) -> Air:
    """Return the same for another machine: without the test set, which no slot needs, and on one thread."""
    held = air.dataset
    held = replace(held, test_inputs=held.test_inputs[:0].copy(), test_labels=held.test_labels[:0].copy())
    threads = 1 if air.speed.device == "cpu" else air.speed.threads
    return replace(air, dataset=held, speed=replace(air.speed, threads=threads))


def _finished(
    stage: str,
    prepare: Callable[[Any], Callable[[Any], Sums]],
    shared: tuple[Air, Any],
    parts: Sequence[tuple[str, int, Any]],
    context: RunContext,
    store: ResultStore | None,
) -> Iterator[Sums]:
    """Yield what each part (its name, size and content) gives, in order: from the store, or made and kept there."""
    names = [f"{name}.npz" for name, _, _ in parts]
    kept = [store is not None and store.load(name, lambda _, arrays: arrays) is not None for name in names]
    missing = [number for number, there in enumerate(kept) if not there]
    sizes = [size for _, size, _ in parts]
    done = sum(size for size, there in zip(sizes, kept, strict=True) if there)
    context.progress(stage, done, sum(sizes))
    air, _ = shared
    wanted = [parts[number][-1] for number in missing]
    making = context.engine.run(prepare, shared, wanted, on_gpu=air.speed.device != "cpu", in_order=True)
    ready: dict[int, Sums] = {}
    with closing(making):
        for number, name in enumerate(names):
            while number not in ready and not kept[number]:
                place, sums = next(making)
                ready[missing[place]] = sums
                if store is not None:
                    store.save(names[missing[place]], {}, sums)
                done += sizes[missing[place]]
                context.progress(stage, done, sum(sizes))
            found = ready.pop(number) if number in ready else store and store.load(name, lambda _, arrays: arrays)
            if not found:
                raise RunFolderError(f"shard {number + 1}: was removed meanwhile; give the same command again")
            yield found


def gather_shards(
    air: Air, gather: Gather, gatherers: Sequence[Gatherer], *, context: RunContext, store: ResultStore | None
) -> list[AirReport]:
    """Run all slots in shards, have these gatherers merge what each gives, and return the reports."""
    shards, reports = shards_of(air.settings[0]), air.new_reports()
    pieces = [slots_in(chapters, air.slots) for chapters in shards]
    parts = [
        (f"slots-{piece.start}-{piece.stop}", len(piece), chapters)
        for piece, chapters in zip(pieces, shards, strict=True)
    ]
    finished = _finished("over the air", prepare_shards, (_to_be_sent(air), gather), parts, context, store)
    for chapters, found in zip(shards, finished, strict=True):
        add_slots(air.settings, reports, chapters, air.device)
        for number, merged in enumerate(zip(reports, gatherers, strict=True)):
            for kind, each in enumerate(merged):
                each.merge(taken_from(f"{number}/{kind}", found))
    return reports


def prepare_shards(shared: tuple[Air, Gather]) -> Callable[[range], Sums]:
    """Return what simulates the slots of some chapters; what workers send is laid out once."""
    air, gather = shared
    return partial(_simulate_shard, air, gather, air.new_payload())


def _simulate_shard(air: Air, gather: Gather, payload: Payload, chapters: range) -> Sums:
    reports, slots = air.new_reports(), slots_in(chapters, air.slots)
    gatherers = [gather(each.scenario, air.dataset, slots) for each in air.settings]
    for blocks in air.blocks(chapters, payload):
        for block, report, gatherer in zip(blocks, reports, gatherers, strict=True):
            check_finite(report.scenario, block)
            report.listen(block)
            gatherer.add(block)
    sums: Sums = {}
    for number, (report, gatherer) in enumerate(zip(reports, gatherers, strict=True)):
        sums |= below(f"{number}/0", report.sums()) | below(f"{number}/1", gatherer.sums())
    return sums


def parts_of(workers: int) -> list[slice]:
    """Partition the workers of a slot into parts of at least 4,096 and at most 256 parts."""
    length = _LEAST_WORKERS
    while workers > _MOST_PARTS * length:
        length *= 2
    return [slice(first, first + length) for first in range(0, workers, length)]


def suits_partition(air: Air) -> bool:
    """Return whether a run has too few slots to be cut, and so many workers in each that these can be."""
    first = air.settings[0]
    # With gains shares differ from piece to piece, and workers round integers before they add up.
    if not (air_of(first.scenario).exact and first.noise.real):
        return False
    one_block = air.slots <= (air.speed.block_slots or suitable_block(first))
    return one_block and len(shards_of(first)) == 1 and first.scenario.seats >= 2 * _LEAST_WORKERS


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionedPayload(Payload):
    """Sends what the workers of the air would, part after part; parts in the store are not added up again."""

    air: Air
    context: RunContext
    store: ResultStore | None
    in_any_order = False

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i q_i v_i, slots x symbols, of workers with these samples and weights, slots x scheduled."""
        samples, shares = index.cpu().numpy(), weights.cpu().numpy()
        contents = [(samples[:, some].copy(), shares[:, some].copy()) for some in parts_of(samples.shape[1])]
        parts = [(_digest(content), 1, content) for content in contents]
        shared = (_to_be_sent(self.air), None)
        total = torch.zeros((len(samples), self.air.settings[0].signal.symbols), dtype=torch.float64)
        for sums in _finished("workers added up", prepare_part, shared, parts, self.context, self.store):
            some = as_tensor(sums["sum"])
            total += some
        return total.to(index.device, some.dtype)


def prepare_part(shared: tuple[Air, None]) -> Callable[[_Part], Sums]:
    """Return what adds up some workers of each slot; what they send is laid out once."""
    air, _ = shared
    return partial(_add_up, air.new_payload(in_slot=air.settings[0].scenario.seats), air.device)


def _add_up(payload: Payload, device: torch.device, part: _Part) -> Sums:
    index, shares = (torch.from_numpy(each).to(device) for each in part)
    return {"sum": payload.weighted_sum(index, shares).cpu().numpy()}


def _digest(part: _Part) -> str:
    digest = hashlib.sha256()
    for each in part:
        digest.update(f"{each.shape} {each.dtype.str} ".encode() + each.tobytes())
    return digest.hexdigest()
