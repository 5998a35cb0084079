"""Rounds of gradients under attack: all slots together are heard, and say of a sample what its gradients say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import norm

from airmixml.attacks import Target, watch
from airmixml.attacks.informed import Candidates, server_precision
from airmixml.attacks.inversion import Inversion
from airmixml.attacks.run_attacks import run_attacks
from airmixml.attacks.watched import ServerView
from airmixml.edge import learn
from airmixml.radio.rounds import RoundsOnAir
from airmixml.registries import ATTACKS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import load_dataset, settle

TABLE = settle(Scenario.preset("private-table").with_overrides("learner.rounds=4", "workers.centre=public"))
ALONE = TABLE.with_overrides(
    "workers.sends=gradients", "learner.rounds=0", "learner.descent=adam", "radio.slots=6", "learner.gradient_clip=0.2"
)
PEOPLE = settle(
    Scenario.preset("private-table").with_overrides(
        "learner.rounds=2", "workers.count=40", "workers.holding=size-skewed"
    )
)


@cache
def seen(scenario: Scenario) -> ServerView:
    return watch(scenario)


def sent_by_hand(view: ServerView, number: int, inputs: Any, labels: Any) -> Any:
    """S / C clip(x (p - l)^T) of samples in one round, written out; samples x (features classes)."""
    told, workers = view.rounds[number].told, view.scenario.workers
    scores = inputs @ told.weights + told.biases
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = odds / odds.sum(axis=1, keepdims=True) - np.eye(scores.shape[1])[labels]
    gradients = np.einsum("nd,nc->ndc", inputs, errors).reshape(len(inputs), -1)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    largest = np.sqrt(workers.clip_norm**4 + (workers.label_weight * workers.clip_norm) ** 2)
    return largest / told.clip * gradients * np.minimum(1.0, told.clip / lengths)


@pytest.mark.parametrize("scenario", [TABLE, ALONE], ids=["after moments", "alone"])
def test_what_is_heard_of_candidates_is_that_of_all_slots(scenario: Scenario) -> None:
    """Vectors of the right sample and of decoys in every slot, and the noise of every slot, written out."""
    view = seen(scenario)
    assert len(view.rounds) == (4 if scenario is TABLE else 6)
    found = Candidates(view, np.random.default_rng(0))
    numbers = found.targets["worker"].candidates[0]
    inputs, labels = found.data.train_inputs[numbers].astype(float), found.data.train_labels[numbers]
    worker = int(np.flatnonzero(found.targets["worker"].member == 0)[0])
    half_noise_watts = 10.0 ** (scenario.radio.noise_dbm / 10.0 - 3.0) / 2.0
    expected, precisions = np.zeros((51, 51)), []
    for number, each in enumerate((view, *view.rounds)):
        (precision,) = server_precision(each, np.where(np.arange(379) == worker, 0, -1), 1, Speed())
        precisions.append(precision)
        if number == 0:
            codes = found.data.label_code.coded(labels).astype(float)
            products = [(a @ b) ** 2 + (a @ b) * (c @ d) for a, c in zip(inputs, codes, strict=True)
                        for b, d in zip(inputs, codes, strict=True)]  # fmt: skip
            expected += precision * np.reshape(products, (51, 51)) if precision else 0.0
        else:
            (draws,) = each.draws
            assert precision == pytest.approx(draws.power_scale_watts[0] / 379**2 / half_noise_watts, rel=1e-9)
            vectors = sent_by_hand(view, number - 1, inputs, labels)
            expected += precision * vectors @ vectors.T
    np.testing.assert_allclose(found.products(numbers, np.array(precisions)), expected, rtol=2e-5)
    assert (precisions[0] == 0.0) == (scenario is ALONE)


def test_the_models_are_those_that_a_run_broadcasts(monkeypatch: pytest.MonkeyPatch) -> None:
    told, send = list[Any](), RoundsOnAir.send

    def listen(on_air: RoundsOnAir, model: Any) -> Any:
        told.append(model.weights)
        return send(on_air, model)

    known = [each.told.weights for each in seen(TABLE).rounds]
    monkeypatch.setattr(RoundsOnAir, "send", listen)
    learn(TABLE, dataset=load_dataset(TABLE.workers, Streams(TABLE.seed)))
    np.testing.assert_array_equal(known, told)
    assert not np.array_equal(told[0], told[1])


def test_gradients_of_several_rows_are_shortened_together() -> None:
    view = seen(PEOPLE)
    found, (each, *_) = Candidates(view, np.random.default_rng(0)), view.rounds
    targets = found.targets["person"]
    people = targets.candidates[0][-3:]
    holdings, bound = view.transmission.population.holdings, PEOPLE.workers.rows_bound
    assert holdings is not None
    clip, sums = each.told.clip, []
    for person in people:
        rows = holdings.rows[person][holdings.present[person]]
        inputs = found.data.train_inputs[rows].astype(float)
        errors = each.told.errors(inputs, np.eye(2)[found.data.train_labels[rows]])
        alone = np.linalg.norm(inputs, axis=1) * np.linalg.norm(errors, axis=1)
        total = inputs.T @ (errors * np.minimum(1.0, clip / alone)[:, None])
        sums.append(total.ravel() * min(1.0, bound * clip / np.linalg.norm(total)) / bound * np.sqrt(2.0) / clip)
    assert max(map(len, (np.flatnonzero(holdings.present[person]) for person in people))) > 1
    np.testing.assert_allclose(found.gram(people, each), np.array(sums) @ np.array(sums).T, rtol=2e-5)


@pytest.mark.parametrize("scale", [0.05, 1.0], ids=["below the clip", "above it"])
def test_the_slope_of_the_likelihood_is_its_derivative(scale: float) -> None:
    view, generator = seen(TABLE), np.random.default_rng(1)
    inversion, sample = Inversion(view), view.dataset.train_inputs[3].astype(float)
    residual = inversion.hear(sample, 1, np.array([5.0, 9.0, 1.0, 0.0, 30.0]), generator)
    start = scale * generator.standard_normal((2, len(sample))) / np.sqrt(len(sample))

    def likely(x: Any) -> tuple[Any, Any]:
        return inversion.log_likelihood(x.reshape(start.shape), residual, 4)

    error = check_grad(lambda x: likely(x)[0].sum(), lambda x: likely(x)[1].ravel(), start.ravel())
    assert error < 1e-4 * np.linalg.norm(likely(start)[1])


@pytest.mark.parametrize("scenario", [TABLE, ALONE], ids=["after moments", "alone"])
def test_no_sample_is_likelier_than_the_one_that_inversion_finds(scenario: Scenario) -> None:
    view, generator = seen(scenario), np.random.default_rng(2)
    inversion, rounds = Inversion(view), len(view.rounds)
    for row in range(5):
        sample, label = view.dataset.train_inputs[row].astype(float), int(view.dataset.train_labels[row])
        residual = inversion.hear(sample, label, np.full(rounds + 1, 1e4), generator)
        found, likely = inversion.invert(residual)
        truth = inversion.log_likelihood(np.tile(sample, (2, 1)), residual, rounds)[0][label]
        assert likely.max() > truth - 1.0
        assert likely.argmax() == label
        assert found @ sample / np.linalg.norm(found) / np.linalg.norm(sample) > 0.98


def attacked(scenario: Scenario, names: list[str], folder: Path) -> dict[str, Any]:
    found = run_attacks(settle(scenario), names, folder=folder, context=RunContext(speed=Speed(threads=1)))
    return found.to_dict()


@pytest.mark.long
@pytest.mark.parametrize("scenario", [TABLE, ALONE], ids=["after moments", "alone"])
def test_a_large_epsilon_lets_samples_be_copied_and_a_small_one_does_not(scenario: Scenario, tmp_path: Path) -> None:
    names = ["informed-server", "inversion"]
    loud = attacked(scenario.with_overrides("mixing.power=max"), names, tmp_path / "loud")
    worker, inverted = loud["informed"]["server"]["worker"], loud["other_attacks"]["inversion"]
    assert worker["named"] == worker["hits"] == 1.0
    assert inverted["labels"]["accuracy"] > 0.95
    assert inverted["copied_share"] > 0.8
    assert inverted["explained"] > 0.9
    assert loud["grade"] == inverted["grade"] == "exposed"
    assert any(each["attacker"].endswith("informed") and each["beyond_chance"] for each in loud["measured"])
    quiet = attacked(scenario, names, tmp_path / "quiet")
    worker, inverted = quiet["informed"]["server"]["worker"], quiet["other_attacks"]["inversion"]
    # No mu beyond what epsilon and delta allow (Dong et al. 2022), which gradients longer than the clip attain.
    mu, delta = worker["mu_largest"], quiet["claimed"]["delta"]
    attained = norm.cdf(mu / 2 - 1.0 / mu) - np.e * norm.cdf(-mu / 2 - 1.0 / mu)
    assert attained < 1.01 * delta
    assert attained > (0.9 if scenario is ALONE else 0.0) * delta
    # Phi(mu - 2.33) and e^epsilon / 51 + delta, each with 5 sigma of 2,000 trials.
    assert worker["hits"] < norm.cdf(mu - 2.326) + 5 * np.sqrt(0.023 / 2000)
    assert worker["named"] < np.e / 51 + delta + 5 * np.sqrt(0.053 / 2000)
    assert inverted["copied"] == 0
    assert inverted["explained"] < 0.05
    assert quiet["grade"] == inverted["grade"] == "hidden"


def test_what_looks_for_samples_does_not_fit_gradients_alone() -> None:
    refused = {name: ATTACKS.load(name).refusal(ALONE) for name in ATTACKS.own}
    fits = {name for name, why in refused.items() if not why}
    assert fits == {"informed-server", "informed-release", "informed-eavesdropper", "informed-everyone",
                    "inversion", "inversion-everyone"}  # fmt: skip
    assert "workers send gradients" in refused["prior"]
    some = ALONE.with_overrides("radio.scheduled=50")
    assert "who sent is hidden" in ATTACKS.load("informed-release").refusal(some)
    without = TABLE.with_overrides("learner.rounds=0")
    assert ATTACKS.load("inversion").refusal(without) == "no gradients are sent"
    assert "several rows" in ATTACKS.load("inversion").refusal(PEOPLE)


@pytest.mark.parametrize("adversary", ["release", "eavesdropper", "everyone"])
def test_every_adversary_hears_the_rounds(adversary: str) -> None:
    """Without them the moments have a tenth of mu^2; gradients of the same clip are as long as moments."""
    scenario = ALONE.with_overrides("radio.slots=2", "learner.gradient_clip=0.01")
    noise = ("privacy.noise=masked", "privacy.adversary=everyone") if adversary == "everyone" else ()
    both, one = (
        ATTACKS.load(f"informed-{adversary}").run(Target(scenario=each, examples=np.arange(10))).findings.worker
        for each in (scenario.with_overrides(*noise, f"radio.slots={slots}", "mixing.power=fixed",
                                             "mixing.power_scale_watts=1e-9") for slots in (2, 1))
    )  # fmt: skip
    assert both.mu_median == pytest.approx(np.sqrt(2.0) * one.mu_median, rel=1e-3)


def test_what_is_claimed_includes_the_slot_for_the_mean(tmp_path: Path) -> None:
    scenario = settle(Scenario.preset("private-table").with_overrides("learner.rounds=0"))
    assert scenario.workers.centre_on_air
    found = attacked(scenario, ["informed-server", "informed-eavesdropper"], tmp_path / "mean")
    claimed = found["claimed"]
    assert claimed["delta"] == scenario.privacy.delta
    assert claimed["server"] == pytest.approx(1.0, rel=1e-6)  # the preset's target, of mean and moments together
    # What a receiver near the workers hears of that slot is not accounted for.
    assert claimed["eavesdropper"] is found["claimed_per_row"]["eavesdropper"] is None
