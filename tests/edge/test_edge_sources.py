"""Learning from sums that were received: of a simulation's own sums it is what the simulation learns."""

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.edge import Received, TrainedModel, learn, learn_from
from airmixml.messages import ScenarioError
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.transmission import open_air, simulate_blocks
from airmixml.scenario import RunContext
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset
from airmixml.workers.payloads import Broadcast

TABLE = Scenario.preset("private-table").settled(379, 30).with_overrides("learner.rounds=0")
SAMPLES = ("workers.centre=none", "workers.sends=samples", "workers.label_code=one-hot", "radio.scheduled=20")


class Simulated:
    """Hands out what a simulation's server receives, slot by slot, and nothing else of it."""

    def __init__(self, scenario: Scenario, dataset: DataSet) -> None:
        population = deploy(scenario.workers, dataset, Streams(scenario.seed))
        self._scenario = scenario
        self._on_air: RoundsOnAir | None = None
        if scenario.workers.sends == "gradients":
            self._on_air = RoundsOnAir.alone(open_air([scenario], dataset, population, RunContext()), RunContext())
            return
        if scenario.learner.rounds:
            sent = learn(scenario, dataset=dataset, population=population).transmission
            sent.rounds.clear()
            self._on_air = RoundsOnAir.of(sent, RunContext())
        (self._block,) = simulate_blocks(scenario, dataset, population)

    def slot(self, number: int) -> Received:
        block, scenario = self._block, self._scenario
        variance = float(block.noise_variance[number])
        labels = scenario.workers.label_weight * block.labels[number]
        mean = torch.cat([block.inputs[number], labels]).numpy()
        return Received(mean, variance, 1.0 / float(block.drawn.ratios[number].square().sum()))

    def round(self, number: int, told: Broadcast) -> Received:
        assert self._on_air is not None
        assert number == self._on_air.done
        received = self._on_air.send(told)
        unit = self._on_air.payload.unit
        return Received(received.gradient.mT.flatten().numpy() * unit, (received.deviation * unit) ** 2, 379)


def learned_from(scenario: Scenario, dataset: DataSet, source: Simulated) -> TrainedModel:
    """Learn from all slots, then from one round more each time, as long as there is a model to broadcast."""
    moments = scenario.workers.sends != "gradients"
    slots = [source.slot(number) for number in range(scenario.radio.slots)] if moments else []
    rounds: list[Received] = []
    while True:
        found, wanted = learn_from(scenario, dataset, slots, rounds)
        if wanted is None:
            return found
        rounds.append(source.round(len(rounds), wanted))


@pytest.mark.parametrize(
    "changes",
    [
        ("workers.centre=public",),
        ("workers.centre=public", "learner.rounds=4"),
        ("workers.centre=public", "privacy.noise=masked", "privacy.adversary=everyone", "privacy.arithmetic=integers"),
        (*SAMPLES, "radio.slots=60"),
        (*SAMPLES, "radio.slots=40", "learner.model=mlp", "learner.epochs=3", "learner.hidden_units=8"),
        ("workers.centre=public", "workers.sends=gradients", "workers.label_code=one-hot", "radio.slots=3",
         "learner.descent=adam"),
    ],
)  # fmt: skip
def test_a_simulations_own_sums_give_its_model(changes: tuple[str, ...]) -> None:
    scenario = TABLE.with_overrides(*changes)
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    expected = learn(scenario, dataset=dataset).trained
    found = learned_from(scenario, dataset, Simulated(scenario, dataset))
    for one, other in zip(found.model.parameters(), expected.model.parameters(), strict=True):
        assert one.detach().numpy() == pytest.approx(other.detach().numpy(), rel=1e-4, abs=1e-6)
    assert found.history.test_accuracy == pytest.approx(expected.history.test_accuracy)


@pytest.mark.parametrize("mean", [np.zeros(7), np.full(31 * 32 // 2 + 62, np.nan)])
def test_sums_of_another_length_or_that_are_not_finite_are_refused(mean: np.ndarray) -> None:
    scenario = TABLE.with_overrides("workers.centre=public")
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    with pytest.raises(ScenarioError, match=f"slot 0: has {len(mean)} numbers; must have the 558 .* finite"):
        learn_from(scenario, dataset, [Received(mean, 0.0, 379)])


def test_a_mean_that_only_a_simulation_averages_is_refused() -> None:
    dataset = load_dataset(TABLE.workers, Streams(TABLE.seed))
    with pytest.raises(ScenarioError, match=r"workers\.centre = \"(private|refined)\": must be"):
        learn_from(TABLE, dataset, [Received(np.zeros(558), 0.0, 379)])
