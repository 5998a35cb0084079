"""Cells of a grid: each is what a command gives for one scenario, in memory, as metrics by name.

A metric is a number or word of the command's JSON, with dots between the levels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airmixml.scenario import RunContext, Speed
from airmixml.sweeps.batches import Batch, Failed, Kind, Part, Place, together_or_alone

Metric = float | int | bool | str | None
Metrics = dict[str, Metric]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a command gave for a cell of a grid: metrics by name, numbers and words; None where there is none."""

    metrics: Metrics

    def __post_init__(self) -> None:
        for name, value in self.metrics.items():
            if not isinstance(value, int | float | str | None) or value != value:  # noqa: PLR0124  (NaN)
                raise ValueError(f"{name} = {value!r}: must be a number, a word or nothing")


@dataclass(frozen=True)
class CellKind(Kind):
    """A command whose metrics are swept; each cell is kept by itself."""

    options: ClassVar[tuple[str, ...]] = ()  #: of this command alone
    default_metrics: ClassVar[tuple[str, ...]]  #: that tables show unless asked for others, as far as they are there
    note: ClassVar[str] = ""  #: what a reader of the table must know

    @classmethod
    def of(cls, **_options: Any) -> Self:
        """Return the kind for those options of a command that are its own."""
        return cls()

    @abstractmethod
    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Metrics]:
        """Yield the metrics of each of these cells, which share their draws, in order."""

    def read(self, part: Part, plain: Any) -> Measured:
        """Return what was kept."""
        if not isinstance(plain, dict) or set(plain) != {"metrics"} or not isinstance(plain["metrics"], dict):
            raise ValueError("it must be metrics by name")
        return Measured(metrics=plain["metrics"])

    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Any]]]:
        """Run cells that share their draws; one that is refused gets the refusal as its outcome, and costs no other."""
        done = 0
        # One thread: cells run side by side, and their number must not change what one of them gives.
        device = batch[0].device
        context = RunContext(
            speed=Speed(device=device, threads=1 if device == "cpu" else 0),
            data_dir=place.data_dir,
            progress=place.progress("training", "attacks", finished=lambda: done, of=len(batch)),
        )
        for part, found in together_or_alone([batch], lambda parts: self.measure(parts, context, place)):
            done += 1
            yield part, [found if isinstance(found, Failed) else Measured(metrics=found)]


def flat(values: dict[str, Any], leave_out: Iterable[str] = (), prefix: str = "") -> Metrics:
    """Return the numbers and words of nested dictionaries; lists are left out, and what is no number is None.

    Names in ``leave_out`` are left out, with all that lies below them.
    """
    found: Metrics = {}
    for name, value in values.items():
        if f"{prefix}{name}" in leave_out:
            continue
        if isinstance(value, dict):
            found |= flat(value, leave_out, f"{prefix}{name}.")
        elif isinstance(value, int | float | str) or value is None:
            found[f"{prefix}{name}"] = None if isinstance(value, float) and math.isnan(value) else value
    return found


CellOutcome = Measured | Failed  #: What one cell gave
