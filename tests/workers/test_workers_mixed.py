"""Random features of a table's rows."""

from __future__ import annotations

import numpy as np
import pytest

from airmixml import Scenario, simulate
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import encode, encode_centred, worker_cost
from airmixml.workers.encoders.random_features import draw_signs, mixing_matrix, rectified_mix
from airmixml.workers.signal import Signal


def test_scalar_products_of_features_are_those_of_the_kernel() -> None:
    """For normal w, E[relu(w z) relu(w z')] = (sin t + (pi - t) cos t) / (2 pi) (Cho and Saul 2009, n = 1).

    Unit rows z in 8 dimensions at the angle t; many features, before the row's mean is subtracted.
    """
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((12, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    workers = Workers(encoder="mixed", features=1 << 13, centre="public")
    signs = draw_signs(workers.features, 8, np.random.default_rng(1))
    features = rectified_mix(rows, mixing_matrix(signs, workers.features))
    gram = features.astype(np.float64) @ features.T.astype(np.float64) / workers.features * 8.0
    angle = np.arccos(np.clip(rows.astype(np.float64) @ rows.T, -1.0, 1.0))
    kernel = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2.0 * np.pi)
    # Signs in 8 dimensions are only nearly normal.
    assert gram == pytest.approx(kernel, abs=0.05)


def test_rows_are_padded_mixed_and_less_their_own_mean() -> None:
    """Five inputs are padded to 8; two blocks of signs give 16 mixtures, of which 11 are kept, each row of norm 1."""
    workers = Workers(encoder="mixed", features=11, centre="public", norm="unit")
    rng = np.random.default_rng(0)
    unit_inputs = rng.random((30, 5), dtype=np.float32)
    encoded, _ = encode(workers, unit_inputs, streams=Streams(7))
    assert encoded.shape == (30, 11)
    assert np.linalg.norm(encoded, axis=1) == pytest.approx(np.ones(30), abs=1e-5)
    assert encoded.mean(axis=1) == pytest.approx(np.zeros(30), abs=1e-6)
    again, _ = encode(workers, unit_inputs[3:5], streams=Streams(7))
    assert again == pytest.approx(encoded[3:5], abs=1e-6)
    other, _ = encode(workers, unit_inputs, streams=Streams(8))
    assert np.abs(other - encoded).max() > 0.1
    # A row's length does not matter, its direction from the centre does.
    nearer, _ = encode(workers, (0.5 + 0.3 * (unit_inputs - 0.5)).astype(np.float32), streams=Streams(7))
    assert nearer == pytest.approx(encoded, abs=1e-4)


def test_a_refined_centre_is_subtracted_before_mixing() -> None:
    refined = Workers(encoder="mixed", features=16, centre="refined", norm="unit", constant=0.5)
    public = Workers(encoder="mixed", features=16, centre="public", norm="unit", constant=0.5)
    inputs = np.random.default_rng(0).uniform(0.3, 0.7, (20, 4)).astype(np.float32)
    halfway, _ = encode(refined, inputs, streams=Streams(1))
    assert halfway.shape == (20, 4)
    moved = np.array([0.1, 0.0, -0.1, 0.05], dtype=np.float32)
    finished, _ = encode_centred(refined, halfway - moved, Streams(1))
    expected, _ = encode(public, inputs - moved, streams=Streams(1))
    assert finished == pytest.approx(expected, abs=1e-5)


def test_curved_borders_are_learnt_by_a_linear_learner() -> None:
    """Two opposite quarters of a circle against the other two: a straight line gets three quarters right at most."""
    scenario = Scenario().with_overrides(
        "workers.encoder=mixed",
        "workers.features=32",
        "workers.centre=public",
        "workers.norm=unit",
        "workers.constant=0.5",
        "privacy.sensitivity=encoder",
        "learner.model=ridge",
    )
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 400)
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    classes = (np.cos(2 * angle) > 0).astype(int)  # two opposite quarters against the other two
    features, _ = encode(scenario.workers, (0.5 + 0.4 * rows).astype(np.float32), streams=Streams(0))
    weights = np.linalg.lstsq(features.astype(np.float64), 2.0 * classes - 1.0, rcond=None)[0]
    assert (((features @ weights) > 0) == classes).mean() > 0.95
    linear = np.column_stack([rows, np.ones(400)])
    straight = np.linalg.lstsq(linear, 2.0 * classes - 1.0, rcond=None)[0]
    assert (((linear @ straight) > 0) == classes).mean() < 0.8


def test_the_cost_by_hand() -> None:
    """30 inputs: scaled (60), centred and bounded (2 x 64 each, 20), a norm (60 + 10), 2 blocks of 2 x 32 x (1 + 5)."""
    workers = Workers(encoder="mixed", features=64, centre="refined", norm="unit")
    cost = worker_cost(workers, 30, Signal(features=64, classes=2))
    mixing = 2 * 30 + 10 + 2 * 2 * 32 * 6 + 2 * 64
    assert cost.multiply_accumulates == 60 + 128 + 128 + 20 + mixing
    assert cost.constant_bytes == 2 * 2 * 32 // 8 + 4 * 64


def test_a_run_with_a_refined_centre_reports_the_slot_of_the_raw_inputs() -> None:
    scenario = Scenario.preset("private-iris").with_overrides(
        "workers.encoder=mixed", "workers.features=8", "workers.centre=refined", "workers.norm=unit"
    )
    mixtures = simulate(scenario)
    assert mixtures.dataset.input_dim == 9
    assert mixtures.dataset.private_mean is not None
    assert len(mixtures.dataset.private_mean) == 4
    assert mixtures.report.centring is not None
    assert mixtures.report.centring.seconds == pytest.approx(4 / 794_000, rel=1e-9)
