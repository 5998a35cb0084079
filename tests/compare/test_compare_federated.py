"""Federated learning over the air: its gradients, its noise, and what its noise promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from airmixml import Scenario
from airmixml.compare import Work, load_methods
from airmixml.compare.baselines.federated import (
    clipped_network_gradient_sum,
    network_multiply_accumulates,
    round_noise,
)
from airmixml.compare.baselines.rounds import plan_rounds
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Population, deploy

NORM = 0.7


def samples(count: int = 12, dim: int = 5, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.linspace(0.0, 1.5, count)[:, None] * torch.randn((count, dim), generator=generator)
    return inputs, torch.nn.functional.one_hot(torch.arange(count) % classes, classes).float()


def autograd_sum(
    model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor, limit: float
) -> tuple[torch.Tensor, int]:
    """The sum by torch's own gradients, one sample at a time, and how many were shortened."""
    total, shortened = torch.zeros(sum(p.numel() for p in model.parameters())), 0
    for sample, label in zip(inputs, labels, strict=True):
        loss = torch.nn.functional.cross_entropy(model(sample[None]), label[None])
        gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])
        length = float(gradient.norm())
        shortened += length > limit
        total += gradient * min(1.0, limit / length)
    return total, shortened


def population_of(scenario: Scenario) -> Population:
    return deploy(scenario.workers, 100, Streams(scenario.seed))


def exact_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Thm. 8, with scipy's normal distribution."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


class TestGradients:
    def test_network_gradients_equal_per_sample_autograd(self) -> None:
        inputs, labels = samples()
        network = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
        expected, shortened = autograd_sum(network, inputs, labels, NORM)
        assert shortened > 0
        total = clipped_network_gradient_sum(network, inputs, labels, NORM)
        torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-5)

    def test_multiply_accumulates_of_a_small_network(self) -> None:
        network = torch.nn.Sequential(
            torch.nn.Unflatten(1, (1, 6, 6)), torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(32, 3)
        )
        assert network_multiply_accumulates(network, 36) == 2 * 9 * 16 + 32 * 3


class TestRounds:
    @pytest.mark.parametrize(("adjacency", "move"), [("remove-one", 1.0), ("replace-one", 2.0)])
    def test_the_noise_keeps_the_target_and_no_more_than_that(self, adjacency: str, move: float) -> None:
        scenario = Scenario.preset("private-iris").with_overrides(f"privacy.adjacency={adjacency}")
        rounds = plan_rounds(scenario, population_of(scenario), rounds=40, scheduled=2000, symbols=15, norm=NORM)
        on_the_sum = 2000 * rounds.noise_deviation
        mu = math.sqrt(float(((move * NORM / on_the_sum) ** 2).sum()))
        privacy = scenario.privacy
        assert exact_delta(mu, privacy.epsilon) <= privacy.delta * (1 + 1e-9)
        assert exact_delta(1.001 * mu, privacy.epsilon) > privacy.delta
        assert rounds.state(adjacency).epsilon == pytest.approx(privacy.epsilon, rel=1e-6)

    def test_the_other_neighbours_are_stated_too(self) -> None:
        scenario = Scenario.preset("private-iris")
        rounds = plan_rounds(scenario, population_of(scenario), rounds=40, scheduled=2000, symbols=15, norm=NORM)
        mu = math.sqrt(float(((2 * NORM / (2000 * rounds.noise_deviation)) ** 2).sum()))
        epsilon = rounds.state("replace-one").epsilon
        assert exact_delta(mu, epsilon) == pytest.approx(scenario.privacy.delta, rel=1e-6)

    def test_energy_is_power_over_path_gain_and_symbol_rate(self) -> None:
        scenario = Scenario.preset("private-iris")
        people = population_of(scenario)
        rounds = plan_rounds(scenario, people, rounds=40, scheduled=2000, symbols=15, norm=NORM)
        gain = 10 ** (-3.2) / people.distance_metres**2
        expected = 40 * rounds.received_watts[0] / gain * NORM**2 / SYMBOLS_PER_SECOND
        np.testing.assert_allclose(rounds.worker_energy_joules, expected, rtol=1e-9)

    def test_the_power_limit_binds_for_the_farthest_worker(self) -> None:
        scenario = Scenario.preset("private-iris").with_overrides("radio.max_power_dbm=-60")
        people = population_of(scenario)
        rounds = plan_rounds(scenario, people, rounds=4, scheduled=2000, symbols=15, norm=NORM)
        gain = 10 ** (-3.2) / people.distance_metres**2
        sent = rounds.received_watts[0] / gain
        assert sent.max() == pytest.approx(dbm_to_watts(-60.0), rel=1e-9)
        assert rounds.state("remove-one").epsilon < scenario.privacy.epsilon

    def test_sampled_rounds_compose_the_worst_worker(self) -> None:
        scenario = Scenario.preset("private-iris")
        rounds = plan_rounds(scenario, population_of(scenario), rounds=30, scheduled=200, symbols=15, norm=NORM)
        times = np.bincount(rounds.schedule.ravel(), minlength=2000)
        assert times.max() == 3  # 30 rounds of a tenth of the workers, nobody more often than needed
        mu = math.sqrt(3) * NORM / (200 * rounds.noise_deviation[0])
        assert exact_delta(mu, rounds.state("remove-one").epsilon) == pytest.approx(scenario.privacy.delta, rel=1e-6)

    def test_the_noise_has_the_planned_deviation(self) -> None:
        scenario = Scenario.preset("private-iris")
        rounds = plan_rounds(scenario, population_of(scenario), rounds=3, scheduled=2000, symbols=15, norm=NORM)
        drawn = torch.stack(list(round_noise(rounds, 20_000, Work(scenario=scenario))))
        ratio = drawn.std(dim=1).numpy() / rounds.noise_deviation
        assert np.all((ratio > 0.95) & (ratio < 1.05))
        assert abs(float(np.corrcoef(drawn.numpy())[0, 1])) < 0.05  # another draw every round


def test_learning_on_iris_beats_guessing_and_noise_hurts() -> None:
    scenario = Scenario.preset("private-iris")
    (federated,) = load_methods("federated").values()
    accuracies = []
    for epsilon in (5.0, 1e-3):
        asked = scenario.with_overrides(f"privacy.epsilon={epsilon}", "privacy.delta=1e-9")
        accuracies.append(federated.run(Work(scenario=asked)).accuracy)
    assert accuracies[0] > 0.85
    assert accuracies[1] < 0.85
