"""Which numbers the server solves for: samples, all products of moments, or their linear part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.attacks import reconstruct, watch
from airmixml.attacks.sample_symbols import LinearMoments, Moments, layout_of, numbers_in
from airmixml.attacks.server_attacks import peak_signal_to_noise_db
from airmixml.workers import Signal

RNG = np.random.default_rng(0)
MOMENTS = Signal(features=5, classes=3, moments=True, label_weight=0.5)
PRODUCTS = Scenario.preset("digits").with_overrides(
    "workers.count=60", "radio.slots=150", "radio.scheduled=8", "workers.encoder=clip", "workers.norm=unit",
    "workers.sends=moments", "workers.label_weight=0.05", "learner.model=ridge", "privacy.sensitivity=encoder",
)  # fmt: skip


def test_products_are_those_of_the_sample_and_read_back_as_the_sample() -> None:
    inputs = RNG.standard_normal((40, 5)).astype(np.float32)
    labels = RNG.integers(3, size=40)
    layout = Moments(MOMENTS)
    numbers = layout.numbers_of(inputs, labels)
    assert numbers.shape == (40, 15 + 15) == (40, numbers_in(MOMENTS))
    # ||svec(x x^T)|| = ||x||^2, and the products with the label lie in its column, times the weight.
    np.testing.assert_allclose(np.linalg.norm(numbers[:, :15], axis=1), (inputs**2).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(numbers[0, 15:].reshape(5, 3)[:, labels[0]], 0.5 * inputs[0], rtol=1e-6)
    read, shares = layout.read(torch.from_numpy(numbers).float())
    np.testing.assert_allclose(read, inputs, atol=1e-4)  # the right way round too
    np.testing.assert_allclose(shares, np.eye(3)[labels], atol=1e-4)


def test_nothing_is_read_from_nothing() -> None:
    read, shares = Moments(MOMENTS).read(torch.zeros((2, 30)))
    assert not read.any()
    assert not shares.any()


def test_many_products_are_left_alone() -> None:
    view = watch(PRODUCTS)
    assert isinstance(view.layout, Moments)
    assert view.received.shape == (150, 64 * 65 // 2 + 640)
    many = Signal(features=100, classes=10, moments=True)
    public = replace(view.dataset, test_inputs=np.tile(view.dataset.test_inputs, (1, 2))[:, :100])
    assert numbers_in(many) == 110
    assert isinstance(layout_of(many, public, torch.device("cpu")), LinearMoments)


@pytest.mark.parametrize(
    "encoder",
    [
        pytest.param(("workers.encoder=dct", "workers.features=16"), id="296 products"),
        pytest.param(("workers.encoder=clip",), id="2,720 products", marks=pytest.mark.long),
    ],
)
def test_the_products_give_samples_away_where_their_labels_hardly_count(encoder: tuple[str, ...]) -> None:
    """With a label weight of 0.05 the linear part has a four-hundredth of the power of the rest."""
    view = watch(PRODUCTS.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-12", *encoder))
    held = view.dataset.train_inputs[view.held_index]
    mean = np.broadcast_to(view.dataset.test_inputs.mean(axis=0), held.shape)
    found = peak_signal_to_noise_db(held, reconstruct(view, "prior").inputs)
    assert np.median(found - peak_signal_to_noise_db(held, mean)) > 6.0


def test_a_constant_that_comes_with_a_private_mean_is_counted() -> None:
    view = watch(Scenario.preset("private-iris").with_overrides("workers.centre=private"))
    assert view.dataset.input_dim == 5  # four numbers and the constant
    assert view.received.shape == (1, 15 + 15)
    assert reconstruct(view, "prior").inputs.shape == (2000, 5)
