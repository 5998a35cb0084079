"""Many scenarios of one seed at once: their energy, or their networks trained as one stack; for the paper's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from airmixml.errors import AirMixError, ScenarioError
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Streams
from airmixml.sweeps.batches import Batch, Kind, Outcome, Part, Place, dimensions, may_be_mended
from airmixml.wording import one_line


@dataclass(frozen=True)
class Energies(Kind):
    """Adds up the energy of sending (``energy_joules``, of all workers); no data are needed."""

    name: ClassVar[str] = "energy"
    stacked: ClassVar[bool] = True
    needs_data: ClassVar[bool] = False

    def check(self, scenario: Scenario) -> None:
        dimensions(scenario)  # refuses data of unknown size

    def group(self, scenario: Scenario) -> Hashable:
        return scenario.seed, scenario.workers, scenario.learner

    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Outcome]]]:
        from airmixml.radio.tally import rehearse_family

        (part,) = batch
        input_dim, label_dim = dimensions(part.scenarios[0])
        rehearse = partial(rehearse_family, input_dim=input_dim, label_dim=label_dim)
        outcomes: dict[int, Outcome] = {}
        for number, tally in _by_shared_draws(part.scenarios, rehearse):
            outcomes[number] = tally if isinstance(tally, dict) else {"energy_joules": tally.energy_joules}
            place.tell(len(outcomes) / len(part.scenarios))
        yield part, _in_order(outcomes)


@dataclass(frozen=True)
class Trainings(Energies):
    """Trains a network on the mixtures of each scenario, all of them as one stack.

    ``curve`` is the accuracy on the clean test set after each epoch.
    """

    name: ClassVar[str] = "training"
    needs_data: ClassVar[bool] = True

    def check(self, scenario: Scenario) -> None:
        super().check(scenario)
        workers, learner = scenario.workers, scenario.learner
        if learner.closed_form:
            raise ScenarioError(
                f"learner.model = {learner.model!r}: a sweep trains networks; run each scenario by itself"
            )
        if workers.centre_on_air:
            raise ScenarioError(
                f"workers.centre = {workers.centre!r}: each target has data of its own; run each scenario by itself"
            )

    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Outcome]]]:
        import torch

        from airmixml.edge import train_stack
        from airmixml.radio.transmission import simulate_family
        from airmixml.workers import load_dataset

        (part,) = batch
        first = part.scenarios[0]
        # One thread: more would not help small networks, and their number must not change what a batch gives.
        speed = Speed(device=part.device, threads=1 if part.device == "cpu" else 0)
        dataset = load_dataset(first.workers, Streams(first.seed), data_dir=place.data_dir, device=speed.device)
        simulate = partial(simulate_family, dataset=dataset, context=RunContext(speed=speed))
        sent: dict[int, Any] = dict(_by_shared_draws(part.scenarios, simulate))
        outcomes: dict[int, Outcome] = {n: each for n, each in sent.items() if isinstance(each, dict)}
        simulated = {n: each for n, each in sent.items() if not isinstance(each, dict)}
        sent.clear()
        if not simulated:
            yield part, _in_order(outcomes)
            return
        checkpoint = place.checkpoint(part, f"{part.digest} {part.device} torch {torch.__version__}")
        reports = {number: mixtures.report for number, mixtures in simulated.items()}
        inputs = torch.stack([mixtures.inputs for mixtures in simulated.values()])
        labels = torch.stack([mixtures.labels for mixtures in simulated.values()])
        simulated.clear()  # what is stacked need not be held twice
        histories = train_stack(
            first.learner,
            dataset,
            inputs,
            labels,
            seed=first.seed,
            speed=speed,
            progress=place.progress("training"),
            checkpoint=checkpoint,
        )
        for (number, report), history in zip(reports.items(), histories, strict=True):
            if not all(map(math.isfinite, history.loss)):
                why = "training: the loss stopped being a number; the mixtures are too noisy"
                outcomes[number] = {"error": why}
                continue
            outcomes[number] = {"energy_joules": report.energy_joules, "curve": list(history.test_accuracy)}
        yield part, _in_order(outcomes)


def _in_order(outcomes: dict[int, Outcome]) -> list[Outcome]:
    return [outcomes[number] for number in sorted(outcomes)]


def _by_shared_draws(
    scenarios: Sequence[Scenario], run: Callable[[list[Scenario]], list[Any]]
) -> Iterator[tuple[int, Any]]:
    """Run scenarios that share their draws together; yield the number of each with its result.

    Where one is refused, the others are run alone, and its result is the error. What is not of a scenario's making, and
    may be mended, is raised: the same command tries again.
    """
    from airmixml.radio.draws import draws_key

    shared: dict[tuple[object, ...], list[int]] = {}
    for number, scenario in enumerate(scenarios):
        shared.setdefault(draws_key(scenario), []).append(number)
    waiting = list(shared.values())
    while waiting:
        numbers = waiting.pop(0)
        try:
            yield from zip(numbers, run([scenarios[number] for number in numbers]), strict=True)
        except AirMixError as problem:
            if may_be_mended(problem):
                raise
            if len(numbers) > 1:
                waiting[:0] = [[number] for number in numbers]
            else:
                yield numbers[0], {"error": one_line(str(problem))}
