"""One setting, attacked part by part; each finished part is kept, so that an interrupted attack goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.listener import (
    ListenerFindings,
    attack_as_eavesdropper,
    attack_released,
)
from airmixml.attacks.public_knowledge import Decoder, Reader, load_held
from airmixml.attacks.recognition import recognise
from airmixml.attacks.reconstruction import RECONSTRUCTIONS, reconstruct, reconstruction_refusal
from airmixml.attacks.server_view import ServerView, watch
from airmixml.data import DataSet
from airmixml.progress import Progress
from airmixml.scenario import Scenario, Speed
from airmixml.storage.results import ResultStore

LISTENERS: Final = ("release", "eavesdropper")
PARTS: Final = (*RECONSTRUCTIONS, *LISTENERS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What one attack on one setting gave.

    Attributes:
        figures: plain values.
        arrays: examples for the picture, and values of each worker.
    """

    figures: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class PartStore:
    """Finished parts as files: figures and arrays of each in one."""

    def __init__(self, folder: Path) -> None:
        self._store = ResultStore(folder)

    def load(self, case: int, name: str) -> Part | None:
        """Return a finished part; None where there is none, or a damaged one."""
        return self._store.load(
            _file(case, name), lambda figures, arrays: Part(figures=_finite(figures), arrays=arrays)
        )

    def save(self, case: int, name: str, part: Part) -> None:
        """Keep a finished part."""
        self._store.save(_file(case, name), _finite(part.figures), part.arrays)


def _file(case: int, name: str) -> str:
    return f"{case + 1:02d}-{name}.npz"


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures; refuse what is no result."""
    if not isinstance(figures, dict):
        raise ValueError("figures must have names")
    json.dumps(figures, allow_nan=False)  # raises for NaN and infinite ones
    return figures


@dataclass
class Attacker:
    """Attacks one setting; what several parts need is made once, when the first of them asks.

    Attributes:
        scenario: what is attacked.
        examples: rows of the pool that pictures show.
        readers: readers that were trained already, by data set; shared between settings.
    """

    scenario: Scenario
    examples: NDArray[np.int64]
    speed: Speed
    data_dir: Path | None
    progress: Progress
    readers: dict[Any, Reader] = field(default_factory=dict)

    @cached_property
    def _held(self) -> DataSet:
        return load_held(self.scenario, data_dir=self.data_dir, progress=self.progress)

    @property
    def _image_shape(self) -> list[int] | None:
        """As JSON gives it back, so that a part that was kept is like one just made."""
        return None if self._held.image_shape is None else list(self._held.image_shape)

    @cached_property
    def _view(self) -> ServerView:
        return watch(self.scenario, speed=self.speed, data_dir=self.data_dir, progress=self.progress)

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder.learn(self.scenario.workers, self._view.dataset.test_inputs, self._held.test_inputs)

    @property
    def _reader(self) -> Reader:
        workers = self.scenario.workers
        key = (workers.dataset, workers.train_samples, workers.input_lower, workers.input_upper, self.scenario.seed)
        if key not in self.readers:
            self.progress("reader", 0, 1)
            self.readers[key] = Reader(self._held.test_inputs, self._held.test_labels, self.scenario.seed)
            self.progress("reader", 1, 1)
        return self.readers[key]

    def run(self, name: str) -> Part:
        """Run one part."""
        started = time.perf_counter()
        attack: Callable[[str], Part] = self._as_server if name in RECONSTRUCTIONS else self._as_listener
        part = attack(name)
        part.figures["seconds"] = time.perf_counter() - started
        return part

    def _as_server(self, method: str) -> Part:
        view, reader = self._view, self._reader
        found = reconstruct(view, method, progress=self.progress)
        seen = recognise(found, self._held, view.held_index, self._decoder, reader)
        figures = {
            **seen.to_dict(),
            "image_shape": self._image_shape,
            "reader_accuracy": reader.accuracy,
            "iterations": found.iterations,
            "solver_seconds": found.seconds,
        }
        by_worker = {"psnr_db": seen.psnr_db.astype(np.float32), "recognised": seen.recognised}
        if seen.ssim is not None:
            by_worker["ssim"] = seen.ssim.astype(np.float32)
        shown = _holders(self.examples, view.held_index)
        originals = self._held.train_inputs[self.examples]
        return Part(figures=figures, arrays={"originals": originals, "examples": seen.samples[shown], **by_worker})

    def _as_listener(self, name: str) -> Part:
        self.progress(name, 0, 1)
        found: ListenerFindings
        if name == "release":
            found, heard = attack_released(self._view, self._decoder), None
        else:
            heard, found = attack_as_eavesdropper(self._view, self._decoder, speed=self.speed)
        self.progress(name, 1, 1)
        figures = {**found.to_dict(), "image_shape": self._image_shape}
        if heard is not None:
            figures["beside_worker"] = heard.listener.beside_worker
        originals = self._held.train_inputs[found.example_index]
        return Part(figures=figures, arrays={"originals": originals, "examples": found.examples})


def part_refusal(name: str, scenario: Scenario) -> str:
    """Return why an attack does not fit a scenario; empty if it does."""
    return reconstruction_refusal(name, scenario.workers) if name in RECONSTRUCTIONS else ""


def _holders(samples: NDArray[np.int64], held_index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each row of the pool, the first worker that holds it; shape samples."""
    order = np.argsort(held_index, kind="stable")
    return np.asarray(order[np.searchsorted(held_index, samples, sorter=order)])
