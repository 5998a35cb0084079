"""The solver for all workers at once, against NumPy and SciPy on matrices small enough to write out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsmr

from airmixml.attacks.server_attacks import solve_least_squares, solve_non_negative
from airmixml.attacks.watched import MixingMatrix
from airmixml.radio.draws import SlotDraws

Floats = np.ndarray[Any, np.dtype[np.float64]]
CPU = torch.device("cpu")


def tensor(values: Floats) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))


def shares_of(slots: int, workers: int, seed: int, scheduled: int = 4) -> Floats:
    """Shares of so many workers in each slot, adding up to 1; slots x workers."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((slots, workers))
    for row in dense:
        row[rng.choice(workers, min(scheduled, workers), replace=False)] = rng.dirichlet(
            np.ones(min(scheduled, workers))
        )
    return dense


def problem(
    slots: int, workers: int, seed: int, columns: int = 5, weights: Floats | None = None
) -> tuple[MixingMatrix, Floats, Floats]:
    """Return the matrix, the same as a dense one with its rows weighted, and mixtures."""
    shares = shares_of(slots, workers, seed)
    weights = np.ones(slots) if weights is None else weights
    mixtures = np.random.default_rng(seed + 1).standard_normal((slots, columns))
    return MixingMatrix(csr_array(shares), weights, CPU), shares * np.sqrt(weights)[:, None], mixtures


def solve(matrix: MixingMatrix, mixtures: Floats, **options: Any) -> Floats:
    options = {"ridge": torch.zeros(mixtures.shape[1]), "iterations": 500, "tolerance": 1e-7, **options}
    return solve_least_squares(matrix, tensor(mixtures), **options).double().numpy()


def close(found: Floats, expected: Floats, relative: float = 1e-3) -> None:
    assert np.linalg.norm(found - expected) <= relative * np.linalg.norm(expected)


def test_the_matrix_is_the_dense_one_with_weighted_rows() -> None:
    weights = np.random.default_rng(0).uniform(0.1, 9, 30)
    matrix, dense, mixtures = problem(30, 12, 1, weights=weights)
    samples = np.random.default_rng(2).standard_normal((12, 5))
    np.testing.assert_allclose(matrix.mix(tensor(samples)).numpy(), dense @ samples, atol=1e-5)
    np.testing.assert_allclose(matrix.collect(tensor(mixtures)).numpy(), dense.T @ mixtures, atol=1e-5)
    np.testing.assert_allclose(matrix.heard, np.diag(dense.T @ dense), rtol=1e-12)


