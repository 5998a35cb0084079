"""One run cut into shards of slots that are simulated anywhere.

Where shards begin follows from the scenario alone, so that the sums are the same on any number of machines. What was
sent is drawn and counted again where the shards are merged, slot by slot. Sums of mixtures are those of an unsharded
run where a shard is a block of a CPU, which has 128 slots or more unless they are large; else they differ by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Protocol

from airmixml.arrays import Sums, below, taken_from
from airmixml.data import DataSet
from airmixml.errors import RunFolderError
from airmixml.radio.draws import shards_of
from airmixml.radio.mixtures import Air, AirReport, MixtureBlock, check_finite
from airmixml.radio.tally import add_slots
from airmixml.scenario import RunContext, Scenario
from airmixml.storage.files import ResultStore
from airmixml.workers.payloads import Payload


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


def gather_shards(
    air: Air, gather: Gather, gatherers: Sequence[Gatherer], *, context: RunContext, store: ResultStore | None
) -> list[AirReport]:
    """Run all slots in shards, have these gatherers merge what each gives, and return the reports."""
    shards, reports = shards_of(air.settings[0]), air.new_reports()
    for slots, found in zip(shards, _finished(air, gather, shards, context, store), strict=True):
        add_slots(air.settings, reports, slots, air.device)
        for number, merged in enumerate(zip(reports, gatherers, strict=True)):
            for kind, each in enumerate(merged):
                each.merge(taken_from(f"{number}/{kind}", found))
    return reports


def _finished(
    air: Air, gather: Gather, shards: Sequence[range], context: RunContext, store: ResultStore | None
) -> Iterator[Sums]:
    """Yield what each shard gives, in order: from the store, or made and kept there."""
    names = [f"slots-{slots.start}-{slots.stop}.npz" for slots in shards]
    kept = [store is not None and store.load(name, lambda _, arrays: arrays) is not None for name in names]
    missing = [number for number, there in enumerate(kept) if not there]
    done = sum(len(slots) for slots, there in zip(shards, kept, strict=True) if there)
    context.progress("over the air", done, air.slots)
    wanted, on_gpu = [shards[number] for number in missing], air.speed.device != "cpu"
    making = context.engine.run(prepare_shards, (_to_be_sent(air), gather), wanted, on_gpu=on_gpu, in_order=True)
    ready: dict[int, Sums] = {}
    with closing(making):
        for number, name in enumerate(names):
            while number not in ready and not kept[number]:
                place, sums = next(making)
                ready[missing[place]] = sums
                if store is not None:
                    store.save(names[missing[place]], {}, sums)
                done += len(shards[missing[place]])
                context.progress("over the air", done, air.slots)
            found = ready.pop(number) if number in ready else store and store.load(name, lambda _, arrays: arrays)
            if not found:
                raise RunFolderError(f"shard {number + 1}: was removed meanwhile; give the same command again")
            yield found


def prepare_shards(shared: tuple[Air, Gather]) -> Callable[[range], Sums]:
    """Return what simulates some slots; what workers send is laid out once."""
    air, gather = shared
    return partial(_simulate_shard, air, gather, air.new_payload())


def _simulate_shard(air: Air, gather: Gather, payload: Payload, slots: range) -> Sums:
    reports = air.new_reports()
    gatherers = [gather(each.scenario, air.dataset, slots) for each in air.settings]
    for blocks in air.blocks(slots, payload):
        for block, report, gatherer in zip(blocks, reports, gatherers, strict=True):
            check_finite(report.scenario, block)
            report.listen(block)
            gatherer.add(block)
    sums: Sums = {}
    for number, (report, gatherer) in enumerate(zip(reports, gatherers, strict=True)):
        sums |= below(f"{number}/0", report.sums()) | below(f"{number}/1", gatherer.sums())
    return sums
