"""What an attack is, and what it is given: one setting, whose parts are made once, when the first attack asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.findings import Findings
from airmixml.attacks.public_knowledge import Decoder, Reader, load_held
from airmixml.attacks.server_view import ServerView, watch
from airmixml.data import DataSet
from airmixml.scenario import RunContext, Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What one attack on one setting gave.

    Arrays are kept beside the findings; ``originals`` and ``examples`` (both examples x inputs, in [0, 1]) are drawn.
    """

    findings: Findings
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Attack(Protocol):
    """One way to learn about workers; registered in ``airmixml.doors.ATTACKS`` or by an entry point.

    Attributes:
        about: one line that says how it works.
        adversary: who can do it; its claimed epsilon stands beside what was found.
        findings: class of what it finds, to read back what was kept.
    """

    about: str
    adversary: str
    findings: type[Findings]

    def refusal(self, scenario: Scenario) -> str:
        """Return why the attack does not fit the scenario; empty if it does."""

    def run(self, target: Target) -> Outcome:
        """Attack; an adversary may use what it sees of the target, and the truth only judges what was found."""


@dataclass
class Target:
    """One setting under attack.

    Pictures show the rows ``examples`` of the pool; ``readers`` that were trained already are shared between settings.
    """

    scenario: Scenario
    examples: NDArray[np.int64]
    context: RunContext = field(default_factory=RunContext)
    readers: dict[Any, Reader] = field(default_factory=dict)

    @cached_property
    def held(self) -> DataSet:
        """The data as the workers hold them, not encoded; the test part is public."""
        return load_held(self.scenario, data_dir=self.context.data_dir, progress=self.context.progress)

    @cached_property
    def view(self) -> ServerView:
        """All slots as the server sees them."""
        return watch(self.scenario, context=self.context)

    @cached_property
    def decoder(self) -> Decoder:
        """From what is sent to what is held."""
        return Decoder.learn(self.scenario.workers, self.view.dataset.test_inputs, self.held.test_inputs)

    @property
    def reader(self) -> Reader:
        """Of the class of a recovered sample."""
        workers = self.scenario.workers
        key = (workers.dataset, workers.train_samples, workers.input_lower, workers.input_upper, self.scenario.seed)
        if key not in self.readers:
            self.context.progress("reader", 0, 1)
            self.readers[key] = Reader(self.held.test_inputs, self.held.test_labels, self.scenario.seed)
            self.context.progress("reader", 1, 1)
        return self.readers[key]
