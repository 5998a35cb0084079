"""What an encoder declares about its output holds for every input, also for the worst pair of neighbours."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import declared_bounds, encode, load_dataset


def clipping(norm: float) -> Workers:
    return Workers(encoder="clip", clip_norm=norm)


def test_long_inputs_are_shortened_and_short_ones_left() -> None:
    inputs = np.array([[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]], dtype=np.float32)
    encoded, shortened = encode(clipping(0.75), inputs)
    assert shortened == 1
    assert encoded[[0, 2]].tolist() == inputs[[0, 2]].tolist()
    assert encoded[1] == pytest.approx([0.45, 0.6], rel=1e-5)
    assert inputs[1].tolist() == np.array([0.6, 0.8], dtype=np.float32).tolist()


def test_without_clipping_nothing_changes() -> None:
    inputs = np.ones((3, 5), dtype=np.float32)
    assert encode(Workers(), inputs) == (inputs, 0)


@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 300),
    norm=st.floats(1e-3, 40.0),
    sparsity=st.floats(0.0, 1.0),
    encoder=st.sampled_from(["scale", "clip"]),
)
@settings(max_examples=200, deadline=None)
def test_no_built_neighbours_break_the_declared_bounds(
    seed: int, dim: int, norm: float, sparsity: float, encoder: str
) -> None:
    """Ones, single ones, and random sparse inputs: the corners of [0, 1]^d are where the bounds are tight."""
    workers = Workers(encoder=encoder, clip_norm=norm)
    rng = np.random.default_rng(seed)
    sparse = (rng.random((6, dim)) > sparsity) * rng.random((6, dim))
    half = (np.arange(dim) < dim / 2).astype(float)
    raw = np.vstack([np.ones(dim), np.zeros(dim), half, 1.0 - half, np.eye(dim)[:4], sparse]).astype(np.float32)
    sent = encode(workers, raw)[0].astype(np.float64)
    squared_norm, squared_distance = declared_bounds(workers, dim)
    assert (sent**2).sum(axis=1).max() <= squared_norm
    assert ((sent[:, None] - sent[None]) ** 2).sum(axis=2).max() <= squared_distance


def test_the_declared_bounds_are_reached() -> None:
    """Two disjoint halves of norm 2 are sqrt(8) apart; all ones of 16 inputs have norm 4."""
    half = np.repeat([1.0, 0.0], 8).astype(np.float32)
    sent = encode(clipping(2.0), np.vstack([half, 1.0 - half]))[0].astype(np.float64)
    assert declared_bounds(clipping(2.0), 16) == (4.0, 8.0)
    assert (sent[0] ** 2).sum() == pytest.approx(4.0, rel=1e-5)
    assert ((sent[0] - sent[1]) ** 2).sum() == pytest.approx(8.0, rel=1e-5)
    assert declared_bounds(Workers(), 16) == (16.0, 16.0)
    assert declared_bounds(clipping(100.0), 16) == (16.0, 16.0)


def test_pool_and_test_set_are_encoded_alike() -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("workers.encoder=clip", "workers.clip_norm=0.5")
    dataset = load_dataset(scenario.workers, Streams(0))
    for inputs in (dataset.train_inputs, dataset.test_inputs):
        assert np.linalg.norm(inputs, axis=1).max() <= 0.5
    assert dataset.clipped_samples > 50
    whole = load_dataset(Scenario.preset("paper-iris").workers, Streams(0))
    assert whole.clipped_samples == 0
    kept = np.linalg.norm(whole.train_inputs, axis=1) < 0.49
    assert dataset.train_inputs[kept].tolist() == whole.train_inputs[kept].tolist()
    assert math.isclose(float(np.linalg.norm(dataset.train_inputs[~kept], axis=1).min()), 0.5, rel_tol=0.05)
