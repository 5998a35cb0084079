"""One run cut into parts that are simulated anywhere: shards of slots, or the workers of a few large slots.

Where shards begin follows from the scenario alone, so that the sums are the same on any number of machines. What each
worker spent is added up slot by slot wherever slots were simulated, and counts do not care for order, so both are those
of an unsharded run. So are sums of mixtures where a shard is a block of a CPU, which has 128 slots or more unless they
are large; else they differ by rounding.

Where parts of a slot begin follows from its number of workers alone, and they are added in order, in float64: the sum
is the same on any number of machines, and that of one process up to rounding.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Sums, as_tensor, below, taken_from
from airmixml.data import DataSet
from airmixml.devices import find_device
from airmixml.errors import RunFolderError
from airmixml.radio.draws import AirSetting, draw_slots, shards_of, slots_in, suitable_block
from airmixml.radio.ideal_air import air_of
from airmixml.radio.mixtures import AirReport, MixtureBlock, check_finite, simulate_family_blocks
from airmixml.radio.senders import make_sender
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.storage.files import ResultStore
from airmixml.workers import Population
from airmixml.workers.payloads import Payload, Places

if TYPE_CHECKING:
    from airmixml.workers.broadcasts import Broadcast

SHARDS: Final = "shards"
"""The folder in a run folder that finished shards are kept in until the run is whole."""
_DRAWN: Final = ("first_slot", "drawn", "joules_per_watt")
_RECEIVED: Final = [each.name for each in fields(MixtureBlock) if each.name not in _DRAWN]
_SAVING_THREADS: Final = 2
_MOST_UNSAVED: Final = 8
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Air:
    """All that the slots of scenarios with equal draws need."""

    settings: Sequence[AirSetting]
    dataset: DataSet
    population: Population
    speed: Speed

    @property
    def slots(self) -> int:
        """How many there are."""
        return self.settings[0].scenario.radio.slots

    def new_reports(self, *, part: bool = False) -> list[AirReport]:
        """Return a report of each scenario, before the first slot; of a part the slot for a mean is not one."""
        distance_metres = None if part else self.population.distance_metres
        return [
            AirReport(
                each.given,
                self.dataset,
                distance_metres=distance_metres,
                received_watts=each.private_received_watts,
                holding=self.population.sample_index,
                part=part,
            )
            for each in self.settings
        ]

    def blocks(self, chapters: range | None = None, sender: Payload | None = None) -> Iterator[list[MixtureBlock]]:
        """Run all slots, or those of some chapters; a block of each scenario at a time."""
        return simulate_family_blocks(
            self.settings, self.dataset, self.population, speed=self.speed, sender=sender, chapters=chapters
        )

    def new_payload(self, in_slot: int = 0) -> Payload:
        """Lay out what workers send; so many of them in a slot, where they are added up in parts."""
        scenario, device = self.settings[0].scenario, find_device(self.speed.device)
        return make_sender(scenario, self.dataset, device, holdings=self.population.holdings, in_slot=in_slot)

    def to_be_sent(self) -> Self:
        """Return the same for another machine: without the test set, which no slot needs, and on one thread."""
        held = self.dataset
        held = replace(held, test_inputs=held.test_inputs[:0].copy(), test_labels=held.test_labels[:0].copy())
        threads = 1 if self.speed.device == "cpu" else self.speed.threads
        return replace(self, dataset=held, speed=replace(self.speed, threads=threads))


def require_independent(air: Air, context: RunContext) -> None:
    """Refuse other processes where slots are not independent of each other, or nothing may leave this process."""
    if context.secret is not None:
        context.engine.require_here("a secret is never sent to another process")
    signal = air.settings[0].signal
    if signal.moments and signal.bits:
        context.engine.require_here("workers.bits rounds the products of one worker after the other")


def prepare_shards(shared: tuple[Air, Gather]) -> Callable[[range], Sums]:
    """Return what simulates the slots of some chapters; what workers send is laid out once."""
    air, gather = shared
    return partial(_simulate_shard, air, gather, air.new_payload())


def _simulate_shard(air: Air, gather: Gather, payload: Payload, chapters: range) -> Sums:
    reports, slots = air.new_reports(part=True), slots_in(chapters, air.slots)
    gatherers = [gather(each.scenario, air.dataset, slots) for each in air.settings]
    for blocks in air.blocks(chapters, payload):
        for block, report, gatherer in zip(blocks, reports, gatherers, strict=True):
            check_finite(report.scenario, block)
            report.add(block)
            gatherer.add(block)
    sums: Sums = {}
    for number, (report, gatherer) in enumerate(zip(reports, gatherers, strict=True)):
        sums |= below(f"{number}/report", report.sums()) | below(f"{number}/gathered", gatherer.sums())
    return sums


@dataclass(frozen=True, eq=False)
class KeptBlocks:
    """Keeps what was received in blocks of slots, by the first of each; what the seed decides is drawn again."""

    store: ResultStore

    def receive(
        self,
        setting: AirSetting,
        slots: range,
        device: torch.device,
        receive: Callable[[], MixtureBlock],
        told: Broadcast | None = None,
    ) -> MixtureBlock:
        """Return the kept block of these slots, if the same was broadcast before; else receive and keep it."""
        name, values = f"block-{slots.start:06d}.npz", [slots.start, slots.stop, _digest_of(told)]
        kept = self.store.load(name, lambda found, arrays: arrays if found == values else {})
        if kept:
            return MixtureBlock(
                first_slot=slots.start,
                drawn=draw_slots(setting, slots, device),
                joules_per_watt=setting.joules_per_watt,
                **{each: as_tensor(kept[each]).to(device) for each in _RECEIVED if each in kept},
            )
        block = receive()
        found = {name: getattr(block, name) for name in _RECEIVED}
        self.store.save(name, values, {key: each.cpu().numpy() for key, each in found.items() if each is not None})
        return block


def _digest_of(told: Broadcast | None) -> str:
    if told is None:
        return ""
    numbers = told.weights.tobytes() + told.biases.tobytes()
    return hashlib.sha256(f"{told.clip} {told.link.name} ".encode() + numbers).hexdigest()


class ShardStore:
    """Keeps finished shards in a folder; those that were made with something else are made again.

    ``parts`` holds those of a slot that is cut by its workers, ``blocks`` what was received in rounds and before them.
    """

    def __init__(self, folder: Path, made_with: str = "") -> None:
        self._store = self.parts = ResultStore(folder, made_with)
        self.blocks = KeptBlocks(self._store)

    def load(self, number: int, slots: range) -> Sums | None:
        """Return a finished shard; None where there is none, or a damaged or foreign one."""

        def checked(values: Any, arrays: Sums) -> Sums:
            if values != [slots.start, slots.stop]:
                raise ValueError(f"slots {values}, not {slots.start} to {slots.stop}")
            return arrays

        return self._store.load(f"{number:06d}.npz", checked)

    def save(self, number: int, slots: range, sums: Sums) -> None:
        """Keep a finished shard."""
        self._store.save(f"{number:06d}.npz", [slots.start, slots.stop], sums)


def simulate_shards(
    air: Air, gather: Gather, *, context: RunContext, store: ShardStore | None
) -> Iterator[list[tuple[Sums, Sums]]]:
    """Yield, shard after shard, what each scenario's report and gatherer have of it, from the store if it is there."""
    shards = shards_of(air.settings[0])
    slots = [slots_in(chapters, air.slots) for chapters in shards]
    kept = [store is not None and store.load(number, piece) is not None for number, piece in enumerate(slots)]
    missing = [number for number, there in enumerate(kept) if not there]
    done = air.slots - sum(len(slots[number]) for number in missing)
    context.progress("over the air", done, air.slots)

    def saved(number: int) -> None:
        nonlocal done
        done += len(slots[number])
        context.progress("over the air", done, air.slots)

    finishing = context.engine.run(
        prepare_shards,
        (air.to_be_sent(), gather),
        [shards[number] for number in missing],
        on_gpu=air.speed.device != "cpu",
        in_order=True,
    )
    ready: dict[int, Sums] = {}
    with closing(finishing), _Saving(store, saved) as saving:
        for number, piece in enumerate(slots):
            while number not in ready and not kept[number]:
                place, sums = next(finishing)
                ready[missing[place]] = sums
                saving.add(missing[place], slots[missing[place]], sums)
            found = ready.pop(number) if number in ready else store and store.load(number, piece)
            if not found:
                raise RunFolderError(f"shard {number + 1}: was removed meanwhile; give the same command again")
            yield [
                (taken_from(f"{each}/report", found), taken_from(f"{each}/gathered", found))
                for each in range(len(air.settings))
            ]


