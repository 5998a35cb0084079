"""One real run with many canaries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.audit import Audit
from airmixml.audit.canaries import AlteredPayload
from airmixml.audit.faults import SOUND, fault_named
from airmixml.audit.one_run import OneRun, canaries_that_fit, run_with_canaries
from airmixml.scenario import RunContext, Speed
from airmixml.streams import Streams
from airmixml.workers import Signal, load_dataset
from airmixml.workers.payloads import Payload

Audited = Callable[..., Audit]
PRIVATE = ("workers.dataset=digits", "workers.count=1300", "workers.train_samples=1300", "privacy.delta=1e-6")
SERVER = ("privacy.adversary=server", "privacy.accountant=gdp", "privacy.epsilon=20", "privacy.sensitivity=encoder")


def one_run(*overrides: str, adjacency: str = "replace-one", told: bool = True, fault: str = "") -> OneRun:
    scenario = Scenario.preset("paper-iris").with_overrides(*PRIVATE, *SERVER, "radio.slots=200", *overrides)
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    broken = fault_named(fault) if fault else SOUND
    return run_with_canaries(scenario, dataset, 65, adjacency=adjacency, told=told, fault=broken, context=RunContext())


def separation(run: OneRun) -> float:
    """How many deviations apart the scores of heads and tails are."""
    heads, tails = run.scores[run.coins], run.scores[~run.coins]
    return float((heads.mean() - tails.mean()) / np.sqrt((heads.var() + tails.var()) / 2))


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_the_server_tells_many_coins(adjacency: str) -> None:
    # A worker sends in 1.2 of 200 slots here, and epsilon = 20 is for the one with the most.
    sound = one_run(adjacency=adjacency)
    assert 20 < sound.coins.sum() < 45
    assert separation(sound) > 0.4
    # Twice the signal of all others, which the adversary reckons with once, hides as much as it shows.
    assert separation(one_run(adjacency=adjacency, fault="half-noise")) > 1.2 * separation(sound)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_the_server_tells_coins_from_one_sum_of_moments(adjacency: str) -> None:
    """At epsilon = 20 heads and tails lie about mu = 3 deviations apart, less what pairs of canaries do not use."""
    everybody = ("radio.slots=1", "radio.scheduled=1300", "mixing.policy=equalmix", f"privacy.adjacency={adjacency}")
    moments = ("workers.sends=moments", "workers.encoder=clip", "learner.model=ridge")
    found = one_run(*moments, *everybody, adjacency=adjacency)
    assert 1.0 < separation(found) < 4.5


def test_the_release_tells_fewer(audited: Audited) -> None:
    loud = ("radio.slots=2000", "mixing.power=max", "radio.scheduled=1")
    assert abs(separation(one_run(told=False))) < separation(one_run(told=True))
    assert separation(one_run(*loud, told=False)) > 0.5


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("slots", [100, 300])
def test_blocks_of_any_size_give_the_same(slots: int, told: bool) -> None:
    overrides = (*PRIVATE, *SERVER, f"radio.slots={slots}", "mixing.alpha=1")
    scenario = Scenario.preset("paper-iris").with_overrides(*overrides)
    dataset = load_dataset(scenario.workers, Streams(0))
    scores = [
        run_with_canaries(
            scenario,
            dataset,
            30,
            adjacency="replace-one",
            told=told,
            fault=SOUND,
            context=RunContext(speed=speed),
        ).scores
        for speed in (Speed(), Speed(block_slots=37, threads=1))
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3, atol=1e-3 * np.abs(scores[0]).max())


def test_a_silent_canary_sends_nothing() -> None:
    class Ones(Payload):
        signal, norm = Signal(features=1, classes=0), 1.0

        def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, *_: object) -> torch.Tensor:
            return (weights * (1.0 + index)).sum(dim=1, keepdim=True)

    quiet = AlteredPayload(Ones(), audible=torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    mixed = quiet.weighted_sum(torch.tensor([[0, 1], [1, 2]]), torch.full((2, 2), 0.5, dtype=torch.float64))
    assert mixed.flatten().tolist() == [0.5, 1.5]


def test_how_many_canaries_fit() -> None:
    assert canaries_that_fit(100, 2000, 7) == (100, "")
    assert canaries_that_fit(1000, 2000, 7) == (100, "100 canaries, not 1,000: one worker in twenty")
    assert canaries_that_fit(1000, 60_000, 535_040)[0] == 93
    assert canaries_that_fit(1000, 100, 7)[0] == 0
    assert "fewer than 10" in canaries_that_fit(1000, 100, 7)[1]
    assert canaries_that_fit(5, 2000, 7) == (0, "5 canaries; fewer than 10 say nothing")
    assert canaries_that_fit(0, 2000, 7) == (0, "none asked for")


def test_a_large_delta_leaves_it_out(audited: Audited) -> None:
    with_run, without = (audited("paper-iris", adversary="server", canaries=canaries) for canaries in (100, 0))
    assert with_run.bounds[-1].epsilon is None
    assert "guesses right" in with_run.bounds[-1].detail
    assert "left out: at a delta of 0.01 its p-value is never below 0.03" in with_run.bounds[-1].detail
    assert with_run.bounds[-1].detail.endswith("and its share of the failure probability is 0.0125")
    # Then it takes no share of the confidence.
    assert with_run.bounds[:-1] == without.bounds[:-1]


def test_a_large_delta_and_confidence_to_spare(audited: Audited) -> None:
    # The release has one other method, so that half of 10 % is left for the run, and its least p-value is below 4 %.
    audit = audited("paper-iris", adversary="release", canaries=100, confidence=0.9)
    assert audit.bounds[-1].epsilon is not None
    assert "of 100 guesses right" in audit.bounds[-1].detail
    both = audited("paper-iris", adversary="release", canaries=100, confidence=0.9, adversaries=("release", "server"))
    assert both.bounds[-1].epsilon is None
    assert both.failure == pytest.approx(audit.failure / 2) == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
@pytest.mark.parametrize("adversary", ["server", "release"])
def test_within_an_audit(adversary: str, adjacency: str, audited: Audited) -> None:
    overrides = ("privacy.delta=1e-6", "privacy.epsilon=20", "workers.encoder=clip")
    audit = audited("paper-iris", *overrides, adversary=adversary, adjacency=adjacency, trials=2000, canaries=1000)
    bound = audit.bounds[-1]
    assert bound.method == "one run"
    if (adversary, adjacency) == ("release", "remove-one"):  # another worker takes the seat of a removed one
        assert (bound.epsilon, audit.one_run) == (None, None)
        return
    assert bound.epsilon is not None
    assert audit.one_run is not None
    assert len(audit.one_run.coins) == 100
    assert not audit.caught
    if adversary == "server":
        assert bound.epsilon > 0.3
