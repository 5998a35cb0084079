"""All slots of ``paper-mnist``: ours, and what a researcher would write instead.

100,000 slots of 64 out of 60,000 workers, 794 symbols each, with powers and noise. Every mixture is made and dropped,
in every row; samples are in memory, or on the GPU, before the clock starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import numpy as np
import torch
from scipy.sparse import csr_array

from airmixml import Scenario, Speed, simulate_blocks
from airmixml.arrays import db_to_ratio, dbm_to_watts, find_device
from airmixml.data import DataSet
from airmixml.radio import draws, transmission
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of
from airmixml.radio.tally import AirReport
from airmixml.radio.transmission import make_sender
from airmixml.streams import Streams
from airmixml.workers import Population, deploy
from bench_kit import Row, alternately, row, seconds_of
from made_up_digits import made_up_digits

WORK = "all slots of `paper-mnist`"
WORK_ON_GPU = "all slots of `paper-mnist`, one GPU"
PER_SLOT, PER_WORKER = "per-slot NumPy loop", "per-worker Python loop"
SPARSE, BARE = "SciPy CSR products", "bare embedding-bag plus noise (torch)"


@dataclass(frozen=True)
class Task:
    """What a researcher has in hand: plain arrays and numbers, and how many slots to run."""

    samples: np.ndarray  # what each worker sends, pool x symbols, float32
    sample_of_worker: np.ndarray  # which sample each worker holds; workers
    gain: np.ndarray  # |h| of each worker; workers
    scheduled: int
    alpha: float
    received_watts: float  # beta max q^2 that keeps the privacy target
    most_watts: float
    noise_watts: float
    slot_seconds: float
    slots: int

    @classmethod
    def of(cls, scenario: Scenario, dataset: DataSet, population: Population, slots: int) -> Task:
        """Take from the scenario what the loops need."""
        radio = scenario.radio
        one_hot = np.eye(dataset.label_dim, dtype=np.float32)[dataset.train_labels]
        loss = math.sqrt(db_to_ratio(radio.unit_path_loss_db))
        return cls(
            samples=np.hstack([dataset.train_inputs, one_hot]),
            sample_of_worker=population.sample_index,
            gain=loss * population.distance_metres ** (-radio.path_loss_exponent / 2),
            scheduled=radio.scheduled,
            alpha=scenario.mixing.alpha,
            received_watts=private_received_watts(
                scenario, sensitivity_of(scenario, dataset.input_dim, dataset.label_dim)
            ),
            most_watts=dbm_to_watts(radio.max_power_dbm),
            noise_watts=dbm_to_watts(radio.noise_dbm),
            slot_seconds=radio.slot_seconds,
            slots=slots,
        )


def per_slot_loop(task: Task, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Run Algorithm 1 slot by slot in NumPy; return the last mixture and the energy of each worker."""
    prior = np.full(task.scheduled, task.alpha / task.scheduled)
    energy_joules = np.zeros(len(task.gain))
    symbols = task.samples.shape[1]
    for _ in range(task.slots):
        chosen = rng.choice(len(task.gain), task.scheduled, replace=False, shuffle=False)
        ratios = rng.dirichlet(prior)  # exchangeable: no need to shuffle it, or who gets which
        needed = (ratios / task.gain[chosen]) ** 2
        scale_watts = min(task.received_watts / ratios.max() ** 2, task.most_watts / needed.max())
        energy_joules[chosen] += task.slot_seconds * scale_watts * needed
        clean = ratios.astype(np.float32) @ task.samples[task.sample_of_worker[chosen]]
        noise = rng.standard_normal(symbols, dtype=np.float32)
        mixture = clean + np.float32(math.sqrt(task.noise_watts / 2 / scale_watts)) * noise
    return mixture, energy_joules


