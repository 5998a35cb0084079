"""What a sweep is cut into: scenarios of one seed that are simulated and trained side by side."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from airmixml.data import KnownDataSet, known_dataset
from airmixml.doors import DATASETS
from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario
from airmixml.version import __version__
from airmixml.workers import encoded_dim

Kind = Literal["training", "energy"]
"""Whether a network is trained on the mixtures, or only the energy of sending them is added up."""

# Mixtures are held twice: as simulated and stacked, then stacked and shuffled.
_COPIES: Final = 2
_BYTES_AT_ONCE: Final = {"cpu": 1_500_000_000, "cuda": 26_000_000_000}
_MOST_AT_ONCE: Final = 64


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Scenarios that are run together: one data set, one seed, one learner.

    What a batch gives depends on nothing but the batch and the kind of device: not on the number of jobs, the engine,
    or which other batches there are. So it is what a sweep keeps.
    """

    kind: Kind
    scenarios: tuple[Scenario, ...]
    device: str = "cpu"

    @property
    def digest(self) -> str:
        """Name of the batch: equal for equal work."""
        content = {
            "kind": self.kind,
            "scenarios": [scenario.to_dict() for scenario in self.scenarios],
            "device": self.device.partition(":")[0],
            "airmixml": __version__,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def work(self) -> int:
        """How long it takes, roughly, in units that only compare batches."""
        first = self.scenarios[0]
        known: KnownDataSet = DATASETS.load(first.workers.dataset)
        per_slot = first.radio.scheduled if self.kind == "energy" else first.learner.epochs * known.input_dim
        return len(self.scenarios) * first.radio.slots * per_slot

    @property
    def bytes_needed(self) -> int:
        """Memory that its mixtures take, roughly; little where none are kept."""
        return 0 if self.kind == "energy" else len(self.scenarios) * _mixture_bytes(self.scenarios[0])

    @property
    def seed(self) -> int:
        """The seed of all its scenarios."""
        return self.scenarios[0].seed

    @property
    def on_gpu(self) -> bool:
        """Whether it is computed on a GPU."""
        return self.device.startswith("cuda")


def cut_into_batches(scenarios: Sequence[Scenario], kind: Kind, *, device: str = "cpu") -> list[Batch]:
    """Cut scenarios into batches that fit into memory, each of one seed, data set and learner; equal ones run once."""
    groups: dict[object, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        _check(scenario, kind)
        groups.setdefault((scenario.seed, scenario.workers, scenario.learner), []).append(scenario)
    batches = []
    for alike in groups.values():
        whole = Batch(kind=kind, scenarios=tuple(alike), device=device if kind == "training" else "cpu")
        size = len(alike)
        if kind == "training":
            room = _BYTES_AT_ONCE["cuda" if whole.on_gpu else "cpu"]
            size = max(1, min(_MOST_AT_ONCE, room // _mixture_bytes(alike[0])))
        parts = (whole.scenarios[start : start + size] for start in range(0, len(alike), size))
        batches += [replace(whole, scenarios=part) for part in parts]
    return batches


def _check(scenario: Scenario, kind: Kind) -> None:
    """Refuse what is not of a known size, and for training what is not a network on the data as they were loaded."""
    if known_dataset(scenario.workers.dataset) is None:
        raise ScenarioError(
            f"workers.dataset = {scenario.workers.dataset!r}: a sweep needs one of {', '.join(DATASETS.names)}"
        )
    if kind == "energy":
        return
    if scenario.learner.closed_form:
        raise ScenarioError(
            f"learner.model = {scenario.learner.model!r}: a sweep trains networks; run each scenario by itself"
        )
    if scenario.workers.centre == "private":
        raise ScenarioError('workers.centre = "private": each target has data of its own; run each scenario by itself')


def _mixture_bytes(scenario: Scenario) -> int:
    known: KnownDataSet = DATASETS.load(scenario.workers.dataset)
    inputs = encoded_dim(scenario.workers, known.input_dim)
    return 4 * _COPIES * scenario.radio.slots * (inputs + known.label_dim)
