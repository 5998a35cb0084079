"""What is made of random words: laws by Kolmogorov-Smirnov and chi-square tests at one in 10^4, extremes by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from airmixml.randomness.slot_words import (
    SlotWords,
    exponentials,
    integers_below,
    log_gammas,
    normal_pairs,
    slot_words,
    standard_normals,
    uniforms,
)
from airmixml.streams import Secret, Streams

# No bit set, the highest bit alone, every bit: the words with the most extreme values.
EXTREME = torch.tensor([0, -(2**63), -1])


def source(seed: int = 0) -> SlotWords:
    return slot_words(Streams(seed), "noise")


def test_extreme_words_stay_inside() -> None:
    assert uniforms(EXTREME).tolist() == [2.0**-53, 0.5 + 2.0**-53, 1.0 - 2.0**-53]
    for count in (1, 3, 60_000, 2**31 + 1, 10**12, 2**53):
        found = integers_below(EXTREME, count).tolist()
        assert found[0] == 0
        assert found[1] == count // 2
        assert 0 <= count - 1 - found[2] <= count * 2.0**-52
        assert found[2] < count
    assert torch.isfinite(exponentials(EXTREME)).all()
    values = standard_normals(EXTREME[None], out=torch.empty(1, 6))
    assert torch.isfinite(values).all()
    assert float(values.abs().max()) == pytest.approx(math.sqrt(2 * 41 * math.log(2)), rel=1e-6)  # 7.54 deviations


def test_laws() -> None:
    words = source().words(range(1000), 100)
    assert stats.kstest(uniforms(words).numpy().ravel(), "uniform").pvalue > 1e-4
    assert stats.kstest(exponentials(words).numpy().ravel(), "expon").pvalue > 1e-4
    assert stats.chisquare(np.bincount(integers_below(words, 77).numpy().ravel())).pvalue > 1e-4
    # Shifted by a fiftieth they would not pass.
    assert stats.kstest(uniforms(words).numpy().ravel() + 0.02, "uniform").pvalue < 1e-4


@pytest.mark.parametrize("symbols", [2, 7, 50])
def test_normals_are_independent_and_have_the_tails(symbols: int) -> None:
    slots = 200_000 // symbols
    values = source(1).normals(range(slots), symbols).numpy().astype(np.float64)
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-4
    correlation = np.corrcoef(values.T)[np.triu_indices(symbols, 1)]
    assert np.abs(correlation).max() < 5 / math.sqrt(slots)
    # The two values of a word share a radius: squares must not tell of each other either.
    squares = np.corrcoef((values**2).T)[np.triu_indices(symbols, 1)]
    assert np.abs(squares).max() < 5 / math.sqrt(slots)
    for limit in (2.0, 3.0, 4.0):
        expected = 2 * stats.norm.sf(limit) * values.size
        assert abs((np.abs(values) > limit).sum() - expected) < 5 * math.sqrt(expected) + 1


def test_pairs_are_those_of_the_noise() -> None:
    words = source(2).words(range(5), 3)
    along, across = normal_pairs(words)
    both = standard_normals(words, out=torch.empty(5, 6))
    assert torch.equal(torch.cat([along, across], dim=1).float(), both)


def logarithms(shape: float, columns: int = 40, slots: int = 2000, seed: int = 3) -> np.ndarray:
    words, per_slot = source(seed), 3 * columns
    made = words.words(range(slots), per_slot).reshape(slots, columns, 3)
    return log_gammas(
        torch.full((columns,), shape, dtype=torch.float64),
        made,
        lambda places, attempt: words.words_at(range(slots), per_slot, places, attempt),
    ).numpy()


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 1.5, 30.0, 1e5])
def test_gamma_law(shape: float) -> None:
    found = logarithms(shape).ravel()
    law = stats.gamma(shape)
    assert stats.kstest(law.cdf(np.exp(found)), "uniform").pvalue > 1e-4
    # The mean logarithm is digamma(a), with variance polygamma(1, a).
    error = math.sqrt(float(special.polygamma(1, shape)) / found.size)
    assert abs(found.mean() - special.digamma(shape)) < 5 * error


@pytest.mark.parametrize("shape", [1e-8, 1e-3])
def test_tiny_shapes_by_their_limit(shape: float) -> None:
    """a ln G is minus a standard exponential in the limit a -> 0."""
    assert stats.kstest(-shape * logarithms(shape).ravel(), "expon").pvalue > 1e-4


def test_huge_shapes_are_normal_and_zero_is_nothing() -> None:
    scaled = (np.exp(logarithms(1e10)) - 1e10) / 1e5
    assert stats.kstest(scaled.ravel(), "norm").pvalue > 1e-4
    assert np.isneginf(logarithms(0.0)).all()


def test_any_part_of_the_slots_is_the_same_part() -> None:
    for streams in (Streams(4), Streams(4, Secret())):
        words = slot_words(streams, "schedule")
        whole = words.words(range(300), 5)
        for part in (range(0, 7), range(120, 140), range(256, 300), range(299, 300), range(10, 10)):
            assert torch.equal(words.words(part, 5), whole[part.start : part.stop])
        places = torch.tensor([[0, 3], [40, 99]])
        again = words.words(range(130, 150), 5, 2).flatten()[places]
        assert torch.equal(words.words_at(range(130, 150), 5, places, 2), again)
        normals = slot_words(streams, "noise").normals(range(200), 9)
        assert torch.equal(slot_words(streams, "noise").normals(range(100, 150), 9), normals[100:150])


def test_a_secret_is_no_seed() -> None:
    first, second = (slot_words(Streams(0, Secret()), "noise").words(range(10), 4) for _ in range(2))
    assert not torch.isin(first, second).any()
    assert not torch.isin(first, source().words(range(10), 4)).any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_the_same_numbers() -> None:
    gpu = slot_words(Streams(5), "noise", torch.device("cuda"))
    words, here = gpu.words(range(100), 50), slot_words(Streams(5), "noise").words(range(100), 50)
    assert torch.equal(integers_below(words, 60_000).cpu(), integers_below(here, 60_000))
    assert torch.equal(uniforms(words).cpu(), uniforms(here))
    assert torch.allclose(gpu.normals(range(100), 51).cpu(), source(5).normals(range(100), 51), atol=1e-5)
