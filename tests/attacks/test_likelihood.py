"""Likelihood ratios against densities of SciPy, integrals over the phase, and covariance matrices written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import i0
from scipy.stats import hypergeom, multivariate_normal

from airmixml.attacks.likelihood import (
    Amplitudes,
    ProductBackground,
    Received,
    SymbolBackground,
    background_of,
    background_power,
    log_ratios,
    score,
    strongest_workers,
)
from airmixml.attacks.measured import Identified
from airmixml.attacks.sample_symbols import Layout, Moments
from airmixml.attacks.watched import rows_of_classes, slots_kept
from airmixml.data import OneHot
from airmixml.workers import Signal

SAMPLES = Signal(features=5, classes=3, label_weight=0.7)
PRODUCTS = Signal(features=5, classes=3, label_weight=0.7, moments=True)
ONCE = Amplitudes(taking_part=1.0, levels=(1.0,), shares=(1.0,), alike=True)


def samples_of(count: int, seed: int, features: int = 5) -> tuple[Any, Any]:
    """Inputs with large common components, and classes that go with them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    shapes = np.random.default_rng(99).uniform(0, 1, (3, features))
    return (0.5 * shapes[labels] + 0.5 * rng.uniform(0, 1, (count, features))).astype(np.float32), labels


def received_of(symbols: Any, noise: float = 1.0, power: float | None = None) -> Received:
    slots = len(symbols)
    return Received(
        symbols=torch.from_numpy(symbols),
        noise=np.full(slots, noise),
        total_power=power,
        amplitudes=ONCE,
        strength=np.zeros(1),
        mixtures=torch.zeros((slots, 5)),
        strongest_worker=np.zeros(slots, dtype=np.int64),
    )


def test_the_real_ratio_is_that_of_two_normal_densities() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    covariance, v, y = root @ root.T + np.eye(4), rng.standard_normal(4), rng.standard_normal(4)
    inverse = np.linalg.inv(covariance)
    b, c = torch.tensor(v @ inverse @ y), torch.tensor(v @ inverse @ v)
    expected = multivariate_normal(0.6 * v, covariance).logpdf(y) - multivariate_normal(np.zeros(4), covariance).logpdf(
        y
    )
    assert float(log_ratios(b, c, 0.6)) == pytest.approx(expected)


@pytest.mark.parametrize("level", [0.1, 1.0, 7.0])
def test_the_complex_ratio_is_the_mean_over_all_phases(level: float) -> None:
    """exp(2 Re(a e^-jt b) - a^2 c), averaged over t by quadrature."""
    b, c = 0.8 - 1.3j, 1.9
    mean, _ = quad(
        lambda t: math.exp(2 * (level * np.exp(-1j * t) * b).real - level**2 * c) / (2 * math.pi), 0, 2 * math.pi
    )
    found = log_ratios(torch.tensor(b, dtype=torch.complex128), torch.tensor(c, dtype=torch.float64), level)
    assert float(found) == pytest.approx(math.log(mean), rel=1e-7)
    # Far beyond what I_0 itself can be computed for.
    loud = float(log_ratios(torch.tensor(1e4 + 0j), torch.tensor(1.0), 1.0))
    assert loud == pytest.approx(2e4 - 1 - 0.5 * math.log(2 * math.pi * 2e4), rel=1e-6)


def test_who_may_send_with_several_amplitudes_has_the_mean_ratio() -> None:
    amplitudes = Amplitudes(taking_part=0.25, levels=(0.5, 2.0), shares=(0.9, 0.1), alike=False)
    b, c = torch.tensor([[1.2 + 0.5j]], dtype=torch.complex128), torch.tensor([[0.8]], dtype=torch.float64)
    each = [math.exp(-(a**2) * 0.8) * i0(2 * a * 1.3) for a in (0.5, 2.0)]
    expected = 0.75 + 0.25 * (0.9 * each[0] + 0.1 * each[1])
    assert float(amplitudes.averaged(amplitudes.log_ratios(b, c)).exp()) == pytest.approx(expected)
    silent = Amplitudes(taking_part=0.0, levels=(1.0,), shares=(1.0,), alike=True)
    assert float(silent.log_ratios(b, c)) == 0.0


