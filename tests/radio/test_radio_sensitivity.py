"""What a worker really sends stays within the sensitivity that its power was made for, whatever neighbours are built.

Samples are chosen where the bounds are tight, encoded, and sent by one worker with the ratio 1 through the sender that
a run uses. Nothing is compared with a tolerance: a bound that is missed by rounding is missed.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.radio.centring import centre_privately
from airmixml.radio.system import sensitivity_of
from airmixml.radio.transmission import make_sender
from airmixml.streams import Streams
from airmixml.workers import Population, Signal, encode

SIDE = 4
ENCODERS = {
    "clip": (),
    "dct": ("workers.features=12",),
    "projection": ("workers.features=12",),
    "convolution": ("workers.features=12",),
    "gradients": (),
    "mixed": ("workers.features=9",),
    "mixed-gradients": ("workers.features=12",),
    "cells": ("workers.features=12",),
}


def scenario_of(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.dataset=mine.npz",  # so that no centre is refused
        "workers.count=1",
        "radio.scheduled=1",
        "mixing.policy=equalmix",
        "privacy.sensitivity=encoder",
        "privacy.delta=0.5",
        "learner.model=ridge",
        *changes,
    )


def odd_images() -> NDArray[np.float32]:
    """Plain, single pixels, halves and their opposites, edges in opposite directions, checkerboards, random ones."""
    rng = np.random.default_rng(5)
    ramp = np.broadcast_to(np.linspace(0.0, 1.0, SIDE), (SIDE, SIDE))
    step = np.broadcast_to(np.arange(SIDE) < SIDE // 2, (SIDE, SIDE))
    board = np.indices((SIDE, SIDE)).sum(axis=0) % 2
    single = np.zeros((4, SIDE, SIDE))
    single[np.arange(4), [0, 1, 2, 3], [0, 2, 1, 3]] = 1.0
    shapes = [ramp, ramp.T, step, step.T, board, *single, *rng.random((3, SIDE, SIDE))]
    shapes += [*(rng.random((4, SIDE, SIDE)) > 0.5), *(rng.random((3, SIDE, SIDE)) ** 30)]
    shapes += [np.zeros((SIDE, SIDE)), 0.5 + 1e-6 * ramp, 1e-30 * ramp]
    images = np.array([np.asarray(shape, dtype=np.float32).ravel() for shape in shapes])
    return np.vstack([images, np.float32(1.0) - images])


def dataset_of(inputs: NDArray[np.float32]) -> DataSet:
    """Every input with each of two labels of three."""
    return DataSet(
        name="odd",
        train_inputs=np.repeat(inputs, 2, axis=0),
        train_labels=np.tile([0, 1], len(inputs)),
        test_inputs=inputs[:0],
        test_labels=np.zeros(0, dtype=np.int64),
        class_names=("a", "b", "c"),
        image_shape=None,
        clipped_values=0,
    )


def encoded(scenario: Scenario, raw: NDArray[np.float32]) -> DataSet:
    """What ``load_dataset`` and ``simulate`` make of raw inputs, one worker holding each."""
    inputs, _ = encode(scenario.workers, raw, image_shape=(SIDE, SIDE), streams=Streams(scenario.seed))
    dataset = dataset_of(inputs)
    everybody = Population(distance_metres=np.full(len(raw) * 2, 9.0), sample_index=np.arange(len(raw) * 2))
    return centre_privately([scenario], dataset, everybody)


def sent(scenario: Scenario, dataset: DataSet) -> NDArray[np.float64]:
    """What a single worker puts on the air, for each sample; samples x symbols."""
    every = torch.arange(dataset.train_samples)[:, None]
    mixed = make_sender(scenario, dataset, torch.device("cpu")).weighted_sum(
        every, torch.ones(every.shape, dtype=torch.float64)
    )
    return np.asarray(mixed.double().numpy())


def squared_distances(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    gram = vectors @ vectors.T
    norms = np.diag(gram)
    return np.asarray(norms[:, None] + norms[None] - 2.0 * gram)


ENCODINGS = [
    (f"workers.norm={norm}", f"workers.constant={constant}", f"workers.clip_norm={clip_norm}")
    for norm, (constant, clip_norm) in itertools.product(("clip", "unit"), ((0.0, 1.0), (0.6, 0.7)))
]
SENDINGS = [
    (f"workers.sends={sends}", f"workers.bits={bits}", f"workers.label_weight={weight}")
    for sends, bits, weight in itertools.product(("samples", "moments"), (0, 1, 4), (0.3, 1.0))
]


@pytest.mark.parametrize("centre", ["none", "own", "refined"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_built_neighbours_break_the_sensitivity(encoder: str, centre: str) -> None:
    large = encoder == "gradients"  # 300 features make 45 150 products
    raw = odd_images()[:: 11 if large else 2]  # 22 images and their opposites
    for number, encoding in enumerate(ENCODINGS):
        name = encoder.removeprefix("mixed-")
        base = scenario_of(f"workers.encoder={name}", f"workers.centre={centre}", *ENCODERS[encoder], *encoding)
        dataset = encoded(base, raw)
        for sending in SENDINGS[::5] if large else SENDINGS[number % 2 :: 2]:  # one label weight after the other
            scenario = base.with_overrides(*sending)
            vectors = sent(scenario, dataset)
            sensitivity = sensitivity_of(scenario, dataset.input_dim, dataset.label_dim)
            norms = np.square(vectors).sum(axis=1)
            assert norms.max() <= sensitivity.removal, (encoding, sending)
            assert squared_distances(vectors).max() <= sensitivity.replacement, (encoding, sending)
            assert np.abs(vectors).max() <= 1.0, (encoding, sending)
            if "workers.norm=unit" in encoding and "workers.bits=0" in sending:
                assert norms.max() == pytest.approx(sensitivity.removal, rel=1e-5), (encoding, sending)


@pytest.mark.parametrize("clip_norm", [0.4, 1.0, 1.7])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_plain_and_clipped_samples_break_neither_bound_and_reach_both(clip_norm: float, weight: float) -> None:
    """Without features and centre nothing is negative: two halves of an image are sqrt(2) C apart at most."""
    half = (np.arange(SIDE**2) < SIDE**2 // 2).astype(np.float32)
    raw = np.vstack([odd_images(), half, 1.0 - half])
    for encoder, squared_norm, squared_distance in (("scale", 16.0, 16.0), ("clip", clip_norm**2, 2.0 * clip_norm**2)):
        scenario = scenario_of(
            f"workers.encoder={encoder}", f"workers.clip_norm={clip_norm}", f"workers.label_weight={weight}"
        )
        vectors = sent(scenario, encoded(scenario, raw))
        sensitivity = sensitivity_of(scenario, SIDE**2, 3)
        assert sensitivity.removal == pytest.approx(squared_norm + weight**2)
        assert sensitivity.replacement == pytest.approx(squared_distance + 2.0 * weight**2)
        found = np.square(vectors).sum(axis=1).max(), squared_distances(vectors).max()
        assert found == pytest.approx((sensitivity.removal, sensitivity.replacement), rel=1e-5)
        assert found[0] <= sensitivity.removal
        assert found[1] <= sensitivity.replacement * (1.0 + 1e-14)  # rounded in the sums here
        assert np.abs(vectors).max() <= 1.0


def test_opposite_features_with_other_labels_reach_the_distance_of_centred_samples() -> None:
    """x and 1 - x are opposite once their own mean is off: 4 C^2 + 2 w^2."""
    scenario = scenario_of("workers.encoder=clip", "workers.centre=own", "workers.norm=unit", "workers.clip_norm=0.8")
    vectors = sent(scenario, encoded(scenario, odd_images()))
    bound = sensitivity_of(scenario, SIDE**2, 3).replacement
    assert bound == pytest.approx(4 * 0.64 + 2)
    assert squared_distances(vectors).max() == pytest.approx(bound, rel=1e-5)


@pytest.mark.parametrize(("clip_norm", "weight"), [(1.0, 1.0), (1.0, 0.5), (0.8, 0.3), (0.5, 1.0), (0.6, 0.6)])
def test_the_worst_pair_of_moments_is_built_and_reaches_the_bound(clip_norm: float, weight: float) -> None:
    """Equal labels and x . x' = -w^2 / 2 give 2 (C^4 + w^2 C^2) + w^4 / 2; where C is too small for that, x' = -x.

    Inputs are 0.5 + 0.4 u with unit vectors u, and 0.5 is the public centre of what is no image.
    """
    cosine = max(-(weight**2) / 2 / clip_norm**2, -1.0)
    directions = np.array([[1.0, 0.0, 0.0], [cosine, math.sqrt(1.0 - cosine**2), 0.0]])
    scenario = scenario_of(
        "workers.encoder=clip",
        "workers.centre=public",
        "workers.norm=unit",
        "workers.sends=moments",
        f"workers.clip_norm={clip_norm}",
        f"workers.label_weight={weight}",
    )
    inputs, _ = encode(scenario.workers, (0.5 + 0.4 * directions).astype(np.float32))
    assert inputs[0] @ inputs[1] == pytest.approx(clip_norm**2 * cosine, rel=1e-5)
    vectors = sent(scenario, dataset_of(inputs))
    bound = sensitivity_of(scenario, 3, 3).replacement
    by_hand = (
        2 * (clip_norm**4 + weight**2 * clip_norm**2) + weight**4 / 2 if cosine > -1 else 4 * (weight * clip_norm) ** 2
    )
    assert bound == pytest.approx(by_hand, rel=1e-12)
    worst = squared_distances(vectors)[0, 2]  # both with the first label
    assert worst <= bound
    assert worst == pytest.approx(bound, rel=2e-5)


@given(seed=st.integers(0, 10**6), clip_norm=st.floats(0.05, 1.0), weight=st.floats(0.01, 1.0), negative=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_searched_pair_of_moments_is_further_apart_than_declared(
    seed: int, clip_norm: float, weight: float, negative: bool
) -> None:
    """Pairs of any length in the ball (or its positive part), by NumPy alone; none but the worst reaches the bound."""
    rng = np.random.default_rng(seed)
    lengths = clip_norm * rng.random((2, 400, 1)) ** rng.choice([0.0, 0.2, 1.0], size=(2, 400, 1))
    unit = rng.standard_normal((2, 400, 2))
    unit = unit if negative else np.abs(unit)
    first, second = lengths * unit / np.linalg.norm(unit, axis=2, keepdims=True)
    # The worst pair by hand is among them.
    cosine = max(-(weight**2) / 2 / clip_norm**2, -1.0) if negative else 0.0
    first = np.vstack([first, [[clip_norm, 0.0]]])
    second = np.vstack([second, [[clip_norm * cosine, clip_norm * math.sqrt(1.0 - cosine**2)]]])
    products = np.einsum("ni,nj->nij", first, first) - np.einsum("ni,nj->nij", second, second)
    alike = np.square(products).sum(axis=(1, 2)) + weight**2 * np.square(first - second).sum(axis=1)
    other = np.square(products).sum(axis=(1, 2)) + weight**2 * (np.square(first) + np.square(second)).sum(axis=1)
    signal = Signal(features=2, classes=2, moments=True, label_weight=weight)
    bound = signal.largest_squared_distance(clip_norm**2, (4.0 if negative else 2.0) * clip_norm**2)
    found = max(alike.max(), other.max())
    assert found <= bound * (1.0 + 1e-12)
    assert found > 0.999999 * bound


def test_a_quantised_worker_can_move_more_than_the_paper_reckons_with() -> None:
    """Why that sensitivity is refused: one bit makes -1 or 1 of a small x, so (x, l) moves by 6, and d_X + d_Y is 4."""
    scenario = scenario_of("workers.encoder=clip", "workers.bits=1")
    inputs = np.full((40, 1), 0.5, dtype=np.float32)
    dataset = dataset_of(inputs)
    worst = squared_distances(sent(scenario, dataset)).max()
    assert worst == pytest.approx(6.0, rel=1e-5)
    assert worst <= sensitivity_of(scenario, 1, 3).replacement == 8.0
