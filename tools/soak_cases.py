"""What a soak runs: presets, channel profiles, seeds and changed keys, drawn at random or listed.

What a key may be comes from the rules of the scenario's tables; which numbers are usual, from presets and profiles.
"""

from __future__ import annotations

import itertools
import math
import random
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml import AirMixError, Scenario
from airmixml.registries import DATASETS
from airmixml.scenario import AIR_PRESETS
from airmixml.scenario.rules import Choice, Items, Real, Rule, Whole
from airmixml.scenario.tables import TABLES
from airmixml.scenario.toml import preset_names

SIMULATION, PRIVATE, RESUME = "simulation", "private", "resume"
KINDS: Final = {SIMULATION: 5, PRIVATE: 3, RESUME: 2}  # with the weight of each
SMALL: Final = {
    "workers.count": 400,
    "workers.train_samples": 400,
    "workers.features": 64,
    "radio.slots": 60,
    "radio.scheduled": 400,
    "link.access_points": 4,
    "learner.epochs": 3,
    "learner.rounds": 3,
}
"""The largest values of keys that decide how long a run takes; at full size they are the preset's."""

_TABLES_OF_DATA: Final = tuple(name for name in DATASETS.own if DATASETS.load(name).train_samples < 10_000)
_LARGEST_LAYER: Final = 64
_USUAL: Final = (1.0,)  # where no preset and no profile says more than 0
_ATTEMPTS: Final = 50
_SHARE_REFUSED: Final = 0.2  # of the changes that the tables refuse, which are drawn again otherwise


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run, with all that decides it."""

    kind: str
    preset: str
    air: str
    seed: int
    size: str
    device: str = "cpu"
    threads: int = 1
    assignments: tuple[str, ...] = ()
    killed_at: float = 0.5  #: share of its time after which a run that is to be resumed is killed

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its command."""
        chosen = ("run", "--preset", self.preset, "--air", self.air, "--seed", str(self.seed))
        changed = tuple(word for each in self.assignments for word in ("--set", each))
        where = ("--threads", str(self.threads)) if self.device == "cpu" else ("--device", self.device)
        return (*chosen, *changed, *(("--private", "--public-test") if self.kind == PRIVATE else ()), *where)

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return shlex.join(("airmix", *self.words))

    @property
    def identity(self) -> str:
        """What no other case has."""
        return f"{self.kind}: {self.command}"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What cases are drawn from, or listed of."""

    presets: tuple[str, ...] = tuple(preset_names())
    airs: tuple[str, ...] = tuple(AIR_PRESETS)
    seeds: tuple[int, ...] = ()
    sizes: tuple[str, ...] = ("small",)
    kinds: tuple[str, ...] = tuple(KINDS)
    device: str = "cpu"
    threads: int = 1
    most_changes: int = 4
    folder: Path = Path("runs/soak")

    def listed(self) -> Iterator[Case]:
        """Yield every preset on every profile with every seed as it is, one seed after the other."""
        for kind, size, seed, air, preset in itertools.product(
            self.kinds, self.sizes, self.seeds, self.airs, self.presets
        ):
            yield Case(
                kind=kind,
                preset=preset,
                air=air,
                seed=seed,
                size=size,
                device=self.device,
                threads=self.threads,
                assignments=shrunk(preset) if size == "small" else (),
            )

    def drawn(self, seed: int) -> Iterator[Case]:
        """Yield cases without end, the same ones for the same seed."""
        return (self.draw(random.Random(f"{seed} {number}")) for number in itertools.count())

    def draw(self, source: random.Random) -> Case:
        """Return a case with up to ``most_changes`` keys changed."""
        kind = source.choices(self.kinds, [KINDS[each] for each in self.kinds])[0]
        preset, air = source.choice(self.presets), source.choice(self.airs)
        size = source.choice(self.sizes)
        base = shrunk(preset) if size == "small" else ()
        if kind == PRIVATE and Scenario.preset(preset).workers.dataset in _without_images() and source.random() < 0.5:
            base = (*base, *own_table(source, self.folder))
        changes = source.randint(0, self.most_changes)
        return Case(
            kind=kind,
            preset=preset,
            air=air,
            seed=source.choice(self.seeds) if self.seeds else source.randrange(10_000),
            size=size,
            device=self.device,
            threads=self.threads,
            assignments=(*base, *_changes(source, preset, air, base, changes, size)),
            killed_at=source.random(),
        )


def numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers of a list such as 0-3,7."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


@lru_cache
def shrunk(preset: str) -> tuple[str, ...]:
    """Return the assignments that make a preset small."""
    scenario = Scenario.preset(preset)
    found = {}
    for name, most in SMALL.items():
        value = _value(scenario, name)
        if value == "auto" or value > most or (name == "workers.train_samples" and value == 0 and _is_large(scenario)):
            found[name] = most
    count = found.get("workers.count", scenario.workers.count)
    if count and scenario.radio.scheduled > count:
        found["radio.scheduled"] = count
    return tuple(f"{name}={value}" for name, value in found.items())


def _is_large(scenario: Scenario) -> bool:
    return bool(DATASETS.load(scenario.workers.dataset).train_samples > SMALL["workers.train_samples"])


def own_table(source: random.Random, folder: Path) -> tuple[str, ...]:
    """Write a CSV file of made-up rows, unless it is there, and return the assignments that use it."""
    number, columns, classes = source.randrange(4), source.choice((2, 5, 12)), source.choice((2, 3))
    path, names = folder / "data" / f"rows-{number}-{columns}-{classes}.csv", "abc"[:classes]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(number)
        labels = values.integers(classes, size=600)
        rows = values.normal(labels[:, None], 1.0, (600, columns)).clip(-3, 5).round(3)
        lines = [",".join(f"x{column}" for column in range(columns)) + ",class"]
        lines += [",".join(map(str, row)) + f",{names[label]}" for row, label in zip(rows, labels, strict=True)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    declared = (f"workers.classes={list(names)}".replace("'", '"'), "workers.input_lower=[-3]")
    return (f"workers.dataset={path}", "workers.label_column=class", *declared, "workers.input_upper=[5]")


@lru_cache
def _without_images() -> tuple[str, ...]:
    return tuple(name for name in _TABLES_OF_DATA if not DATASETS.load(name).image_shape)


def _value(scenario: Scenario, name: str) -> Any:
    table, _, key = name.partition(".")
    return getattr(getattr(scenario, table), key)


@lru_cache
def _usual_values() -> dict[str, tuple[Any, ...]]:
    """Return what presets, on every profile, have of each key."""
    found: dict[str, dict[Any, None]] = {}
    for preset, air in itertools.product(preset_names(), AIR_PRESETS):
        scenario = Scenario.preset(preset).on_air(air)
        for table, kind in TABLES.items():
            for entry in fields(kind):
                name = f"{table}.{entry.name}"
                found.setdefault(name, {})[_value(scenario, name)] = None
    return {name: tuple(values) for name, values in found.items()}


@lru_cache
def drawable_keys() -> dict[str, tuple[Rule, Callable[[random.Random, str], Any]]]:
    """Return every key that a value can be drawn of, with its rule and how to draw."""
    found: dict[str, tuple[Rule, Callable[[random.Random, str], Any]]] = {}
    for table, kind in TABLES.items():
        for entry in fields(kind):
            name, rule = f"{table}.{entry.name}", entry.metadata["rule"]
            if name == "air.preset":  # is chosen for every case
                continue
            usual = _usual_values()[name]
            if name == "workers.dataset":
                found[name] = rule, lambda source, _size: source.choice(_TABLES_OF_DATA)
            elif isinstance(rule, Choice):
                words = (*rule.options, *rule.also)
                if len(words) > 1:
                    found[name] = rule, lambda source, _size, words=words: source.choice(words)
            elif isinstance(rule, Whole):
                found[name] = rule, lambda source, size, name=name, rule=rule: _whole(source, name, rule, size)
            elif isinstance(rule, Real):
                found[name] = rule, lambda source, _size, rule=rule, usual=usual: _real(source, rule, usual)
            elif isinstance(rule, Items) and isinstance(rule.rule, Whole) and any(usual):
                found[name] = (
                    rule,
                    lambda source, _size, rule=rule: [
                        source.randint(max(1, rule.rule.low), _LARGEST_LAYER)
                        for _ in range(source.randint(rule.least, 3))
                    ],
                )
    return found


def _whole(source: random.Random, name: str, rule: Whole, size: str) -> Any:
    """Return a whole number near those of presets and profiles, the least allowed, or one between."""
    if rule.auto and source.random() < 0.2:
        return "auto"
    usual = [value for value in _usual_values()[name] if isinstance(value, int) and value > 0] or [4]
    most = min(rule.high, SMALL.get(name, 10**9) if size == "small" else max(usual) if name in SMALL else 10**9)
    kind = source.random()
    if kind < 0.2:
        return rule.low
    if kind < 0.4:
        return source.randint(rule.low, min(most, 4 * max(usual)))
    return max(rule.low, min(most, round(source.choice(usual) * 2.0 ** source.uniform(-2.0, 2.0))))


def _real(source: random.Random, rule: Real, usual: Sequence[float]) -> float:
    """Return a number near those of presets and profiles, an end of the range, "off", or one between."""
    known = [value for value in usual if math.isfinite(value) and value] or list(_USUAL)
    kind = source.random()
    if kind < 0.1:
        return float(source.choice([each for each in (rule.low, rule.high, rule.off, 0.0) if each is not None]))
    if kind < 0.3 and rule.low > -1e4 and rule.high < 1e4:
        return round(source.uniform(rule.low, rule.high), 4)
    near = source.choice(known)
    decibels = near < 0 or rule.low < 0
    value = near + source.uniform(-20.0, 20.0) if decibels else near * 10.0 ** source.uniform(-1.0, 1.0)
    return float(f"{min(max(value, rule.low), rule.high):.4g}")


def _changes(
    source: random.Random, preset: str, air: str, base: tuple[str, ...], count: int, size: str
) -> tuple[str, ...]:
    """Return assignments of so many keys; each value is legal, and most go together."""
    keys = drawable_keys()
    for _ in range(_ATTEMPTS):
        chosen: dict[str, Any] = {}
        while len(chosen) < count:
            table = source.choice(list(TABLES))
            name = source.choice([each for each in keys if each.startswith(f"{table}.")])
            rule, draw = keys[name]
            value = draw(source, size)
            try:
                rule.check(name, value)
            except AirMixError:
                continue
            if not (name == "workers.dataset" and any(each.startswith("workers.dataset=") for each in base)):
                chosen[name] = value
        assignments = tuple(f"{name}={value}" for name, value in chosen.items())
        try:
            Scenario.preset(preset).on_air(air).with_overrides(*base, *assignments)
        except AirMixError:
            if source.random() > _SHARE_REFUSED:
                continue
        return assignments
    return ()
