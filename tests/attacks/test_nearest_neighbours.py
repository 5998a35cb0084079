"""Nearest neighbours against brute force, at both ends: everything leaks, nothing does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.attacks.listener_attacks import score_neighbours, whitening_of
from airmixml.attacks.measured import Linkage


def samples_of(count: int, d: int, seed: int) -> torch.Tensor:
    """Non-negative samples with a common mean and a few large components, as images have."""
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(99).uniform(0, 1, (5, d))
    mixed = rng.dirichlet(np.ones(5), count) @ shapes
    return torch.from_numpy((0.7 * mixed + 0.3 * rng.uniform(0, 1, (count, d))).astype(np.float32))


def mixtures_of(private: torch.Tensor, slots: int, scheduled: int, noise: float, seed: int) -> tuple[torch.Tensor, Any]:
    """Equal mixtures of so many samples; and the first sample of each slot."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(private), size=(slots, scheduled))
    mixed = private[torch.from_numpy(chosen)].mean(dim=1)
    return mixed + noise * torch.from_numpy(rng.standard_normal(mixed.shape).astype(np.float32)), chosen[:, 0]


def linked(mixtures: torch.Tensor, private: torch.Tensor, public: torch.Tensor) -> Linkage:
    return Linkage.of(score_neighbours(mixtures, private, public, whitening_of(mixtures)), "likeness")


def test_correlations_are_those_of_whitening_written_out() -> None:
    private, public = samples_of(40, 8, 1).double(), samples_of(30, 8, 2).double()
    mixtures = mixtures_of(private.float(), 150, 2, 0.05, 3)[0].double()
    scores = score_neighbours(mixtures, private, public, whitening_of(mixtures), numbers_at_once=1100)
    rows = mixtures.numpy() / np.linalg.norm(mixtures.numpy(), axis=1, keepdims=True)
    _, lengths, directions = np.linalg.svd(rows, full_matrices=False)
    whiten = directions.T / lengths
    mine, theirs = rows @ whiten, np.vstack([private, public]) @ whiten
    cosines = (mine / np.linalg.norm(mine, axis=1, keepdims=True)) @ (
        theirs / np.linalg.norm(theirs, axis=1, keepdims=True)
    ).T
    np.testing.assert_allclose(np.concatenate([scores.held, scores.decoys]), cosines.max(axis=0), rtol=1e-9)


def test_single_samples_leak_everything() -> None:
    private, public = samples_of(300, 60, 1), samples_of(300, 60, 2)
    mixtures, _ = mixtures_of(private, 4000, 1, 0.01, 3)
    found = linked(mixtures, private, public)
    assert min(found.auc, found.hit_rate) > 0.999


def test_noise_alone_leaves_chance() -> None:
    private, public = samples_of(500, 60, 1), samples_of(500, 60, 2)
    noise = torch.from_numpy(np.random.default_rng(4).standard_normal((3000, 60)).astype(np.float32))
    for mixtures in (noise, torch.complex(noise, noise.flip(0))):
        found = linked(mixtures, private, public)
        assert abs(found.auc - 0.5) < 4 * found.auc_chance_deviation
        assert found.hit_rate < 0.05


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_scale_and_phase_of_each_slot_do_not_matter(seed: int) -> None:
    private, public = samples_of(50, 20, 1).double(), samples_of(50, 20, 2).double()
    mixtures = mixtures_of(private.float(), 200, 1, 0.02, 3)[0].double()
    rng = np.random.default_rng(seed)
    factor = torch.from_numpy(10.0 ** rng.uniform(-6, 6, (200, 1)))
    turn = torch.from_numpy(np.exp(1j * rng.uniform(0, 2 * np.pi, (200, 1))))
    plain, scaled, turned = (
        score_neighbours(each, private, public, whitening_of(each)).held
        for each in (mixtures, factor * mixtures, factor * turn * mixtures)
    )
    np.testing.assert_allclose(scaled, plain, rtol=1e-7)
    # A phase hides the sign: a mixture as unlike a candidate as can be counts as like it.
    assert np.all(turned >= plain - 1e-7)


def test_whitened_mixtures_have_no_direction_in_common_more_than_others() -> None:
    mixtures = mixtures_of(samples_of(300, 30, 1), 5000, 8, 0.02, 3)[0].double()
    whitened = torch.nn.functional.normalize(mixtures) @ whitening_of(mixtures)
    moments = (whitened.T @ whitened / len(mixtures)).numpy()
    np.testing.assert_allclose(moments, np.eye(len(moments)), atol=1e-8)
    assert len(moments) == 30
    before, after = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (mixtures.numpy(), whitened.numpy())
    )
    assert np.median(before @ before[0]) > 0.98
    assert abs(np.median(after @ after[0])) < 0.1


def test_one_number_stays_one_number() -> None:
    values = torch.tensor([[0.2], [0.9]])
    assert linked(values, values, torch.tensor([[0.5]])).auc == 0.5