class _Saving:
    """Saves shards while others are merged: on one thread it would take four times as long as merging them.

    ``saved`` is told the number of a shard once it is on the disk, or at once where nothing is saved.
    """

    def __init__(self, store: ShardStore | None, saved: Callable[[int], None]) -> None:
        self._store, self._saved = store, saved
        self._pool = ThreadPoolExecutor(_SAVING_THREADS, "airmix-shards")
        self._pending: deque[tuple[int, Future[None]]] = deque()

    def add(self, number: int, slots: range, sums: Sums) -> None:
        """Save a shard; wait where too many are not saved yet."""
        if self._store is None:
            self._saved(number)
            return
        self._pending.append((number, self._pool.submit(self._store.save, number, slots, sums)))
        while self._pending and (self._pending[0][1].done() or len(self._pending) > _MOST_UNSAVED):
            self._finish()

    def _finish(self) -> None:
        number, future = self._pending.popleft()
        future.result()
        self._saved(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while kind is None and self._pending:
                self._finish()
        finally:
            self._pool.shutdown()  # what was begun is saved, whatever ended the run


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
    payload = air.new_payload(in_slot=air.settings[0].scenario.seats)
    return partial(_add_up, payload, air.speed.device)


def _add_up(payload: Payload, device: str, part: _Part) -> NDArray[Any]:
    index, shares = (torch.from_numpy(each).to(device) for each in part)
    return payload.weighted_sum(index, shares).cpu().numpy()


def _digest(part: _Part) -> str:
    digest = hashlib.sha256()
    for each in part:
        digest.update(f"{each.shape} {each.dtype.str} ".encode() + each.tobytes())
    return digest.hexdigest()
