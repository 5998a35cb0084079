"""What a review found: nothing that only the workers know may decide what is learned, and declared norms are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError, simulate
from airmixml.radio.schedules import FixedSize
from airmixml.streams import Streams
from airmixml.workers import load_dataset

IRIS = Scenario.preset("private-iris")
COINS = (
    "radio.schedule=poisson",
    "radio.scheduled=20",
    "radio.slots=50",
    "workers.sends=samples",
    "workers.constant=0",
    "privacy.adversary=release",
    "privacy.accountant=pld",
)


@pytest.mark.long
def test_how_many_tossed_heads_does_not_enter_what_is_learned() -> None:
    """The share is (1 - r) / |N_t| of public numbers, whatever the tosses of a seed were."""
    scenario = IRIS.with_overrides(*COINS)
    reports = [simulate(scenario.with_seed(seed)).report for seed in range(3)]
    assert {report.variance_share for report in reports} == {(1 - 20 / 2000) / 20}
    assert len({int(report.ledger.participations.sum()) for report in reports}) == 3


@pytest.mark.parametrize(("scheduled", "workers"), [(4, 50), (50, 50), (1, 7)])
def test_equal_shares_of_a_draw_vary_as_statistics_says(scheduled: int, workers: int) -> None:
    """Mean of n of N without replacement: variance S^2 / n (1 - n / N), S^2 over N - 1; here over that with N."""
    share = FixedSize().varying_share(1 / scheduled, scheduled, workers)
    expected = (1 - scheduled / workers) / scheduled * workers / (workers - 1)
    assert share == pytest.approx(expected, abs=1e-12)


def test_inputs_beyond_the_declared_norm_are_refused() -> None:
    dataset = load_dataset(IRIS.workers, Streams(0))
    long = replace(dataset, train_inputs=np.asarray(3.0 * dataset.train_inputs, dtype=np.float32))
    with pytest.raises(ScenarioError, match=r"squared norm [\d.]+: must be at most 1, which the scenario's encoder"):
        simulate(IRIS, dataset=long)


def test_negative_inputs_are_refused_where_none_is_declared() -> None:
    scenario = IRIS.with_overrides("workers.centre=none")
    dataset = load_dataset(scenario.workers, Streams(0))
    negative = replace(dataset, train_inputs=np.asarray(-dataset.train_inputs, dtype=np.float32))
    with pytest.raises(ScenarioError, match="an input is negative"):
        simulate(scenario, dataset=negative)


@pytest.mark.long
def test_a_run_in_which_nobody_sends_says_so() -> None:
    scenario = IRIS.with_overrides(*COINS, "radio.scheduled=1", "radio.slots=1").with_seed(1)
    with pytest.raises(ScenarioError, match="nobody tossed heads in any slot"):
        simulate(scenario)


def test_the_largest_power_is_that_of_the_mean_s_slot_where_that_is_louder() -> None:
    scenario = IRIS.with_overrides("workers.centre=private", "workers.centre_share=0.9")
    report = simulate(scenario).report
    assert report.centring is not None
    assert report.largest_power_watts == pytest.approx(float(report.centring.power_watts.max()), rel=1e-12, abs=0)


def test_slots_last_at_least_as_long_as_their_symbols_need() -> None:
    """Moments of 5 numbers and 3 classes: 15 + 15 symbols, 30 / 794 ms; a slot of 1 microsecond cannot hold them."""
    short = simulate(IRIS.with_overrides("radio.slot_seconds=1e-6")).report
    assert short.air_seconds == pytest.approx(30 / 794_000, rel=1e-12, abs=0)
    long = simulate(IRIS.with_overrides("radio.slot_seconds=0.01")).report
    assert long.air_seconds == pytest.approx(0.01, rel=1e-12, abs=0)
