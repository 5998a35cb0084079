"""Sums on the air against plain NumPy sums of outer products; how symmetric matrices are packed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario, Speed, simulate
from airmixml.data import DataSet
from airmixml.radio.transmission import make_sender
from airmixml.workers import Population, moments, signal
from airmixml.workers.moments import pack_symmetric, unpack_symmetric

CPU = torch.device("cpu")


@given(seed=st.integers(0, 10**6), size=st.integers(1, 20), many=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_packing_keeps_the_norm_and_unpacks_to_the_same(seed: int, size: int, many: int) -> None:
    """||svec(A)|| = ||A||_F, and inner products are kept too."""
    half = np.random.default_rng(seed).standard_normal((many, size, size))
    matrices = torch.from_numpy(half + half.transpose(0, 2, 1))
    packed = pack_symmetric(matrices)
    assert packed.shape == (many, size * (size + 1) // 2)
    assert torch.allclose(packed @ packed.T, torch.einsum("aij,bij->ab", matrices, matrices), rtol=1e-12, atol=1e-9)
    assert torch.allclose(unpack_symmetric(packed, size), matrices, rtol=1e-14, atol=1e-14)
    assert torch.allclose(pack_symmetric(unpack_symmetric(packed, size)), packed, rtol=1e-14, atol=1e-14)


def test_packing_by_hand() -> None:
    """The upper triangle row by row, off the diagonal times sqrt(2)."""
    matrix = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]], dtype=torch.float64)
    root = 2.0**0.5
    assert pack_symmetric(matrix).tolist() == pytest.approx([1, 2 * root, 3 * root, 4, 5 * root, 6], rel=1e-12)


def made(dim: int, samples: int = 30, *, seed: int = 0) -> DataSet:
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((samples, dim))
    inputs = (inputs / np.linalg.norm(inputs, axis=1, keepdims=True) * 0.99).astype(np.float32)
    return DataSet(
        name="made",
        train_inputs=inputs,
        train_labels=rng.integers(0, 4, samples),
        test_inputs=inputs,
        test_labels=rng.integers(0, 4, samples),
        class_names=("a", "b", "c", "d"),
        image_shape=None,
        clipped_values=0,
    )


def sending(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.encoder=clip",
        "workers.centre=own",
        "workers.label_weight=0.25",
        "privacy.sensitivity=encoder",
        "learner.model=ridge",
        *changes,
    )


def sum_by_numpy(dataset: DataSet, index: np.ndarray, ratios: np.ndarray, weight: float) -> np.ndarray:
    """sum_i q_i x_i x_i^T, above the diagonal times sqrt(2), then w sum_i q_i x_i l_i^T, row by row."""
    rows = []
    for who, shares in zip(index, ratios, strict=True):
        second, cross = 0.0, 0.0
        for sample, share in zip(who, shares, strict=True):
            x = dataset.train_inputs[sample].astype(np.float64)
            label = np.eye(dataset.label_dim)[dataset.train_labels[sample]]
            second = second + share * np.outer(x, x)
            cross = cross + share * np.outer(x, weight * label)
        products = [
            second[i, j] * (1.0 if i == j else 2.0**0.5)
            for i, j in itertools.combinations_with_replacement(range(dataset.input_dim), 2)
        ]
        rows.append(np.concatenate([products, np.ravel(cross)]))
    return np.array(rows)


@pytest.mark.parametrize("at_once", [1 << 25, 40, 7, 1])
def test_moments_on_the_air_are_plain_sums_of_products(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where slots, and the workers of one slot, are cut into parts."""
    dataset, rng = made(5), np.random.default_rng(1)
    index, ratios = rng.integers(0, 30, size=(6, 9)), rng.dirichlet(np.ones(9), size=6)
    ratios[2] = 0.0  # nobody sends
    sender = make_sender(sending("workers.sends=moments"), dataset, CPU)
    for module in (signal, moments):
        monkeypatch.setattr(module, "NUMBERS_AT_ONCE", at_once)
    mixed = sender.weighted_sum(torch.from_numpy(index), torch.from_numpy(ratios))
    assert mixed.numpy() == pytest.approx(sum_by_numpy(dataset, index, ratios, 0.25), abs=2e-7)
    assert not mixed[2].any()


def test_samples_on_the_air_are_plain_sums() -> None:
    dataset, rng = made(5), np.random.default_rng(2)
    index, ratios = rng.integers(0, 30, size=(6, 9)), rng.dirichlet(np.ones(9), size=6)
    mixed = make_sender(sending(), dataset, CPU).weighted_sum(torch.from_numpy(index), torch.from_numpy(ratios))
    table = np.hstack([dataset.train_inputs, 0.25 * np.eye(4)[dataset.train_labels]])
    assert mixed.numpy() == pytest.approx(np.einsum("ts,tsd->td", ratios, table[index]), abs=2e-7)


@pytest.mark.parametrize("at_once", [1 << 25, 100])
def test_finely_rounded_moments_are_nearly_the_exact_ones(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 bits over at most 0.99: steps of 3e-5."""
    dataset, rng = made(5), np.random.default_rng(3)
    index, ratios = rng.integers(0, 30, size=(4, 9)), rng.dirichlet(np.ones(9), size=4)
    changes = ("workers.sends=moments", "workers.bits=16", "workers.bits_range=1000")
    sender = make_sender(sending(*changes), dataset, CPU)
    for module in (signal, moments):
        monkeypatch.setattr(module, "NUMBERS_AT_ONCE", at_once)
    mixed = sender.weighted_sum(torch.from_numpy(index), torch.from_numpy(ratios))
    assert mixed.numpy() == pytest.approx(sum_by_numpy(dataset, index, ratios, 0.25), abs=4e-5)


@pytest.mark.parametrize("bits", [0, 3])
@pytest.mark.parametrize("sends", ["samples", "moments"])
def test_the_block_size_and_the_threads_change_nothing_that_is_received(sends: str, bits: int) -> None:
    """Also not how symbols are rounded."""
    scenario = sending(
        f"workers.sends={sends}", f"workers.bits={bits}", "workers.count=40", "radio.scheduled=7", "radio.slots=40"
    )
    population = Population(distance_metres=np.linspace(20.0, 300.0, 40), sample_index=np.arange(40) % 30)
    first, *others = (
        simulate(scenario, dataset=made(4), population=population, speed=Speed(block_slots=block, threads=threads))
        for block, threads in ((40, 1), (1, 1), (16, 2))
    )
    for other in others:
        assert torch.allclose(first.inputs, other.inputs, atol=1e-6)
        assert torch.allclose(first.labels, other.labels, atol=1e-6)


def test_the_label_weight_is_taken_off_again_at_the_server() -> None:
    """Received label mixtures are those of weight 1, with four times the noise."""
    watts = ("mixing.power=fixed", "mixing.power_scale_watts=1e-9", "radio.slots=50")
    population = Population(distance_metres=np.linspace(20.0, 300.0, 2000), sample_index=np.arange(2000) % 30)
    light, full = (
        simulate(sending(*watts, f"workers.label_weight={weight}"), dataset=made(4), population=population)
        for weight in (0.25, 1.0)
    )
    assert torch.allclose(light.examples.clean_labels, full.examples.clean_labels, atol=1e-6)
    noise = [(each.examples.labels - each.examples.clean_labels).numpy() for each in (light, full)]
    assert noise[0] == pytest.approx(4.0 * noise[1], abs=1e-5)
    assert np.abs(noise[0]).max() > 1e-4