def written_out(signal: Signal, received: Received, public: Any, candidates: Any, power: float) -> tuple[Any, Any]:
    """b and c by solving with the covariance matrix of all symbols."""
    layout = Moments(signal) if signal.moments else Layout(signal)
    known, theirs, y = layout.numbers_of(*public), layout.numbers_of(*candidates), received.symbols.numpy()
    mean = np.zeros(known.shape[1]) if np.iscomplexobj(y) else known.mean(axis=0)
    moments = (known - mean).T @ (known - mean) / len(known)
    inverse = np.linalg.inv(received.noise[0] * np.eye(len(moments)) + power * moments)
    return (theirs - mean) @ inverse @ (y - mean).T, np.einsum("nd,de,ne->n", theirs - mean, inverse, theirs - mean)


@pytest.mark.parametrize("turned", [False, True], ids=["real", "complex"])
def test_many_products_are_filtered_as_their_covariance_matrix_would(turned: bool) -> None:
    rng = np.random.default_rng(2)
    public, candidates = samples_of(40, 1), samples_of(6, 2)
    symbols = rng.standard_normal((3, PRODUCTS.symbols)).astype(np.float32) * 3.0
    if turned:
        symbols = (symbols + 1j * rng.standard_normal(symbols.shape)).astype(np.complex64)
    received = received_of(symbols, noise=0.7, power=30.0)
    background = ProductBackground(received, PRODUCTS, OneHot(3), *public)
    b, c = background.products(background.prepare(*candidates), slice(0, 3))
    expected_b, expected_c = written_out(PRODUCTS, received, public, candidates, 30.0)
    np.testing.assert_allclose(b.numpy(), expected_b, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(c[:, 0].numpy(), expected_c, rtol=2e-3)
    one, _ = background.products(background.prepare(*candidates), slice(1, 2))
    np.testing.assert_allclose(one.numpy(), b[:, 1:2].numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("signal", [SAMPLES, PRODUCTS], ids=["samples", "products"])
@pytest.mark.parametrize("turned", [False, True], ids=["real", "complex"])
def test_few_symbols_are_filtered_as_their_covariance_matrix_would(signal: Signal, turned: bool) -> None:
    """With 20,000 public samples hardly anything is drawn towards a multiple of the identity."""
    rng = np.random.default_rng(3)
    public, candidates = samples_of(20_000, 1), samples_of(6, 2)
    symbols = rng.standard_normal((3, signal.symbols)).astype(np.float32)
    if turned:
        symbols = (symbols + 1j * rng.standard_normal(symbols.shape)).astype(np.complex64)
    received = received_of(symbols, noise=0.7, power=5.0)
    background = background_of(received, signal, OneHot(3), *public)
    assert isinstance(background, SymbolBackground)
    b, c = background.products(background.prepare(*candidates), slice(0, 3))
    expected_b, expected_c = written_out(signal, received, public, candidates, 5.0)
    np.testing.assert_allclose(b.numpy(), expected_b, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(c[:, 0].numpy(), expected_c, rtol=0.02)


def test_the_power_of_the_background_is_told_from_the_energy_of_what_is_received() -> None:
    """200 workers with |a|^2 = 4 and noise of power 1: the mean over 400 slots is within a few per cent."""
    rng = np.random.default_rng(4)
    inputs, labels = samples_of(2000, 1)
    sent = Layout(SAMPLES).numbers_of(inputs, labels)
    amplitudes = 2.0 * np.exp(2j * np.pi * rng.uniform(size=(400, 200)))
    clean = np.einsum("ts,tsd->td", amplitudes, sent[rng.integers(2000, size=(400, 200))])
    noise = (rng.standard_normal(clean.shape) + 1j * rng.standard_normal(clean.shape)) / math.sqrt(2)
    received = received_of((clean + noise).astype(np.complex64))
    found = background_power(received, float(np.square(sent).sum(axis=1).mean()))
    assert float(found.mean()) == pytest.approx(800.0, rel=5 / math.sqrt(400 * 2))


@pytest.mark.parametrize("sent_by_somebody", [True, False])
def test_scores_have_the_mean_of_the_best_test(sent_by_somebody: bool) -> None:
    """Of a Gaussian model the log likelihood ratio has mean K where the sample was sent, -K where not, and variance
    2 K, with K = a^2 c / 2 for each slot; 30 runs of 40 slots."""
    rng = np.random.default_rng(5)
    public, (inputs, labels) = samples_of(5000, 1), samples_of(30, 2)
    layout, level, slots = Layout(SAMPLES), 0.8, 40
    known, sent = layout.numbers_of(*public), layout.numbers_of(inputs, labels)
    mean, root = known.mean(axis=0), np.linalg.cholesky(4.0 * np.cov(known.T) + np.eye(8))
    amplitudes = Amplitudes(taking_part=1.0, levels=(level,), shares=(1.0,), alike=True)
    found, expected = [], []
    for one in range(30):
        y = mean + sent_by_somebody * level * (sent[one] - mean) + rng.standard_normal((slots, 8)) @ root.T
        background = SymbolBackground(received_of(y.astype(np.float32), power=4.0), layout, *public)
        mine = background.prepare(inputs[[one]], labels[[one]])
        found.append(score(background, mine, mine[:0].new_zeros((1, 8)), amplitudes).held[0])
        expected.append(slots * level**2 / 2 * float(background.products(mine, slice(0, 1))[1]))
    sign, deviation = (1 if sent_by_somebody else -1), math.sqrt(2 * sum(expected))
    assert deviation < 0.25 * sum(expected)
    assert sum(found) == pytest.approx(sign * sum(expected), abs=4 * deviation)


def test_the_model_names_whom_nearest_neighbours_do_not() -> None:
    """One of 400 workers is 20 times as loud as each other. The likeness of its class's mixture to samples, both
    whitened by public ones, hardly ever names it in 40 slots."""
    rng = np.random.default_rng(6)
    signal = Signal(features=20, classes=3, label_weight=0.5, moments=True)

    def unit_samples(count: int, seed: int) -> tuple[Any, Any]:
        inputs, labels = samples_of(count, seed, features=20)
        return inputs / np.linalg.norm(inputs, axis=1, keepdims=True), labels

    (inputs, labels), public = unit_samples(400, 7), unit_samples(2000, 8)
    sent = Moments(signal).numbers_of(inputs, labels)
    amplitude = np.where(np.arange(400) == 17, math.sqrt(20.0), 1.0)
    weights = amplitude * np.exp(2j * np.pi * rng.uniform(size=(40, 400)))
    noise = rng.standard_normal((2, 40, signal.symbols)) * 0.1 / math.sqrt(2)
    symbols = (weights @ sent + noise[0] + 1j * noise[1]).astype(np.complex64)
    background = background_of(received_of(symbols, noise=0.01), signal, OneHot(3), *public)
    b, c = background.products(background.prepare(inputs, labels), slice(0, 40))
    by_model = int(((b.abs().square() / c).argmax(dim=0) == 17).sum())
    assert by_model >= 12


def test_the_loudest_that_come_first() -> None:
    scores, strength = np.arange(100.0), np.arange(100.0)
    assert vars(Identified.of_loudest(scores, strength, 10)) == {
        "looked_at": 5, "identified": 5, "p_value": pytest.approx(hypergeom.pmf(5, 100, 5, 5)),
    }  # fmt: skip
    backwards = Identified.of_loudest(-scores, strength, 3)
    assert (backwards.looked_at, backwards.identified, backwards.p_value) == (3, 0, 1.0)
    assert Identified.of_loudest(scores, np.ones(100), 10).looked_at == 0


def test_levels_keep_the_power_and_the_loudest_apart() -> None:
    squared = np.full((1, 10_000), 1.0)
    squared[0, :5] = 1000.0
    found = Amplitudes.of(squared, 20_000, alike=True)
    assert found.taking_part == 0.5
    assert sum(found.shares) == pytest.approx(1.0)
    assert sum(s * a**2 for s, a in zip(found.shares, found.levels, strict=True)) == pytest.approx(squared.mean())
    assert found.levels[-1] == pytest.approx(math.sqrt(1000.0))
    assert Amplitudes.of(np.zeros((2, 3)), 5, alike=False).taking_part == 0.0


def test_rows_and_slots() -> None:
    assert slots_kept(10, 1 << 22) == 4
    assert slots_kept(3, 100) == 3
    assert slots_kept(3, 1 << 30) == 1
    products = torch.arange(12.0).reshape(1, 12)  # 4 features x 3 classes
    np.testing.assert_array_equal(rows_of_classes(products, 4, 3)[1].numpy(), [1, 4, 7, 10])
    strongest = strongest_workers(np.array([[4, 2]]), np.array([[0.1, 0.0]]), np.zeros(5, dtype=int), 1)
    np.testing.assert_array_equal(strongest, [4])
