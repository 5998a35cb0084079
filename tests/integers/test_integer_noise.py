"""The mechanism: rounding, noise in shares, masks that cancel, and both paths to the same sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.integers.encoding import draw_skellam, reduce, signed
from airmixml.messages import PrivacyError
from airmixml.privacy.gaussian import gaussian_mu
from integers_by_hand import (
    add_up,
    calibrated,
    code_for,
    masked,
    one_number_delta,
    smallest_honest_group,
    stated_epsilon,
)

CYCLE = np.array([(i, (i + 1) % 12) for i in range(12)])


def pair_generator(one: int, other: int) -> np.random.Generator:
    return np.random.default_rng((7, one, other))


def some_vectors(workers: int, numbers: int, norm: float = 1.0) -> np.ndarray:
    vectors = np.random.default_rng(0).standard_normal((workers, numbers))
    return vectors * (norm / np.linalg.norm(vectors, axis=1, keepdims=True))


def code_of(bits: int = 16, numbers: int = 40, workers: int = 12) -> IntegerCode:
    return code_for(numbers=numbers, norm=1.0, workers=workers, bits=bits)


@pytest.mark.parametrize("bits", [8, 16, 30])
def test_masks_cancel_and_both_paths_give_the_same_sum(bits: int) -> None:
    mechanism = IntegerNoise(code=code_of(bits), workers=12, variance_per_worker=3.0)
    generator = np.random.default_rng(1)
    integers = mechanism.code.rounded(some_vectors(12, 40), generator) + draw_skellam(3.0, generator, (12, 40))
    sent = masked(integers, CYCLE, pair_generator, bits)
    assert (add_up(sent, bits) == reduce(integers.sum(axis=0), bits)).all()
    inside = np.abs(integers.sum(axis=0)) < 2 ** (bits - 1)
    assert (mechanism.decoded(add_up(sent, bits)) == integers.sum(axis=0) * mechanism.code.step)[inside].all()
    assert inside.all()
    assert (sent != reduce(integers, bits)).mean() > 0.9


def test_the_short_path_is_the_long_one_with_the_same_draws() -> None:
    """Of the same rounding the short path draws one number of the total variance: that number is all that differs."""
    mechanism = IntegerNoise(code=code_of(), workers=12, variance_per_worker=3.0)
    vectors = some_vectors(12, 40)
    short = mechanism.sum_of(np.split(vectors, [5, 10]), np.random.default_rng(1))
    generator = np.random.default_rng(1)
    rounded = np.concatenate([mechanism.code.rounded(block, generator) for block in np.split(vectors, [5, 10])])
    noise = draw_skellam(36.0, generator, (40,))
    shares = np.zeros((12, 40), dtype=np.int64)
    shares[3] = noise  # whoever brings it
    sent = masked(rounded + shares, CYCLE, pair_generator, 16)
    assert (short == mechanism.decoded(add_up(sent, 16))).all()


def test_shares_of_noise_add_up_to_the_total() -> None:
    """Second and fourth moments of the sums of 60 shares are those of one Skellam number: V and 3 V^2 + V."""
    shares = draw_skellam(0.05, np.random.default_rng(3), (60, 100_000)).sum(axis=0)
    assert shares.var() == pytest.approx(3.0, rel=0.02)
    assert (shares.astype(float) ** 4).mean() == pytest.approx(3 * 9.0 + 3.0, rel=0.06)


def test_what_is_sent_is_uniform_whatever_is_hidden() -> None:
    """Each worker's residues over many seeds: 16 values, chi-square with 15 degrees of freedom, below 50 at 1e-5."""
    integers = np.array([[3], [-2], [900]])
    triangle = np.array([(0, 1), (1, 2), (0, 2)])
    seen = np.zeros((3, 16))
    for seed in range(1600):
        sent = masked(integers, triangle, lambda i, j, seed=seed: np.random.default_rng((seed, i, j)), 4)  # type: ignore[misc]
        seen[np.arange(3), sent[:, 0].astype(int)] += 1
    assert (((seen - 100.0) ** 2 / 100.0).sum(axis=1) < 50.0).all()


def test_colluders_that_cut_the_graph_leave_a_small_group() -> None:
    assert smallest_honest_group(12, CYCLE) == 12
    assert smallest_honest_group(12, CYCLE, [0]) == 11
    assert smallest_honest_group(12, CYCLE, [0, 4]) == 3
    assert smallest_honest_group(12, CYCLE[:0]) == 1
    with pytest.raises(PrivacyError, match="colluders = 12"):
        smallest_honest_group(12, CYCLE, range(12))
    with pytest.raises(PrivacyError, match="edges"):
        masked(np.zeros((2, 1), dtype=np.int64), np.array([[0, 2]]), pair_generator, 8)


@given(bits=st.integers(2, 62), value=st.integers(-(2**61), 2**61 - 1))
@settings(max_examples=200, deadline=None)
def test_residues_stand_for_the_nearest_integers_to_zero(bits: int, value: int) -> None:
    found = int(signed(reduce(np.array([value]), bits), bits)[0])
    assert -(2 ** (bits - 1)) <= found < 2 ** (bits - 1)
    assert (found - value) % 2**bits == 0


