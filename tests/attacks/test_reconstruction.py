"""What the server recovers: everything at full power, the closed-form error under noise, and nothing at no power."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.covariance import LedoitWolf

from airmixml.arrays import dbm_to_watts
from airmixml.attacks.server_attacks import (
    RECONSTRUCTIONS,
    Reconstruction,
    peak_signal_to_noise_db,
    reconstruct,
)
from airmixml.attacks.watched import ServerView, watch
from airmixml.messages import ScenarioError
from airmixml.scenario import Scenario

Floats = np.ndarray[Any, np.dtype[np.float64]]
IRIS = Scenario.preset("paper-iris").with_overrides("workers.count=40", "radio.slots=160", "radio.scheduled=4")
LOUD = IRIS.with_overrides("mixing.power=max", "mixing.alpha=1")
DIGITS = Scenario.preset("digits").with_overrides("workers.count=100", "radio.slots=300")
CLIP = ("workers.encoder=clip", "privacy.sensitivity=encoder")
MOMENTS = Scenario.preset("private-iris").with_overrides(
    "workers.count=30",
    "radio.scheduled=3",
    "radio.slots=120",
    "mixing.policy=dirmix",
    "mixing.alpha=1",
    "mixing.power=max",
)
POISSON = ("radio.schedule=poisson", "mixing.policy=equalmix", "mixing.power=fixed", "mixing.power_scale_watts=1e-9")


def originals_of(view: ServerView) -> tuple[Any, Any]:
    return view.dataset.train_inputs[view.held_index], view.dataset.train_labels[view.held_index]


def dense_of(view: ServerView) -> Floats:
    """Shares written out from the draws; slots x workers."""
    shares = np.zeros((view.matrix.slots, view.matrix.workers))
    first = 0
    for draws in view.draws:
        for slot, (workers, ratios) in enumerate(zip(draws.scheduled_workers, draws.ratios, strict=True)):
            for worker, ratio in zip(workers, ratios, strict=True):
                shares[first + slot, worker] += ratio
        first += len(draws)
    return shares


def right_labels(found: Reconstruction, labels: Any) -> float:
    return float((found.labels.argmax(axis=1) == labels).mean())


@pytest.mark.parametrize(
    ("scenario", "least_db"),
    [
        pytest.param(LOUD, 50.0, id="iris"),
        pytest.param(DIGITS, 50.0, id="digits"),
        pytest.param(LOUD.with_overrides(*CLIP, "workers.label_weight=0.2"), 50.0, id="clip"),
        pytest.param(LOUD.with_overrides("radio.fading=rayleigh", "mixing.assignment=max-min"), 40.0, id="fading"),
        pytest.param(LOUD.with_overrides(*POISSON), 40.0, id="poisson"),
        pytest.param(MOMENTS, 50.0, id="moments"),
    ],
)
def test_more_slots_than_workers_at_full_power_shows_everything(scenario: Scenario, least_db: float) -> None:
    view = watch(scenario)
    inputs, labels = originals_of(view)
    for method in RECONSTRUCTIONS:
        if method == "non-negative" and scenario.workers.sends == "moments":
            continue
        found = reconstruct(view, method)
        psnr_db = peak_signal_to_noise_db(inputs, found.inputs)
        assert np.median(psnr_db) > least_db
        assert psnr_db.min() > 20.0
        assert right_labels(found, labels) == 1.0


def test_the_worker_heard_worst_is_found_as_well_as_a_dense_solver_finds_it() -> None:
    view = watch(Scenario.preset("digits").with_overrides("workers.count=300", "radio.slots=450"))
    assert view.matrix.heard.max() > 1e3 * view.matrix.heard.min()
    root = np.sqrt(view.weights)[:, None]
    exact = np.linalg.lstsq(dense_of(view) * root, view.received.double().numpy() * root, rcond=None)[0]
    inputs, _ = originals_of(view)
    ours = peak_signal_to_noise_db(inputs, reconstruct(view, "least-squares").inputs)
    theirs = peak_signal_to_noise_db(inputs, exact[:, : view.dataset.input_dim].astype(np.float32))
    assert ours.min() == pytest.approx(theirs.min(), abs=1.0)
    assert np.median(ours) == pytest.approx(np.median(theirs), abs=0.5)


def test_mixtures_and_weights_are_those_of_the_model() -> None:
    view = watch(LOUD)
    inputs, labels = originals_of(view)
    sent = np.concatenate([inputs, np.eye(3)[labels]], axis=1)
    away = view.received.double().numpy() - dense_of(view) @ sent
    beta = np.concatenate([draws.power_scale_watts for draws in view.draws])
    np.testing.assert_allclose(view.weights, beta / (dbm_to_watts(-114.0) / 2))
    standard = away * np.sqrt(view.weights)[:, None]  # 160 x 7 standard normal values
    assert standard.std() == pytest.approx(1.0, abs=5 / np.sqrt(2 * standard.size))
    assert abs(standard.mean()) < 5 / np.sqrt(standard.size)


def test_the_error_of_least_squares_is_the_closed_form() -> None:
    view = watch(DIGITS.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-13", "mixing.alpha=10"))
    found = reconstruct(view, "least-squares")
    inputs, labels = originals_of(view)
    weighted = dense_of(view) * np.sqrt(view.weights)[:, None]
    variance = np.diag(np.linalg.inv(weighted.T @ weighted))
    errors = np.concatenate([found.inputs - inputs, found.labels - np.eye(10)[labels]], axis=1)
    standard = errors / np.sqrt(variance)[:, None]
    # Every worker's 74 numbers have their own noise: a mean of 74 squares, each of mean 1 and variance 2.
    by_worker = np.square(standard).mean(axis=1)
    assert np.abs(by_worker - 1.0).max() < 5 * np.sqrt(2 / 74)
    # Over all workers the squares hang together; columns do not.
    by_column = np.square(standard).mean(axis=0)
    assert by_column.mean() == pytest.approx(1.0, abs=5 * by_column.std() / np.sqrt(74))
    assert abs(standard.mean(axis=0).mean()) < 5 * standard.mean(axis=0).std() / np.sqrt(74)


@pytest.mark.parametrize("slots", [60, 15])
@pytest.mark.parametrize("watts", [1e-14, 1e-12])
def test_the_prior_gives_the_posterior_mean(slots: int, watts: float) -> None:
    view = watch(
        IRIS.with_overrides(
            f"radio.slots={slots}", "workers.count=20", "mixing.power=fixed", f"mixing.power_scale_watts={watts}"
        )
    )
    public = np.concatenate([view.dataset.test_inputs, np.eye(3)[view.dataset.test_labels]], axis=1)
    model = LedoitWolf().fit(public)
    values, directions = np.linalg.eigh(model.covariance_)
    # Labels add up to 1, so one direction has next to no variance: the covariance of all workers' numbers together.
    covariance = np.kron(np.eye(20), directions * np.maximum(values, 0.0) @ directions.T)
    design = np.kron(dense_of(view) * np.sqrt(view.weights)[:, None], np.eye(7))
    received = (view.received.double().numpy() * np.sqrt(view.weights)[:, None]).ravel()
    mean = np.tile(model.location_, 20)
    gain = covariance @ design.T @ np.linalg.inv(design @ covariance @ design.T + np.eye(len(design)))
    expected = (mean + gain @ (received - design @ mean)).reshape(20, 7)
    found = reconstruct(view, "prior")
    numbers = np.concatenate([found.inputs, found.labels], axis=1)
    np.testing.assert_allclose(numbers, expected, atol=2e-3)


@pytest.mark.parametrize("slots", [300, 60])
def test_the_prior_is_best_under_noise(slots: int) -> None:
    view = watch(DIGITS.with_overrides(f"radio.slots={slots}", "mixing.power=fixed", "mixing.power_scale_watts=3e-14"))
    inputs, _ = originals_of(view)
    errors = {method: np.square(reconstruct(view, method).inputs - inputs).mean() for method in RECONSTRUCTIONS}
    assert errors["prior"] < errors["non-negative"] < errors["least-squares"]
    assert errors["prior"] < np.square(view.dataset.test_inputs.mean(axis=0) - inputs).mean()


def test_fewer_slots_than_workers_is_the_solution_nearest_to_the_public_mean() -> None:
    view = watch(LOUD.with_overrides("radio.slots=25"))
    public = np.concatenate([view.dataset.test_inputs, np.eye(3)[view.dataset.test_labels]], axis=1).mean(axis=0)
    root = np.sqrt(view.weights)[:, None]
    shares = dense_of(view)
    surplus = view.received.double().numpy() - shares.sum(axis=1, keepdims=True) * public
    expected = public + np.linalg.pinv(shares * root) @ (surplus * root)
    found = reconstruct(view, "least-squares")
    numbers = np.concatenate([found.inputs, found.labels], axis=1)
    np.testing.assert_allclose(numbers, expected, atol=0.02)
    never = np.flatnonzero(shares.sum(axis=0) == 0.0)  # of whom nothing was heard
    assert len(never)
    np.testing.assert_allclose(numbers[never], np.tile(public, (len(never), 1)), atol=1e-5)


def test_at_full_power_the_prior_adds_nothing_to_fewer_slots_than_workers() -> None:
    view = watch(LOUD.with_overrides("workers.count=400", "radio.slots=200"))
    inputs, _ = originals_of(view)
    # Every direction has the same design matrix: without noise the posterior mean is the solution of least norm.
    errors = [
        float(np.square(reconstruct(view, method).inputs - inputs).mean()) for method in ("least-squares", "prior")
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


@pytest.mark.parametrize("method", RECONSTRUCTIONS)
@pytest.mark.parametrize("watts", [1e-20, 1e-40, 1e-60])
def test_without_power_nothing_is_better_than_guessing(method: str, watts: float) -> None:
    view = watch(DIGITS.with_overrides("mixing.power=fixed", f"mixing.power_scale_watts={watts}"))
    found = reconstruct(view, method)
    inputs, labels = originals_of(view)
    assert np.isfinite(found.inputs).all()
    recovered = np.clip(found.inputs, 0.0, 1.0)
    guess = np.tile(view.dataset.test_inputs.mean(axis=0), (100, 1))
    guessed_db = np.median(peak_signal_to_noise_db(inputs, guess))
    assert np.median(peak_signal_to_noise_db(inputs, recovered)) < guessed_db + 0.1
    assert right_labels(found, labels) < 0.1 + 5 * np.sqrt(0.1 * 0.9 / 100)


def test_noise_and_not_the_public_mean_is_what_least_squares_finds_at_next_to_no_power() -> None:
    view = watch(IRIS.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-40"))
    found = reconstruct(view, "least-squares")
    weighted = dense_of(view) * np.sqrt(view.weights)[:, None]
    deviation = np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)))
    standard = found.inputs / deviation[:, None]
    assert np.sqrt(np.square(standard).mean()) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("noise_dbm", [-300, -200])
def test_power_beyond_measure_does_not_overflow(noise_dbm: int) -> None:
    view = watch(LOUD.with_overrides(f"radio.noise_dbm={noise_dbm}", "radio.max_power_dbm=100"))
    inputs, labels = originals_of(view)
    for method in RECONSTRUCTIONS:
        found = reconstruct(view, method)
        assert np.median(peak_signal_to_noise_db(inputs, found.inputs)) > 60.0
        assert right_labels(found, labels) == 1.0


@pytest.mark.parametrize("power", ["dp", "max"])
def test_one_slot_of_all_workers_says_nothing_of_any_one(power: str) -> None:
    view = watch(
        Scenario.preset("private-iris").with_overrides(
            "workers.count=60", "radio.scheduled=60", f"mixing.power={power}"
        )
    )
    for method in ("least-squares", "prior"):
        found = reconstruct(view, method)
        numbers = np.concatenate([found.inputs, found.labels], axis=1)
        np.testing.assert_allclose(numbers, np.tile(numbers[0], (60, 1)), atol=1e-5)


def test_blocks_of_columns_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    view = watch(DIGITS)
    for method in RECONSTRUCTIONS:
        whole = reconstruct(view, method)
        with monkeypatch.context() as patched:
            patched.setattr("airmixml.attacks.server_attacks._COLUMNS_ON_CPU", 7)
            cut = reconstruct(view, method)
        np.testing.assert_allclose(cut.inputs, whole.inputs, atol=2e-3)


def test_progress_ends_at_all_columns() -> None:
    calls: list[tuple[str, int, int]] = []
    reconstruct(watch(LOUD), "least-squares", progress=lambda *call: calls.append(call))
    assert calls == [("least-squares", 0, 7), ("least-squares", 7, 7)]


def test_a_method_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"'lest-squares': must be one of least-squares, non-negative, prior"):
        reconstruct(watch(LOUD), "lest-squares")


def test_what_does_not_fit_into_memory_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"radio.slots = 100000000000: to attack all 40 workers at once needs"):
        watch(LOUD.with_overrides("radio.slots=100000000000"))


def test_a_run_in_which_nobody_sent_is_refused() -> None:
    lonely = IRIS.with_overrides(*POISSON, "radio.slots=1", "radio.scheduled=1")

    def all_of_them() -> None:
        for seed in range(20):  # each is silent with probability (1 - 1/40)^40 = 0.36
            watch(lonely.with_seed(seed))

    with pytest.raises(ScenarioError, match="nobody tossed heads in any slot"):
        all_of_them()


def test_numbers_of_samples_carry_the_weight_of_their_symbols() -> None:
    view = watch(LOUD.with_overrides(*CLIP, "workers.label_weight=0.2"))
    numbers = view.layout.numbers_of(np.array([[0.1, 0.2, 0.3, 0.4]], np.float32), np.array([2]))
    np.testing.assert_allclose(numbers, [[0.1, 0.2, 0.3, 0.4, 0.0, 0.0, 0.2]], rtol=1e-6)
    assert view.received.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ((*CLIP, "workers.sends=moments", "learner.model=ridge"), "products are sent"),
        ((*CLIP, "workers.centre=own"), "may be negative"),
    ],
)
def test_a_range_must_be_known(changes: tuple[str, ...], why: str) -> None:
    view = watch(DIGITS.with_overrides(*changes))
    with pytest.raises(ScenarioError, match=rf"method = 'non-negative': cannot be used, .*{why}"):
        reconstruct(view, "non-negative")