def per_worker_loop(task: Task, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same with a loop over the workers of a slot, each of which sends its sample with its power."""
    prior = np.full(task.scheduled, task.alpha / task.scheduled)
    energy_joules = np.zeros(len(task.gain))
    symbols = task.samples.shape[1]
    for _ in range(task.slots):
        chosen = rng.choice(len(task.gain), task.scheduled, replace=False, shuffle=False).tolist()
        ratios = rng.dirichlet(prior).tolist()
        needed = [(ratio / task.gain[worker]) ** 2 for ratio, worker in zip(ratios, chosen, strict=True)]
        scale_watts = min(task.received_watts / max(ratios) ** 2, task.most_watts / max(needed))
        received = rng.standard_normal(symbols, dtype=np.float32)
        received *= math.sqrt(task.noise_watts / 2)
        for worker, share in zip(chosen, needed, strict=True):
            power_watts = scale_watts * share
            energy_joules[worker] += task.slot_seconds * power_watts
            amplitude = math.sqrt(power_watts) * task.gain[worker]
            received += np.float32(amplitude) * task.samples[task.sample_of_worker[worker]]
        mixture = received / math.sqrt(scale_watts)
    return mixture, energy_joules


def sparse_products(task: Task, rng: np.random.Generator, block: int = 2048) -> tuple[np.ndarray, np.ndarray]:
    """The same in blocks: everything drawn as arrays, all ratios in a sparse matrix times the samples."""
    prior = np.full(task.scheduled, task.alpha / task.scheduled)
    energy_joules = np.zeros(len(task.gain))
    symbols = task.samples.shape[1]
    for first in range(0, task.slots, block):
        slots = min(block, task.slots - first)
        chosen = _without_repeats(slots, task.scheduled, len(task.gain), rng)
        ratios = rng.dirichlet(prior, size=slots)
        needed = (ratios / task.gain[chosen]) ** 2
        scale_watts = np.minimum(task.received_watts / ratios.max(axis=1) ** 2, task.most_watts / needed.max(axis=1))
        power_watts = scale_watts[:, None] * needed
        energy_joules += task.slot_seconds * np.bincount(chosen.ravel(), power_watts.ravel(), len(task.gain))
        starts = np.arange(0, chosen.size + 1, task.scheduled)
        columns = task.sample_of_worker[chosen.ravel()]
        shares = csr_array((ratios.ravel().astype(np.float32), columns, starts), shape=(slots, len(task.samples)))
        mixtures = shares @ task.samples
        noise = rng.standard_normal((slots, symbols), dtype=np.float32)
        mixtures += np.sqrt(task.noise_watts / 2 / scale_watts).astype(np.float32)[:, None] * noise
    return mixtures[-1], energy_joules


def _without_repeats(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> np.ndarray:
    """Draw workers for all slots at once, and again for slots in which somebody came twice; slots x scheduled."""
    chosen = rng.integers(workers, size=(slots, scheduled))
    again = np.arange(slots)
    while len(again):
        ordered = np.sort(chosen[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        chosen[again] = rng.integers(workers, size=(len(again), scheduled))
    return chosen


def bare_operations(
    table: torch.Tensor, chosen: torch.Tensor, ratios: torch.Tensor, generator: torch.Generator, block: int
) -> None:
    """Mix and make noise, and nothing else: everything is drawn already, and the noise is not even added."""
    for some, shares in zip(torch.split(chosen, block), torch.split(ratios, block), strict=True):
        torch.nn.functional.embedding_bag(some, table, per_sample_weights=shares, mode="sum")
        torch.randn((len(some), table.shape[1]), generator=generator, device=table.device)


class Ours:
    """The slots as a run makes them, with the report that adds up energy, power, SNR and privacy."""

    def __init__(self, scenario: Scenario, dataset: DataSet, population: Population, device: str, threads: int) -> None:
        self.scenario, self.dataset, self.population = scenario, dataset, population
        self.speed = Speed(device=device, threads=threads)
        self.sender = make_sender(scenario, dataset, find_device(device))

    def __call__(self) -> AirReport:
        """Run all slots once."""
        report = AirReport.of(self.scenario, self.dataset, self.population)
        blocks = simulate_blocks(self.scenario, self.dataset, self.population, speed=self.speed, sender=self.sender)
        for block in blocks:
            report.add(block)
        report.energy_joules  # noqa: B018 - a report may put off its sums until somebody asks
        return report


def rows(device: str, quick: bool, *, samples: int = 60_000, slots: int = 0) -> list[Row]:
    slots = slots or (8192 if quick else 100_000)
    scenario = Scenario.preset("paper-mnist").with_overrides(f"radio.slots={slots}")
    dataset = made_up_digits(samples)
    population = deploy(scenario.workers, dataset, Streams(0))
    repeats = 2 if quick else 5
    ours = Ours(scenario, dataset, population, device, threads=0 if device == "cuda" else 2)
    task, rng = Task.of(scenario, dataset, population, slots), np.random.default_rng(0)
    bare = _bare_works(task, device)
    ours()  # warms up kernels and allocators
    for work in bare.values():
        work()
    if device != "cpu":
        best = alternately({"ours": ours, **bare}, repeats=repeats, device=device)
        limit = min(best[name] for name in bare)
        return [row(WORK_ON_GPU, BARE, best["ours"], limit, target={"within": 3.0}), _same_mixtures(scenario, ours)]
    # The loops are run on a part of the slots and scaled: nothing in them depends on how many there are.
    parts = {"slots": slots // 20, "workers": slots // 100, "sparse": slots // 4}
    loops = {
        "slots": partial(per_slot_loop, replace(task, slots=parts["slots"]), rng),
        "workers": partial(per_worker_loop, replace(task, slots=parts["workers"]), rng),
        "sparse": partial(sparse_products, replace(task, slots=parts["sparse"]), rng),
    }
    best = alternately({"ours": ours, **loops, **bare}, repeats=repeats)
    whole = {name: best[name] * slots / part for name, part in parts.items()}
    measured = {name: f"measured on {part:,} slots and scaled" for name, part in parts.items()}
    limit = min(best[name] for name in bare)
    return [
        row(WORK, PER_SLOT, best["ours"], whole["slots"], target={"faster": 6.0}, note=measured["slots"]),
        row(WORK, PER_WORKER, best["ours"], whole["workers"], target={"faster": 15.0}, note=measured["workers"]),
        row(WORK, SPARSE, best["ours"], whole["sparse"], target={"faster": 5.0}, note=measured["sparse"]),
        row(WORK, BARE, best["ours"], limit, target={"within": 1.7}),
        _share_of_checks(ours, repeats),
    ]


def _share_of_checks(ours: Ours, repeats: int) -> Row:
    """Return which part of a slot's time goes into looking for numbers that are not finite, in per cent."""
    spent, checked = 0.0, draws.check_finite

    def timed(stage: str, **made: torch.Tensor) -> None:
        nonlocal spent
        started = time.perf_counter()
        checked(stage, **made)
        spent += time.perf_counter() - started

    shares = []
    with patch.object(draws, "check_finite", timed), patch.object(transmission, "check_finite", timed):
        for _ in range(repeats):
            spent = 0.0
            seconds = ours.speed.threads * seconds_of(ours)  # checks run on every thread
            shares.append(100.0 * spent / seconds)
    against = "its checks for numbers that are not finite, % of the time"
    return row(WORK, against, measured=min(shares), target={"most": 1.0})


def _bare_works(task: Task, device: str) -> dict[str, Callable[[], None]]:
    """Return the bare operations in blocks, and on a GPU also in one piece: whichever is faster is the limit."""
    rng = np.random.default_rng(0)
    chosen = task.sample_of_worker[rng.integers(len(task.gain), size=(task.slots, task.scheduled))]
    ratios = rng.dirichlet(np.full(task.scheduled, task.alpha / task.scheduled), size=task.slots).astype(np.float32)
    on_device = [torch.from_numpy(array).to(device) for array in (task.samples, chosen, ratios)]
    generator = torch.Generator(device).manual_seed(0)
    blocks = (2048,) if device == "cpu" else (2048, task.slots)
    return {f"bare {block}": partial(bare_operations, *on_device, generator, block) for block in blocks}


def _same_mixtures(scenario: Scenario, ours: Ours) -> Row:
    """Return how far the mixtures of the GPU are from those of the CPU, in standard deviations of a mixture."""
    few = scenario.with_overrides(f"radio.slots={min(4096, scenario.radio.slots)}")
    received = []
    for device in ("cpu", ours.speed.device):
        blocks = simulate_blocks(few, ours.dataset, ours.population, speed=Speed(device=device))
        received.append([torch.hstack([block.inputs, block.labels]).cpu() for block in blocks])
    on_cpu, on_gpu = (torch.cat(parts) for parts in received)
    difference = float((on_cpu - on_gpu).abs().max() / on_cpu.std())
    return row(
        "mixtures on the GPU, largest difference",
        "the same on the CPU",
        measured=difference,
        unit="standard deviations of a mixture",
        target={"most": 1e-4},
    )