def test_rounding_is_right_on_average_and_moves_by_less_than_a_step() -> None:
    code = code_of(8)
    vector = some_vectors(1, 40)
    found = code.rounded(np.repeat(vector, 40_000, axis=0), np.random.default_rng(4))
    assert np.abs(found - vector / code.step).max() < 1.0
    assert found.mean(axis=0) == pytest.approx(vector[0] / code.step, abs=5 * 0.5 / 200)


@given(seed=st.integers(0, 1000), longer=st.floats(0.1, 1e6))
@settings(max_examples=50, deadline=None)
def test_no_input_moves_the_mean_by_more_than_the_norm(seed: int, longer: float) -> None:
    """Vectors of any length: rounded 4000 times, their mean is no longer than D / step, within the sampling error."""
    code = IntegerCode(numbers=3, norm=1.0, step=0.05, bits=20)
    vector = np.random.default_rng(seed).standard_normal((1, 3)) * longer
    mean = code.rounded(np.repeat(vector, 4000, axis=0), np.random.default_rng(seed)).mean(axis=0)
    assert np.linalg.norm(mean) <= 20.0 + 5 * math.sqrt(3) * 0.5 / math.sqrt(4000)


def test_broken_input_is_refused() -> None:
    with pytest.raises(PrivacyError, match="vectors: must be finite"):
        code_of().rounded(np.array([[math.nan] * 40]), np.random.default_rng(0))
    fine = IntegerCode(numbers=2, norm=1.0, step=1e-3, bits=30)
    with pytest.raises(PrivacyError, match="vectors: must be finite, in steps too"):
        fine.rounded(np.array([[1e308, 1.0]]), np.random.default_rng(0))
    assert np.abs(fine.rounded(np.array([[1e200, 1.0]]), np.random.default_rng(0))).max() <= 1000
    with pytest.raises(PrivacyError, match=r"privacy\.modulus_bits = 63"):
        code_of(63)
    with pytest.raises(PrivacyError, match="step = 1e-10"):
        IntegerCode(numbers=1, norm=1.0, step=1e-10, bits=40)
    with pytest.raises(PrivacyError, match=r"privacy\.modulus_bits = 8: the noise alone.* use 14 bits"):
        IntegerNoise(code=code_of(8), workers=12, variance_per_worker=2e5)
    mechanism = IntegerNoise(code=code_of(), workers=12, variance_per_worker=1.0)
    with pytest.raises(PrivacyError, match="blocks: hold 11 workers"):
        mechanism.sum_of([some_vectors(11, 40)], np.random.default_rng(0))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_calibrated_noise_meets_its_target_barely(epsilon: float, distance: float) -> None:
    code = code_for(numbers=35_456, norm=math.sqrt(1.25), workers=60_000, bits=20)
    mechanism = calibrated(code, workers=60_000, epsilon=epsilon, delta=1e-5, distance=distance)
    assert 0.9999 * epsilon < stated_epsilon(mechanism, 1e-5, distance=distance) <= epsilon
    gaussian = distance * code.norm / gaussian_mu(epsilon, 1e-5)
    # Never less noise than a Gaussian needs, and hardly more.
    assert gaussian < math.sqrt(mechanism.noise_variance) < 1.06 * gaussian


def test_honest_workers_alone_carry_the_noise() -> None:
    code = code_for(numbers=1000, norm=1.0, workers=10_000, bits=20)
    full = calibrated(code, workers=10_000, epsilon=1.0, delta=1e-6)
    half = calibrated(code, workers=10_000, epsilon=1.0, delta=1e-6, honest=5000)
    assert half.variance_per_worker == pytest.approx(2 * full.variance_per_worker, rel=1e-6)
    assert stated_epsilon(half, 1e-6, honest=5000) == pytest.approx(1.0, rel=1e-6)
    assert stated_epsilon(full, 1e-6, honest=5000) > 1.3
    assert stated_epsilon(half, 1e-6) < 0.8


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_claim_holds_for_a_move_in_one_number_and_is_nearly_reached(epsilon: float) -> None:
    """All of the norm in one number: its exact delta by sums over integers, which no claim may be below."""
    code = code_for(numbers=64, norm=1.0, workers=500, bits=18)
    mechanism = calibrated(code, workers=500, epsilon=epsilon, delta=1e-5)
    total = 500 * mechanism.variance_per_worker
    exact = one_number_delta(total, code.steps, epsilon)
    assert exact <= 1e-5
    assert one_number_delta(total, code.steps, 0.97 * epsilon) > 1e-5
    assert one_number_delta(total / 1.1, code.steps, epsilon) > 1e-5  # a tenth less noise would break it


def test_the_modelled_sum_has_the_moments_of_the_real_one() -> None:
    code = code_for(numbers=2000, norm=1.0, workers=600, bits=12)
    mechanism = IntegerNoise(code=code, workers=600, variance_per_worker=0.05)
    vectors = some_vectors(600, 2000)
    exact = vectors.sum(axis=0)
    generator = np.random.default_rng(6)
    real = mechanism.sum_of(np.split(vectors, 10), generator) - exact
    modelled = mechanism.modelled_sum(exact, vectors[:200], generator) - exact
    assert real.std() == pytest.approx(modelled.std(), rel=0.08)
    assert real.std() ** 2 <= mechanism.sum_variance * 1.1
    assert real.std() ** 2 > mechanism.noise_variance
    assert abs(real.mean()) < 5 * real.std() / math.sqrt(2000)
