"""Attacks on several processes or machines: each needs only its setting, whose slots every process runs for itself."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.public_knowledge import Reader
from airmixml.attacks.results import Found
from airmixml.attacks.target import Attack, Target
from airmixml.devices import using_threads
from airmixml.doors import ATTACKS
from airmixml.scenario import RunContext, Scenario, Speed

Part = tuple[int, str]
"""Number of a setting, and name of an attack on it."""


def run_attack(name: str, attack: Attack, target: Target) -> Found:
    """Attack, and note how long it took."""
    started = time.perf_counter()
    outcome = attack.run(target)
    seconds = time.perf_counter() - started
    return Found(attack=name, adversary=attack.adversary, seconds=seconds, **vars(outcome))


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """What all parts share; ``examples`` are those of ``Target``."""

    scenarios: Sequence[Scenario]
    examples: NDArray[np.int64]
    speed: Speed
    data_dir: Path | None


def attack_side_by_side(
    parts: Sequence[Part], scenarios: Sequence[Scenario], examples: NDArray[np.int64], context: RunContext
) -> Iterator[tuple[Part, Found]]:
    """Run the attacks on the context's engine and yield each with what it found, as soon as that is there."""
    on_gpu = context.speed.device != "cpu"
    speed = context.speed if on_gpu else replace(context.speed, threads=1)
    settings = Settings(scenarios=scenarios, examples=examples, speed=speed, data_dir=context.data_dir)
    with closing(context.engine.run(prepare_attacks, settings, parts, on_gpu=on_gpu)) as finishing:
        for number, found in finishing:
            yield parts[number], found


def prepare_attacks(settings: Settings) -> Callable[[Part], Found]:
    """Return what attacks a setting; the last setting is kept, since parts of one setting follow each other."""
    context = RunContext(speed=settings.speed, data_dir=settings.data_dir)
    readers: dict[Any, Reader] = {}
    targets: dict[int, Target] = {}

    def attacked(part: Part) -> Found:
        number, name = part
        if number not in targets:
            targets.clear()
            scenario = settings.scenarios[number]
            targets[number] = Target(scenario=scenario, examples=settings.examples, context=context, readers=readers)
        with using_threads(settings.speed.threads):
            return run_attack(name, ATTACKS.load(name), targets[number])

    return attacked
