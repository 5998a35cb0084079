"""Attacks without a schedule, at both ends: one worker at a time at full power, and noise alone."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from levels_for_tests import level_of
from scipy.stats import mannwhitneyu

from airmixml.attacks.eavesdropper import overhear
from airmixml.attacks.listener_attacks import EAVESDROPPER, RELEASE, PublicSamples, candidates_of
from airmixml.attacks.target import Outcome, Target
from airmixml.attacks.watched import watch
from airmixml.scenario import Scenario
from airmixml.workers import settle

DIGITS = Scenario.preset("digits").with_overrides("workers.count=200", "radio.slots=300")
ALONE = DIGITS.with_overrides("mixing.policy=nonmix", "radio.scheduled=1", "radio.noise_dbm=-160")
NOISY = DIGITS.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-30")
IRIS = Scenario.preset("paper-iris").with_overrides("workers.count=40", "mixing.power=max", "radio.scheduled=2")
MOMENTS = Scenario.preset("private-iris").with_overrides(
    "workers.count=30", "radio.scheduled=3", "radio.slots=120", "mixing.power=max"
)


def target_of(scenario: Scenario) -> Target:
    return Target(scenario=scenario, examples=np.zeros(0, dtype=np.int64))


def plain(found: Outcome) -> dict[str, Any]:
    """The figures, as strict JSON reads them back."""
    figures: dict[str, Any] = json.loads(json.dumps(found.findings.to_dict(), allow_nan=False))
    return figures


def samples_shown(found: Outcome, target: Target) -> list[frozenset[int]]:
    """Of each example the rows of the pool that look like it, some of which workers must hold."""
    held = set(target.view.held_index.tolist())
    pool = target.held.train_inputs
    rows = [
        frozenset(np.flatnonzero((pool == original).all(axis=1)).tolist()) for original in found.arrays["originals"]
    ]
    assert all(row & held for row in rows)
    assert len(rows) == len(found.arrays["examples"])
    return rows


def test_one_worker_at_a_time_at_full_power_is_seen_as_it_is() -> None:
    target = target_of(ALONE)
    found = RELEASE.run(target)
    figures = plain(found)
    assert figures["clearest_slots"]["identified"] == figures["clearest_slots"]["looked_at"] == 10
    assert figures["clearest_slots"]["p_value"] == pytest.approx(len(set(target.view.held_index.tolist())) ** -10.0)
    assert figures["linkage"]["auc"] > 0.85  # those never scheduled cannot be told
    assert level_of(found.findings) == "exposed"
    # What is shown is what those workers hold.
    np.testing.assert_allclose(found.arrays["examples"], found.arrays["originals"], atol=0.02)
    assert len(samples_shown(found, target)) == 10


def test_an_eavesdropper_of_one_worker_at_a_time_identifies_it() -> None:
    found = EAVESDROPPER.run(target_of(ALONE))
    assert plain(found)["clearest_slots"]["identified"] == 10
    assert level_of(found.findings) == "exposed"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_noise_gives_what_chance_gives(seed: int) -> None:
    for found in (
        RELEASE.run(target_of(NOISY.with_seed(seed))),
        EAVESDROPPER.run(target_of(NOISY.with_seed(seed).with_overrides("privacy.eavesdropper_noise_dbm=100"))),
    ):
        figures = plain(found)
        assert figures["clearest_slots"]["p_value"] > 1e-3
        linkage = figures["linkage"]
        assert abs(linkage["auc"] - 0.5) < 5 * linkage["auc_chance_deviation"]
        assert level_of(found.findings) == ""


@pytest.mark.parametrize("slots", [1, 2, 51])
@pytest.mark.parametrize("scenario", [DIGITS, IRIS, MOMENTS], ids=["digits", "iris", "moments"])
@pytest.mark.filterwarnings("error")
def test_few_slots(scenario: Scenario, slots: int) -> None:
    few = target_of(scenario.with_overrides(f"radio.slots={slots}"))
    for attack in (RELEASE, EAVESDROPPER):
        figures = plain(attack.run(few))
        assert 1 <= figures["clearest_slots"]["looked_at"] <= 10


def test_one_worker() -> None:
    alone = target_of(IRIS.with_overrides("workers.count=1", "radio.scheduled=1", "radio.slots=60"))
    for attack in (RELEASE, EAVESDROPPER):
        figures = plain(attack.run(alone))
        assert figures["linkage"]["private_candidates"] == 1
        assert figures["clearest_slots"]["p_value"] == 1.0  # there is but one to choose from


def test_moments_are_looked_at_class_by_class() -> None:
    target = target_of(MOMENTS.with_overrides("radio.noise_dbm=-200"))
    found, view = RELEASE.run(target), target.view
    assert view.released.shape == (120 * 3, 5)  # four numbers and the constant
    # Row 3 t + c is the sum of shares times inputs over the slot's workers of class c.
    inputs, labels = view.dataset.train_inputs[view.held_index], view.dataset.train_labels[view.held_index]
    draws = view.draws[0]
    for slot in range(20):
        for number in range(3):
            expected = sum(
                ratio * inputs[worker] * (labels[worker] == number)
                for worker, ratio in zip(draws.scheduled_workers[slot], draws.ratios[slot], strict=True)
            )
            np.testing.assert_allclose(view.released[3 * slot + number].numpy(), expected, atol=1e-4)
    # Rows of a class that nobody in the slot has hold no sample.
    assert len(samples_shown(found, target)) == 10
    plain(found)


def test_slots_in_which_nobody_sent_are_never_shown() -> None:
    scenario = IRIS.with_overrides(
        "radio.schedule=poisson", "radio.scheduled=1", "radio.slots=12", "mixing.policy=equalmix", "mixing.power=fixed",
        "mixing.power_scale_watts=1e-20",
    )  # fmt: skip
    target = target_of(scenario)
    silent = sum(int((draws.ratios.sum(axis=1) == 0).sum()) for draws in target.view.draws)
    assert silent >= 3
    for attack in (RELEASE, EAVESDROPPER):
        shown = samples_shown(attack.run(target), target)
        assert 1 <= len(set(shown)) == len(shown) <= min(10, 12 - silent)


def test_decoys_are_held_by_nobody() -> None:
    view = watch(DIGITS)
    everyone = np.unique(view.held_index)
    pool = view.dataset.train_inputs
    # Of a pool of 1,300 too few are left, so they are public ones, none of which teaches what samples are like.
    public = PublicSamples.of(view.dataset, everyone, 2000)
    np.testing.assert_array_equal(public.decoys, view.dataset.test_inputs[1::2])
    np.testing.assert_array_equal(public.inputs, view.dataset.test_inputs[::2])
    np.testing.assert_array_equal(public.decoy_labels, view.dataset.test_labels[1::2])
    # With fewer asked for, they come from the pool.
    decoys = PublicSamples.of(view.dataset, everyone, 500).decoys
    assert len(decoys) == len(pool) - len(everyone)
    rows = {row.tobytes() for row in pool[everyone]}
    free = [row for row in decoys if row.tobytes() not in rows]
    assert len(free) >= len(decoys) - 2  # two of the digits may be the same picture
    candidates = candidates_of(everyone, 0, 500)
    assert set(candidates.tolist()) <= set(everyone.tolist())
    assert len(set(candidates.tolist())) == len(candidates) == len(everyone)


def test_most_slots_are_left_alone_where_there_are_too_many() -> None:
    target = target_of(ALONE)
    short = replace(EAVESDROPPER, hear=partial(overhear, most_slots=60))
    for attack in (RELEASE, short):
        few = replace(attack, slots_compared=40, candidates=30, pairs_compared=0)
        figures = plain(few.run(target))
        assert figures["linkage"]["private_candidates"] == 30
        assert figures["linkage"]["public_candidates"] == 30
        assert figures["clearest_slots"]["identified"] >= 8


def test_the_clearest_slots_are_those_with_the_least_noise_for_their_signal() -> None:
    """At maximum power under fading most slots are noise; the farthest from the mean are the noisiest of all."""
    scenario = Scenario.preset("digits").with_overrides(
        "mixing.policy=nonmix", "radio.fading=rayleigh", "radio.noise_dbm=-42", "radio.slots=2500"
    )
    target = target_of(scenario)
    found, weights = RELEASE.run(target), target.view.weights
    assert plain(found)["clearest_slots"]["identified"] >= 6  # of ten
    assert len(set(samples_shown(found, target))) == 10  # ten different samples, not one ten times
    assert weights.max() > 100.0 * np.median(weights)


def test_who_stands_beside_a_worker_names_it_in_its_slots() -> None:
    scenario = Scenario.preset("digits").with_overrides(
        "workers.count=400",
        "radio.slots=500",
        "radio.scheduled=16",
        "mixing.policy=equalmix",
        "privacy.eavesdropper_distance_metres=2",
    )
    close = target_of(scenario)
    beside = plain(EAVESDROPPER.run(close))["beside"]
    assert beside["looked_at"] >= 5  # 500 x 16 / 400 slots are its own, about
    assert beside["identified"] >= 0.8 * beside["looked_at"]
    assert plain(RELEASE.run(close))["beside"] is None


def test_samples_that_are_compared_with_do_not_decide_how_they_are_compared() -> None:
    """In noise alone the rank sums of held samples and decoys are those of a random order, also with two slots."""
    loud = Scenario.preset("private-table").with_overrides("privacy.eavesdropper_noise_dbm=100")
    deviations = []
    for seed in range(4):
        arrays = EAVESDROPPER.run(target_of(settle(loud.with_seed(seed)))).arrays
        held, decoys = arrays["held_scores"], arrays["decoy_scores"]
        chance = np.sqrt((len(held) + len(decoys) + 1) / (12 * len(held) * len(decoys)))
        deviations.append((mannwhitneyu(held, decoys).statistic / (len(held) * len(decoys)) - 0.5) / chance)
    assert abs(np.mean(deviations)) < 1.5  # of four independent ones: three standard deviations
