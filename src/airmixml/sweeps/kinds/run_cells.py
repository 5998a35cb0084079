"""Cells of ``airmix run``: those that share their draws are sent at once, and each learns what it would learn alone."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from airmixml.data import DataSet, known_dataset
from airmixml.registries import ADVERSARIES
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.streams import Streams
from airmixml.sweeps.batches import Part, Place, mixture_bytes, most_in_memory
from airmixml.sweeps.kinds.cells import CellKind, Metrics, fields_of, flat

if TYPE_CHECKING:
    from airmixml.runs.results import RunResult

_MOST_IN_CLOSED_FORM: Final = 16  # each holds only its moments
# What is no result, what has a name of its own here, and what has many numbers.
_LEFT_OUT: Final = (
    *("name", "seed", "air", "privacy", "row_privacy", "row_statements", "versions", "run_dir", "device"),
    "ledger.histogram",
)
_STATED: Final = ("delta", "adversary", "adjacency", "accountant")


@dataclass(frozen=True)
class RunCells(CellKind):
    """Runs scenarios."""

    name: ClassVar[str] = "run"
    default_metrics: ClassVar[tuple[str, ...]] = (
        *("accuracy.final", "scores.r2", "scores.rmse", "scores.labels_right"),  # by the task
        *("epsilon", "epsilon_server", "energy_joules", "snr_db"),
    )
    open_names: ClassVar[tuple[str, ...]] = ("scores.",)

    def group(self, scenario: Scenario) -> Hashable:
        """Return what decides the draws; a mean that is estimated over the air depends on the target."""
        from airmixml.radio.draws import draws_key

        closed_form = scenario.learner.closed_form
        return scenario if scenario.workers.centre_on_air else (draws_key(scenario), closed_form)

    def most_at_once(self, scenario: Scenario, device: str) -> int:
        """Return how many have room at once; 1 for networks on data of unknown size."""
        if scenario.learner.closed_form:
            return _MOST_IN_CLOSED_FORM
        return 1 if known_dataset(scenario.workers.dataset) is None else most_in_memory(scenario, device)

    def bytes_needed(self, part: Part) -> int:
        """Return the memory of the mixtures of a network on data of known size."""
        (scenario,) = part.scenarios
        sized = not scenario.learner.closed_form and known_dataset(scenario.workers.dataset) is not None
        return mixture_bytes(scenario) if sized else 0

    def metric_names(self) -> Iterator[str]:
        """Return the fields of a run's result, and the epsilon against each adversary."""
        from airmixml.runs.results import RunResult

        yield from fields_of(RunResult, _LEFT_OUT)
        yield from (*_STATED, "epsilon_row", *(f"epsilon_{name}" for name in ADVERSARIES.names))

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Metrics]:
        """Send all at once, then learn one after the other."""
        import torch

        from airmixml.edge.training import learn_family
        from airmixml.runs.experiment import result_of

        first, scenarios = parts[0], [part.scenarios[0] for part in parts]
        made_with = f"{first.device} torch {torch.__version__}"
        checkpoints = [place.checkpoint(part, made_with) for part in parts]
        began = time.perf_counter()
        dataset = _dataset(scenarios[0].workers, scenarios[0].seed, first.data, place.data_dir, first.device)
        loading_seconds = (time.perf_counter() - began) / len(parts)
        for learned in learn_family(scenarios, dataset=dataset, context=context, checkpoints=checkpoints):
            seconds = loading_seconds + learned.over_the_air_seconds + learned.training_seconds
            yield run_metrics(result_of(learned, seconds=seconds, device=first.device))


@lru_cache(maxsize=1)
def _dataset(workers: Workers, seed: int, _digest: str, data_dir: Path | None, device: str) -> DataSet:
    """Return the encoded data; the last are kept, since the cells of one seed follow each other."""
    from airmixml.workers import load_dataset

    return load_dataset(workers, Streams(seed), data_dir=data_dir, device=device)


def run_metrics(result: RunResult) -> Metrics:
    """Return the metrics of a run.

    ``epsilon`` is the scenario's own statement. ``epsilon_ADVERSARY`` is the least that any accountant states against
    that adversary, for the same neighbours and delta; ``epsilon_row`` holds for a row of data on several workers.
    """
    own = result.privacy[0]
    found = flat(result.to_dict(), _LEFT_OUT)
    found |= {"epsilon": own.epsilon, **{name: getattr(own, name) for name in _STATED}}
    for stated in result.privacy:
        if (stated.adjacency, stated.delta) == (own.adjacency, own.delta):
            name = f"epsilon_{stated.adversary}"
            known = found.get(name)
            found[name] = min(stated.epsilon, known) if isinstance(known, float) else stated.epsilon
    if result.row_privacy is not None:
        found["epsilon_row"] = result.row_privacy.epsilon
    return found