@given(seed=st.integers(0, 10**6), slots=st.integers(1, 20), workers=st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_mixing_and_collecting_are_adjoint(seed: int, slots: int, workers: int) -> None:
    matrix, _, mixtures = problem(slots, workers, seed, columns=3)
    samples = np.random.default_rng(seed + 9).standard_normal((workers, 3))
    one = float((matrix.mix(tensor(samples)).double() * torch.from_numpy(mixtures)).sum())
    other = float((torch.from_numpy(samples) * matrix.collect(tensor(mixtures)).double()).sum())
    assert one == pytest.approx(other, abs=1e-4)


def test_a_seat_that_nobody_took_and_a_worker_who_sits_twice() -> None:
    def draws(scheduled: Any, ratios: Any) -> SlotDraws:
        blank = np.zeros((len(ratios), 2))
        return SlotDraws(
            scheduled_workers=np.array(scheduled),
            magnitude=blank,
            ratios=np.array(ratios),
            power_scale_watts=blank[:, 0],
            power_watts=blank,
            limited=blank[:, 0] > 0,
        )

    blocks = [draws([[0, 2], [1, 1]], [[0.25, 0.75], [0.5, 0.5]]), draws([[2, 0]], [[1.0, 0.0]])]
    matrix = MixingMatrix.of(blocks, 4, np.array([1.0, 4.0, 9.0]), CPU)
    expected = np.array([[0.25, 0, 0.75, 0], [0, 2, 0, 0], [0, 0, 3, 0]])
    np.testing.assert_allclose(matrix.mix(torch.eye(4)).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(matrix.heard, [0.0625, 4, 9.5625, 0])


def test_more_slots_than_workers() -> None:
    matrix, dense, mixtures = problem(80, 25, 3)
    close(solve(matrix, mixtures), np.linalg.lstsq(dense, mixtures, rcond=None)[0])
    by_lsmr = np.stack([lsmr(dense, column, atol=1e-12, btol=1e-12)[0] for column in mixtures.T], axis=1)
    close(solve(matrix, mixtures), by_lsmr)


def test_fewer_slots_than_workers_gives_the_solution_of_least_norm() -> None:
    matrix, dense, mixtures = problem(15, 40, 4)
    close(solve(matrix, mixtures), np.linalg.pinv(dense) @ mixtures)


def test_a_ridge_of_each_column() -> None:
    weights = np.random.default_rng(6).uniform(0.1, 10, 20)
    for slots, workers in ((20, 8), (20, 50)):
        matrix, dense, mixtures = problem(slots, workers, 6, columns=3, weights=weights)
        ridges = np.array([1e-2, 1.0, 50.0])
        expected = np.stack(
            [
                np.linalg.solve(dense.T @ dense + ridge * np.eye(workers), dense.T @ column)
                for ridge, column in zip(ridges, mixtures.T, strict=True)
            ],
            axis=1,
        )
        close(solve(matrix, mixtures, ridge=tensor(ridges)), expected)


def test_a_worker_heard_a_hundred_thousand_times_worse_is_found_in_few_iterations() -> None:
    rng = np.random.default_rng(7)
    weights = np.repeat([1e-5, 1.0], 100)
    shares = np.concatenate(
        [np.pad(shares_of(100, 20, 7), ((0, 0), (0, 20))), np.pad(shares_of(100, 20, 8), ((0, 0), (20, 0)))]
    )
    matrix = MixingMatrix(csr_array(shares), weights, CPU)
    truth = rng.uniform(0, 1, (40, 6))
    found = solve(matrix, shares * np.sqrt(weights)[:, None] @ truth, iterations=30, tolerance=1e-6)
    assert np.abs(found - truth).max() < 0.01


def test_columns_stop_by_themselves_and_zeros_stay_zeros() -> None:
    matrix, dense, mixtures = problem(60, 20, 9, columns=4)
    mixtures[:, 0] = 0.0
    mixtures[:, 1] = dense @ np.ones(20)  # another right-hand side takes another number of steps
    mixtures[:, 2] *= 1e12
    found = solve(matrix, mixtures)
    assert (found[:, 0] == 0.0).all()
    expected = np.linalg.lstsq(dense, mixtures, rcond=None)[0]
    for column in (1, 2, 3):
        close(found[:, column], expected[:, column])


@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(1, 11), max_size=4),
    slots=st.integers(45, 80),
    tolerance=st.sampled_from([1e-2, 1e-5]),
)
@settings(max_examples=25, deadline=None)
def test_how_columns_are_cut_into_blocks_does_not_matter(
    seed: int, cuts: list[int], slots: int, tolerance: float
) -> None:
    # Three slots for each worker and more: a badly posed problem blows rounding up beyond any margin.
    matrix, _, mixtures = problem(slots, 15, seed, columns=12)
    mixtures *= 10.0 ** np.arange(-6, 6)
    whole = solve(matrix, mixtures, tolerance=tolerance)
    edges = sorted({0, 12, *cuts})
    parts = [solve(matrix, mixtures[:, low:high], tolerance=tolerance) for low, high in pairwise(edges)]
    for one, other in zip(np.concatenate(parts, axis=1).T, whole.T, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3 * np.abs(other).max())


@pytest.mark.parametrize("exponent", [-26, -12, 12, 26])
def test_the_unit_of_the_weights_does_not_matter(exponent: int) -> None:
    matrix, dense, mixtures = problem(50, 20, 10)
    scaled = MixingMatrix(csr_array(dense), np.full(50, 10.0**exponent), CPU)
    root = 10.0 ** (exponent / 2)
    close(solve(scaled, root * mixtures), solve(matrix, mixtures))
    noisy = mixtures / root  # as received with a noise of 1 / weight
    close(solve(scaled, mixtures), np.linalg.lstsq(dense, noisy, rcond=None)[0])


@pytest.mark.parametrize("slots", [60, 20])
def test_within_the_range_of_what_is_sent_it_is_as_good_as_scipy(slots: int) -> None:
    rng = np.random.default_rng(slots)
    workers, most, weights = 30, np.array([1.0, 0.8, 0.9, 1.2]), rng.uniform(0.1, 10.0, slots)
    shares = shares_of(slots, workers, 13)
    matrix, dense = MixingMatrix(csr_array(shares), weights, CPU), shares * np.sqrt(weights)[:, None]
    truth = np.clip(rng.uniform(-0.6, 1.6, (workers, 4)), 0.0, 1.0)  # many at a bound
    mixtures = (shares @ truth + 0.05 * rng.standard_normal((slots, 4))) * np.sqrt(weights)[:, None]
    start = tensor(solve(matrix, mixtures))
    found = solve_non_negative(matrix, tensor(mixtures), tensor(most), start=start, iterations=500).double().numpy()
    assert found.min() >= 0.0
    assert (found <= most + 1e-6).all()
    for column, bound in enumerate(most):
        best = lsq_linear(dense, mixtures[:, column], (0.0, bound), tol=1e-12)
        left = np.square(dense @ found[:, column] - mixtures[:, column]).sum() / 2.0
        assert left == pytest.approx(best.cost, rel=1e-3, abs=1e-4)
