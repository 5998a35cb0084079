"""All that is random in a run of slots, up to the noise: schedule, channel, ratios, assignment, power."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Final, Self

import numpy as np

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.errors import ScenarioError
from airmixml.radio.channel import generate_channel, path_gain
from airmixml.radio.power import PowerControl, control_power
from airmixml.radio.privacy_target import asked_received_watts, joules_per_watt, sensitivity_of
from airmixml.radio.ratios import assign_ratios, draw_ratios
from airmixml.radio.scheduling import draw_schedule_of, presence_of, seats_of
from airmixml.scenario import Mixing, Radio, Scenario, Workers
from airmixml.streams import SLOTS_PER_CHAPTER, Secret, Streams
from airmixml.workers import Signal

_BYTES_AHEAD: Final = 500_000_000


@dataclass(frozen=True, kw_only=True)
class AirSetting:
    """What stays the same over all slots."""

    scenario: Scenario
    worker_path_gain: Doubles  # sqrt(beta_U) d^(-n/2) of each worker; shape workers
    signal: Signal  # what a worker sends in a slot
    private_received_watts: float  # beta max q^2 that keeps the privacy target; 0 where power follows from none
    joules_per_watt: float  # energy that a worker spends in a slot per watt of transmit power
    secret: Secret | None = None  # what hides the data is drawn from; None: from the seed

    @classmethod
    def of(cls, scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles) -> Self:
        """Gather the setting of a scenario with its workers at the given distances; shape workers."""
        radio = scenario.radio
        sensitivity = sensitivity_of(scenario, input_dim, label_dim)
        signal = Signal.of(scenario.workers, input_dim, label_dim)
        return cls(
            scenario=scenario,
            worker_path_gain=path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db),
            signal=signal,
            private_received_watts=asked_received_watts(scenario, sensitivity, distance_metres),
            joules_per_watt=joules_per_watt(scenario, signal, sensitivity),
        )


@dataclass(frozen=True, kw_only=True)
class SlotDraws(PowerControl):
    """Draws of consecutive slots, and their power; every array has the slots as its first axis."""

    scheduled_workers: Integers  # who transmits; slots x scheduled
    magnitude: Doubles  # |h|; slots x scheduled
    ratios: Doubles  # q, dealt out to the workers; slots x scheduled
    standard_noise: Singles  # independent standard normal values; slots x symbols

    def __len__(self) -> int:
        return len(self.limited)

    def __getitem__(self, slots: slice) -> Self:
        return type(self)(**{entry.name: getattr(self, entry.name)[slots] for entry in fields(self)})

    def copy(self) -> Self:
        """Return the same draws in memory of their own."""
        return type(self)(**{entry.name: getattr(self, entry.name).copy() for entry in fields(self)})

    def without_noise(self) -> Self:
        """Return the same draws without their noise, which takes most of the memory."""
        return replace(self, standard_noise=self.standard_noise[:, :0].copy())

    def powered_as(self, setting: AirSetting) -> Self:
        """Return the same draws with the powers that another setting would give them."""
        power = control_power(setting.scenario, setting.private_received_watts, self.ratios, self.magnitude)
        return replace(self, **vars(power))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put consecutive draws together."""
        if len(parts) == 1:
            return parts[0]
        names = [entry.name for entry in fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


DrawsKey = tuple[int, Workers, Radio, Mixing]
"""What decides all draws of a scenario."""


def draws_key(scenario: Scenario) -> DrawsKey:
    """Return what decides all draws; equal for scenarios that differ only in name, power, target and learner."""
    blank = Mixing()
    mixing = replace(scenario.mixing, power=blank.power, power_scale_watts=blank.power_scale_watts)
    return scenario.seed, scenario.workers, scenario.radio, mixing


def check_family(scenarios: Sequence[Scenario]) -> None:
    """Refuse scenarios that do not share all their draws."""
    first = scenarios[0]
    for scenario in scenarios[1:]:
        if draws_key(scenario) != draws_key(first):
            raise ScenarioError(
                f"{scenario.name}: differs from {first.name} in more than power, privacy and learner; simulate it apart"
            )


def chapter_count(slots: int) -> int:
    """Return how many chapters hold that many slots."""
    return -(-slots // SLOTS_PER_CHAPTER)


def draw_chapter(setting: AirSetting, chapter: int, *, noise: bool = True) -> SlotDraws:
    """Draw one chapter of slots (Algorithm 1, lines 5 to 12); it depends on the streams and the chapter alone.

    Without ``noise`` all else is drawn alike and the noise has no symbols.
    """
    scenario = setting.scenario
    streams = Streams(scenario.seed, setting.secret)
    slots = min(SLOTS_PER_CHAPTER, scenario.radio.slots - chapter * SLOTS_PER_CHAPTER)
    scheduled_workers = draw_schedule_of(scenario, streams, chapter, slots)
    channel = generate_channel(
        scenario.radio, setting.worker_path_gain, scheduled_workers, streams.generator("fading", chapter)
    )
    if scenario.radio.schedule == "poisson":
        ratios = presence_of(scenario, streams, chapter, slots) / scenario.radio.scheduled
    else:
        drawn = draw_ratios(scenario.mixing, scenario.radio.scheduled, slots, streams.generator("ratios", chapter))
        dealing = streams.generator("assignment", chapter)
        ratios = assign_ratios(scenario.mixing.assignment, drawn, channel.magnitude, dealing)
    power = control_power(scenario, setting.private_received_watts, ratios, channel.magnitude)
    symbols = setting.signal.symbols if noise else 0
    standard_noise = streams.generator("noise", chapter).standard_normal((slots, symbols), dtype=np.float32)
    return SlotDraws(
        scheduled_workers=scheduled_workers,
        magnitude=channel.magnitude,
        ratios=ratios,
        standard_noise=standard_noise,
        **vars(power),
    )


def draw_ahead(
    setting: AirSetting, *, threads: int = 0, noise: bool = True, chapters: int | None = None
) -> Iterator[SlotDraws]:
    """Yield the chapters in order, a few drawn ahead on other threads (NumPy draws without holding the interpreter).

    0 threads: one per core up to four (more wait for the interpreter). ``chapters``: stop after so many.
    """
    threads = threads or min(4, os.cpu_count() or 1)
    scenario, every = setting.scenario, chapter_count(setting.scenario.radio.slots)
    bytes_per_slot = 5 * 8 * seats_of(scenario) + 4 * setting.signal.symbols
    bytes_per_chapter = min(SLOTS_PER_CHAPTER, scenario.radio.slots) * bytes_per_slot  # roughly
    ahead = max(1, min(2 * threads, _BYTES_AHEAD // bytes_per_chapter))
    pending: deque[Future[SlotDraws]] = deque()
    executor = ThreadPoolExecutor(min(threads, ahead), thread_name_prefix="airmix-draws")
    try:
        for chapter in range(every if chapters is None else min(chapters, every)):
            pending.append(executor.submit(draw_chapter, setting, chapter, noise=noise))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def cut_into_blocks(chapters: Iterator[SlotDraws], block_slots: int) -> Iterator[SlotDraws]:
    """Cut a sequence of chapters into blocks of ``block_slots`` slots; the last may be shorter."""
    waiting: list[SlotDraws] = []
    for chapter in chapters:
        waiting.append(chapter)
        if sum(map(len, waiting)) < block_slots:
            continue
        rest = SlotDraws.joined(waiting)
        while len(rest) >= block_slots:
            yield rest[:block_slots]
            rest = rest[block_slots:]
        waiting = [rest] if len(rest) else []
    if waiting:
        yield SlotDraws.joined(waiting)
