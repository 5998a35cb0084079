"""Unmixing: groups are found where samples repeat, none where all is mixed, and estimates beat single slots."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from airmixml.attacks import unmixing
from airmixml.attacks.image_quality import closest_samples, fitted_psnr_db, judge_recovery
from airmixml.attacks.unmixing import joining_threshold, unmix
from airmixml.attacks.whitening import whiten, whitening_of

WORKERS, SLOTS, D = 400, 2400, 120


def samples_of(count: int, seed: int) -> torch.Tensor:
    """Non-negative samples with a common mean and a few large components, as images have."""
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(99).uniform(0, 1, (5, D))
    mixed = rng.dirichlet(np.ones(5), count) @ shapes
    return torch.from_numpy((0.6 * mixed + 0.4 * rng.uniform(0, 1, (count, D))).astype(np.float32))


PRIVATE, PUBLIC = samples_of(WORKERS, 1), samples_of(WORKERS, 2)


def noise_of(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_repeated_samples_under_noise_come_out_cleaner_than_any_slot() -> None:
    chosen = np.random.default_rng(3).integers(WORKERS, size=SLOTS)
    mixtures = PRIVATE[chosen] + 0.05 * noise_of((SLOTS, D), 4)
    found = unmix(mixtures)
    judged = judge_recovery(found.estimates, PRIVATE, PUBLIC, gain_db=12.0)
    grouped = found.group_of_slot >= 0
    assert grouped.mean() > 0.95
    # All slots of a group are of one sample.
    first = np.unique(found.group_of_slot[grouped], return_index=True)[1]
    expected = chosen[grouped][first][found.group_of_slot[grouped]]
    assert np.mean(expected == chosen[grouped]) > 0.999
    assert set(found.group_of_slot[grouped].tolist()) == set(range(len(found.estimates)))
    # A fitted factor leaves var sigma^2 / (var + sigma^2), and six slots a group on average a sixth of sigma^2.
    spread = float(PRIVATE.var(dim=1).median())
    single, joined = (spread * square / (spread + square) for square in (0.05**2, 0.05**2 / 6))
    assert float(fitted_psnr_db(mixtures, PRIVATE[chosen]).median()) == pytest.approx(-10 * math.log10(single), abs=0.3)
    assert judged.median_psnr_db == pytest.approx(-10 * math.log10(joined), abs=0.7)
    assert judged.median_public_psnr_db < 20.0
    assert judged.recovered_samples > 0.95 * len(np.unique(chosen))
    assert judged.estimates == len(found.estimates)


def test_unknown_scales_and_phases_are_solved_for() -> None:
    rng = np.random.default_rng(5)
    chosen = rng.integers(WORKERS, size=SLOTS)
    weights = rng.uniform(0.5, 2.0, SLOTS) * np.exp(2j * np.pi * rng.random(SLOTS))
    noise = torch.complex(noise_of((SLOTS, D), 6), noise_of((SLOTS, D), 7)) * 0.05
    mixtures = torch.from_numpy(weights.astype(np.complex64))[:, None] * PRIVATE[chosen] + noise
    found = unmix(mixtures)
    judged = judge_recovery(found.estimates, PRIVATE, PUBLIC)
    assert not found.estimates.is_complex()
    assert judged.recovered_samples > 0.9 * len(np.unique(chosen))
    assert judged.median_psnr_db > 30.0


def test_a_dominating_sample_among_others_is_found() -> None:
    """Every slot has 0.9 of one sample and 0.1 of the mean of others."""
    rng = np.random.default_rng(8)
    chosen = rng.integers(WORKERS, size=(SLOTS, 8))
    mixtures = 0.9 * PRIVATE[chosen[:, 0]] + 0.1 * PRIVATE[torch.from_numpy(chosen[:, 1:])].mean(dim=1)
    judged = judge_recovery(unmix(mixtures).estimates, PRIVATE, PUBLIC, gain_db=18.0)
    assert judged.recovered_samples > 0.9 * len(np.unique(chosen[:, 0]))


@pytest.mark.parametrize("imaginary", [False, True])
def test_slots_too_noisy_to_be_like_each_other_join_those_that_are_not(imaginary: bool) -> None:
    """Of one worker that sends in 30 slots among noise, some pairs are alike by luck, and those draw in the others."""
    sends = np.arange(SLOTS) % 80 == 0
    noise = noise_of((SLOTS, D), 20)
    if imaginary:
        noise = torch.complex(noise, noise_of((SLOTS, D), 21))
    sample = noise_of((D,), 22)
    signal = 0.9 * torch.from_numpy(sends.astype(np.float32))[:, None] * sample
    found = unmix(noise + signal)
    joined = found.group_of_slot >= 0
    whitened = whiten(noise + signal, whitening_of(noise + signal))
    alike = unmixing._join(whitened, joining_threshold(whitened, 0))[0] >= 0
    assert 0.0 < alike[sends].mean() < 0.4
    assert joined[sends].mean() > 0.55
    assert not joined[~sends].any()
    assert len(found.estimates) == 1


@pytest.mark.parametrize("deviation", [0.0, 0.02, 2.0])
@pytest.mark.parametrize("imaginary", [False, True])
def test_equal_mixtures_of_many_are_never_joined(deviation: float, imaginary: bool) -> None:
    chosen = torch.from_numpy(np.random.default_rng(9).integers(WORKERS, size=(SLOTS, 64)))
    mixtures = PRIVATE[chosen].mean(dim=1) + deviation * noise_of((SLOTS, D), 10)
    if imaginary:
        phases = torch.from_numpy(np.random.default_rng(11).uniform(0, 2 * np.pi, (SLOTS, 64)).astype(np.float32))
        turned = torch.einsum("ts,tsd->td", torch.polar(torch.ones_like(phases), phases), PRIVATE[chosen] + 0j)
        mixtures = turned + deviation * torch.complex(noise_of((SLOTS, D), 12), noise_of((SLOTS, D), 13))
    found = unmix(mixtures)
    assert len(found.estimates) <= 1
    assert joining_threshold(whiten(mixtures, whitening_of(mixtures)), 0) < 1.0


@pytest.mark.parametrize("imaginary", [False, True])
@pytest.mark.parametrize("directions", [20, 200])
def test_the_threshold_is_what_random_directions_hardly_exceed(imaginary: bool, directions: int) -> None:
    """Squared correlations are Beta(1/2, (k-1)/2), or Beta(1, k-1) of complex ones: exact tails to hold it against."""
    values = noise_of((3000, directions), 14)
    if imaginary:
        values = torch.complex(values, noise_of((3000, directions), 15))
    threshold = joining_threshold(values / torch.linalg.vector_norm(values, dim=1, keepdim=True), 0)
    law = beta(1.0, directions - 1) if imaginary else beta(0.5, (directions - 1) / 2)
    exceeding = law.sf(threshold**2) * 3000 * 2999 / 2
    assert 1e-4 < exceeding < 0.5


def test_a_chain_is_no_group() -> None:
    """Twenty directions, each like the next alone, are not one sample; five equal ones are."""
    angles = np.radians(np.concatenate([np.arange(20) * 9.0, np.full(5, 265.0)]))
    rows = torch.from_numpy(np.column_stack([np.cos(angles), np.sin(angles), np.zeros(25)]))
    rows[20:] = torch.tensor([0.0, 0.0, 1.0], dtype=rows.dtype)
    group_of_slot, needed = unmixing._join(rows, math.cos(math.radians(10.0)))
    assert np.all(needed[:20] > needed[20:].max())
    assert len(set(group_of_slot[20:])) == 1
    assert group_of_slot[20] >= 0
    assert np.unique(group_of_slot[:20], return_counts=True)[1][np.unique(group_of_slot[:20]) >= 0].max(initial=0) <= 3


def test_links_are_those_of_brute_force() -> None:
    values = torch.complex(noise_of((70, 4), 16), noise_of((70, 4), 17))
    values = values / torch.linalg.vector_norm(values, dim=1, keepdim=True)
    rows, columns, likeness = unmixing._find_links(values, 0.7, numbers_at_once=500)  # blocks of seven slots
    every = np.abs(values.numpy().conj() @ values.numpy().T)
    expected = {(i, j) for i in range(70) for j in range(i + 1, 70) if every[i, j] > 0.7}
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == expected
    np.testing.assert_allclose(likeness, every[rows, columns], rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_fit_is_that_of_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample, other = rng.uniform(0, 1, (2, 30))
    estimate = rng.uniform(0.1, 5) * sample + rng.uniform(0, 1) * other + rng.uniform(-3, 3)
    columns = np.column_stack([estimate, np.ones(30)])
    factors, _, _, _ = np.linalg.lstsq(columns, sample, rcond=None)
    error = np.mean((columns @ factors - sample) ** 2) if factors[0] > 0 else np.var(sample)
    found = fitted_psnr_db(torch.from_numpy(estimate)[None], torch.from_numpy(sample)[None])
    assert float(found[0]) == pytest.approx(-10 * math.log10(error), abs=1e-6)


def test_ends_of_the_scale() -> None:
    sample = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert float(fitted_psnr_db(3.0 * sample + 1.0, sample)[0]) == pytest.approx(150.0)
    assert float(fitted_psnr_db(torch.ones((1, 4)), sample)[0]) == pytest.approx(-10 * math.log10(0.25))
    assert float(fitted_psnr_db(-sample, sample)[0]) == pytest.approx(-10 * math.log10(0.25))


def test_the_closest_sample_has_the_largest_psnr() -> None:
    estimates = PRIVATE[:40] + 0.2 * noise_of((40, D), 19)
    every = torch.stack([fitted_psnr_db(estimates, PRIVATE[i].expand(40, D)) for i in range(WORKERS)])
    np.testing.assert_array_equal(closest_samples(estimates, PRIVATE).numpy(), every.argmax(dim=0).numpy())


def test_nothing_found_is_nothing_recovered() -> None:
    judged = judge_recovery(torch.zeros((0, D)), PRIVATE, PUBLIC)
    assert (judged.estimates, judged.recovered_samples) == (0, 0)
    for mixtures in (PRIVATE[:1], torch.zeros((5, D))):
        found = unmix(mixtures)
        assert found.estimates.shape == (0, D)
        assert (found.group_of_slot == -1).all()
