"""Unmixing: groups are found where samples repeat, none where all is mixed, and estimates beat single slots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import beta

from airmixml.attacks import unmixing
from airmixml.attacks.unmixing import joining_threshold, unmix, whiten, whitening_of

WORKERS, SLOTS, D = 400, 2000, 100


def samples_of(count: int, seed: int) -> torch.Tensor:
    """Non-negative samples with a common mean and a few large components, as images have."""
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(99).uniform(0, 1, (5, D))
    mixed = rng.dirichlet(np.ones(5), count) @ shapes
    return torch.from_numpy((0.6 * mixed + 0.4 * rng.uniform(0, 1, (count, D))).astype(np.float32))


PRIVATE = samples_of(WORKERS, 1)


def noise_of(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def errors_of(estimates: torch.Tensor, samples: torch.Tensor) -> Any:
    """Mean squared error of a e + b beside x, best a and b: var(x) (1 - rho^2); estimates x samples."""
    ours, theirs = (
        each - each.mean(axis=1, keepdims=True) for each in (estimates.double().numpy(), samples.double().numpy())
    )
    correlation = (ours @ theirs.T) / np.outer(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1))
    return theirs.var(axis=1) * (1.0 - correlation.clip(0.0) ** 2)


def recovered(estimates: torch.Tensor, gain: float) -> int:
    """How many samples an estimate fits so many times better than a constant does."""
    errors = errors_of(estimates, PRIVATE)
    closest = errors.argmin(axis=1)
    spread = PRIVATE.double().numpy().var(axis=1)[closest]
    return len(np.unique(closest[errors.min(axis=1) < spread / gain]))


def test_repeated_samples_under_noise_come_out_cleaner_than_any_slot() -> None:
    chosen = np.random.default_rng(3).integers(WORKERS, size=SLOTS)
    mixtures = PRIVATE[chosen] + 0.05 * noise_of((SLOTS, D), 4)
    found = unmix(mixtures)
    grouped = found.group_of_slot >= 0
    assert grouped.mean() > 0.95
    # All slots of a group are of one sample.
    first = np.unique(found.group_of_slot[grouped], return_index=True)[1]
    expected = chosen[grouped][first][found.group_of_slot[grouped]]
    assert np.mean(expected == chosen[grouped]) > 0.999
    assert set(found.group_of_slot[grouped].tolist()) == set(range(len(found.estimates)))
    # A fitted factor leaves var sigma^2 / (var + sigma^2), and five slots a group on average a fifth of sigma^2.
    spread = float(PRIVATE.var(dim=1).median())
    joined = spread * 0.05**2 / 5 / (spread + 0.05**2 / 5)
    assert np.median(errors_of(found.estimates, PRIVATE).min(axis=1)) == pytest.approx(joined, rel=0.15)
    assert recovered(found.estimates, 16.0) > 0.95 * len(np.unique(chosen))


def test_unknown_scales_and_phases_are_solved_for() -> None:
    rng = np.random.default_rng(5)
    chosen = rng.integers(WORKERS, size=SLOTS)
    weights = rng.uniform(0.5, 2.0, SLOTS) * np.exp(2j * np.pi * rng.random(SLOTS))
    noise = torch.complex(noise_of((SLOTS, D), 6), noise_of((SLOTS, D), 7)) * 0.05
    mixtures = torch.from_numpy(weights.astype(np.complex64))[:, None] * PRIVATE[chosen] + noise
    found = unmix(mixtures)
    assert not found.estimates.is_complex()
    assert recovered(found.estimates, 10.0) > 0.9 * len(np.unique(chosen))
    assert np.median(errors_of(found.estimates, PRIVATE).min(axis=1)) < 1e-3


def test_a_dominating_sample_among_others_is_found() -> None:
    """Every slot has 0.9 of one sample and 0.1 of the mean of others."""
    rng = np.random.default_rng(8)
    chosen = rng.integers(WORKERS, size=(SLOTS, 8))
    mixtures = 0.9 * PRIVATE[chosen[:, 0]] + 0.1 * PRIVATE[torch.from_numpy(chosen[:, 1:])].mean(dim=1)
    assert recovered(unmix(mixtures).estimates, 63.0) > 0.9 * len(np.unique(chosen[:, 0]))


@pytest.mark.parametrize("imaginary", [False, True])
def test_slots_too_noisy_to_be_like_each_other_join_those_that_are_not(imaginary: bool) -> None:
    """Of one worker that sends in 30 slots among noise, some pairs are alike by luck, and those draw in the others."""
    slots = 1500
    sends = np.arange(slots) % 50 == 0
    noise = noise_of((slots, D), 20)
    if imaginary:
        noise = torch.complex(noise, noise_of((slots, D), 21))
    signal = torch.from_numpy(sends.astype(np.float32))[:, None] * noise_of((D,), 22)
    whitened = whiten(noise + signal, whitening_of(noise + signal))
    pairs = unmixing._join(whitened, joining_threshold(whitened, 0))
    alike, grown = pairs[0] >= 0, unmixing._grow(whitened, *pairs)
    assert 0.0 < alike[sends].mean() < 0.4
    assert (grown[sends] == 0).mean() > 0.55
    assert np.all(grown[~sends] == -1)
    assert grown.max() == 0


@pytest.mark.parametrize(("deviation", "imaginary"), [(0.0, False), (2.0, False), (0.02, True)])
def test_equal_mixtures_of_many_are_never_joined(deviation: float, imaginary: bool) -> None:
    slots = 1000
    chosen = torch.from_numpy(np.random.default_rng(9).integers(WORKERS, size=(slots, 32)))
    mixtures = PRIVATE[chosen].mean(dim=1) + deviation * noise_of((slots, D), 10)
    if imaginary:
        phases = torch.from_numpy(np.random.default_rng(11).uniform(0, 2 * np.pi, (slots, 32)).astype(np.float32))
        parts = [(part[:, None, :] @ PRIVATE[chosen])[:, 0] for part in (phases.cos(), phases.sin())]
        turned = torch.complex(*parts)
        mixtures = turned + deviation * torch.complex(noise_of((slots, D), 12), noise_of((slots, D), 13))
    whitened = whiten(mixtures, whitening_of(mixtures))
    threshold = joining_threshold(whitened, 0)
    assert threshold < 1.0
    assert unmixing._join(whitened, threshold)[0].max() <= 0  # one pair at most


@pytest.mark.parametrize("imaginary", [False, True])
@pytest.mark.parametrize("directions", [20, 60])
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


def test_nothing_found_is_nothing_recovered() -> None:
    for mixtures in (PRIVATE[:1], torch.zeros((5, D))):
        found = unmix(mixtures)
        assert found.estimates.shape == (0, D)
        assert (found.group_of_slot == -1).all()
