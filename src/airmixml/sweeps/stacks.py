"""Many scenarios of one seed at once: their energy, or their networks trained as one stack; for the paper's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from airmixml.errors import ScenarioError
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.storage.files import from_plain
from airmixml.streams import Streams
from airmixml.sweeps import batches
from airmixml.sweeps.batches import Batch, Failed, Kind, Part, Place, Result, dimensions, together_or_alone


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What sending a scenario's mixtures took of all workers."""

    energy_joules: float

    def __post_init__(self) -> None:
        if not self.energy_joules >= 0.0:
            raise ValueError(f"energy_joules = {self.energy_joules}")


@dataclass(frozen=True, kw_only=True)
class Trained(Sent):
    """What sending took, and the network that was trained on what was received."""

    curve: tuple[float, ...]  #: accuracy on the clean test set after each epoch

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.curve or not all(0.0 <= accuracy <= 1.0 for accuracy in self.curve):
            raise ValueError("curve must be accuracies from 0 to 1")

    @property
    def final_accuracy(self) -> float:
        """Accuracy after the last epoch: the figure to trust."""
        return self.curve[-1]

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the best epoch. It is picked on the test set, so it flatters."""
        return max(self.curve)


@dataclass(frozen=True)
class Energies(Kind):
    """Adds up the energy of sending; no data are needed."""

    name: ClassVar[str] = "energy"
    stacked: ClassVar[bool] = True
    needs_data: ClassVar[bool] = False

    def check(self, scenario: Scenario) -> None:
        dimensions(scenario)  # refuses data of unknown size

    def group(self, scenario: Scenario) -> Hashable:
        return scenario.seed, scenario.workers, scenario.learner

    def most_at_once(self, scenario: Scenario, device: str) -> int:
        return 1 << 30  # no mixtures are held

    def read(self, part: Part, plain: Any) -> Sent:
        found: Sent = from_plain(Sent, plain)
        return found

    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Any]]]:
        from airmixml.radio.tally import rehearse_family

        (part,) = batch
        input_dim, label_dim = dimensions(part.scenarios[0])
        rehearse = partial(rehearse_family, input_dim=input_dim, label_dim=label_dim)
        outcomes: dict[int, Sent | Failed] = {}
        for number, tally in _by_shared_draws(part.scenarios, rehearse):
            outcomes[number] = tally if isinstance(tally, Failed) else Sent(energy_joules=tally.energy_joules)
            place.tell(len(outcomes) / len(part.scenarios))
        yield part, _in_order(outcomes)


@dataclass(frozen=True)
class Trainings(Energies):
    """Trains a network on the mixtures of each scenario, all of them as one stack."""

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

    def most_at_once(self, scenario: Scenario, device: str) -> int:
        return batches.most_in_memory(scenario, device)

    def bytes_needed(self, part: Part) -> int:
        return len(part.scenarios) * batches.mixture_bytes(part.scenarios[0])

    def read(self, part: Part, plain: Any) -> Trained:
        found: Trained = from_plain(Trained, plain)
        epochs = part.scenarios[0].learner.epochs
        if len(found.curve) != epochs:
            raise ValueError(f"curve must have {epochs} epochs")
        return found

    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Any]]]:
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
        outcomes: dict[int, Trained | Failed] = {n: each for n, each in sent.items() if isinstance(each, Failed)}
        simulated = {n: each for n, each in sent.items() if not isinstance(each, Failed)}
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
                outcomes[number] = Failed(error="training: the loss stopped being a number; the mixtures are too noisy")
                continue
            outcomes[number] = Trained(curve=tuple(history.test_accuracy), energy_joules=report.energy_joules)
        yield part, _in_order(outcomes)


def _in_order(outcomes: dict[int, Any]) -> list[Any]:
    return [outcomes[number] for number in sorted(outcomes)]


def _by_shared_draws(
    scenarios: Sequence[Scenario], run: Callable[[list[Scenario]], list[Result]]
) -> Iterator[tuple[int, Result | Failed]]:
    """Run scenarios that share their draws together; yield the number of each with its result."""
    from airmixml.radio.draws import draws_key

    shared: dict[tuple[object, ...], list[int]] = {}
    for number, scenario in enumerate(scenarios):
        shared.setdefault(draws_key(scenario), []).append(number)
    return together_or_alone(shared.values(), lambda members: run([scenarios[member] for member in members]))
