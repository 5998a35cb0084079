"""What the feature encoders compute, against SciPy, hand-made images and the geometry that they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft
from scipy.linalg import hadamard

from airmixml import ScenarioError
from airmixml.data.embedded import load_digits, public_images
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import encode, encoded_dim, finish_encoding, load_dataset
from airmixml.workers.encoders.images import compass_edges, edge_histograms, filter_sums, random_filters, straighten
from airmixml.workers.encoders.random_features import draw_signs, mixing_matrix, rectified_mix, walsh_hadamard

FEATURE_ENCODERS = ("dct", "projection", "convolution", "gradients", "cells")


def images(count: int, side: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, side * side)).astype(np.float32)


def unbounded(encoder: str, **more: object) -> Workers:
    """Features as they are: a norm that nothing reaches."""
    return Workers(encoder=encoder, clip_norm=1e6, **more)


def test_the_cosine_features_are_the_lowest_frequencies() -> None:
    """4 x 4: frequencies (row + column) / 4 in order, rows first among equals: 00, 01, 10, 02, 11, 20, 03."""
    raw = images(5, 4)
    by_scipy = fft.dctn(raw.reshape(5, 4, 4).astype(np.float64), axes=(1, 2), norm="ortho")
    chosen = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0), (0, 3)]
    found, _ = encode(unbounded("dct", features=7), raw, image_shape=(4, 4))
    assert found == pytest.approx(np.array([[each[place] for place in chosen] for each in by_scipy]), abs=1e-6)
    plain, _ = encode(unbounded("dct", features=3), raw)
    assert plain == pytest.approx(fft.dct(raw.astype(np.float64), norm="ortho")[:, :3], abs=1e-6)


def test_all_cosine_features_keep_every_norm() -> None:
    raw = images(20, 4)
    found, _ = encode(unbounded("dct", features=10**6), raw, image_shape=(4, 4))
    assert found.shape == raw.shape
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.linalg.norm(raw, axis=1), rel=1e-5)


def test_projections_keep_squared_norms_on_average() -> None:
    """E ||S x||^2 = ||x||^2, with a deviation of at most sqrt(2 / 4000) of it; five of them are 11 %."""
    raw = images(6, 5)
    found, _ = encode(unbounded("projection", features=4000), raw, streams=Streams(3))
    assert np.square(found).sum(axis=1) / np.square(raw).sum(axis=1) == pytest.approx(np.ones(6), abs=0.11)
    zero, _ = encode(unbounded("projection", features=8), np.zeros((1, 25), dtype=np.float32))
    assert not zero.any()
    single = np.eye(25, dtype=np.float32)[:1]
    assert np.abs(encode(unbounded("projection", features=16), single)[0]) == pytest.approx(np.full((1, 16), 0.25))


def test_projections_are_linear() -> None:
    raw = images(2, 5) / 2.0
    both = np.vstack([raw, raw.sum(axis=0, keepdims=True)]).astype(np.float32)
    one, two, together = encode(unbounded("projection"), both)[0]
    assert one + two == pytest.approx(together, abs=1e-5)


# Where each of the 8 directions stands in the histogram: right, left, down, up, then the diagonals.
RIGHT, LEFT, DOWN, UP = range(4)


@pytest.mark.parametrize(("turn", "direction", "opposite"), [(0, RIGHT, LEFT), (1, UP, DOWN), (2, LEFT, RIGHT)])
def test_an_edge_puts_its_strength_into_its_direction(turn: int, direction: int, opposite: int) -> None:
    """Dark on the left, bright on the right: gradients point right; turned, a quarter or a half.

    rot90 turns against the clock, so that the bright side comes up. The bar in the middle of the image has two sides,
    both of the same strength.
    """
    image = np.zeros((28, 28), dtype=np.float32)
    image[:, 12:16] = np.linspace(0.1, 0.9, 4)  # rises over four columns, falls at once
    turned = torch.from_numpy(np.rot90(image, turn).copy())[None]
    histogram = edge_histograms(turned[:, None]).reshape(8, 16).square().sum(dim=1).numpy()
    assert histogram[direction] + histogram[opposite] > 0.85 * histogram.sum()
    assert min(histogram[direction], histogram[opposite]) > 0.3 * histogram.sum()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_a_gradient_is_the_sum_of_its_two_compass_directions(seed: int) -> None:
    image = torch.from_numpy(images(1, 9, seed).reshape(1, 9, 9))
    parts = compass_edges(image)[0]
    half = math.sqrt(0.5)
    steps = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1], [half, half], [half, -half], [-half, half], [-half, -half]])
    across, down = torch.einsum("kij,kc->cij", parts, steps)
    padded = torch.nn.functional.pad(image[0], (1, 1, 1, 1))
    assert torch.allclose(across, padded[1:-1, 2:] - padded[1:-1, :-2], atol=1e-5)
    assert torch.allclose(down, padded[2:, 1:-1] - padded[:-2, 1:-1], atol=1e-5)
    assert (parts >= 0.0).all()
    assert ((parts > 0.0).sum(dim=0) <= 2).all()


def test_rising_and_falling_edges_are_told_apart() -> None:
    """A ramp rises to the right everywhere and falls at the rim only; its mirror image does the opposite."""
    ramp = torch.linspace(0.0, 1.0, 28).expand(28, 28)
    rising, falling = (
        edge_histograms(each[None, None].contiguous()).reshape(8, 4, 4).square() for each in (ramp, ramp.flip(1))
    )
    assert float(rising[RIGHT, 1, 1]) > 20.0 * float(rising[LEFT, 1, 1])  # a cell in the middle
    assert float(falling[LEFT, 1, 1]) > 20.0 * float(falling[RIGHT, 1, 1])
    assert torch.allclose(rising[RIGHT], falling[LEFT].flip(1), rtol=0.2, atol=0.05)


def test_mixing_by_signs_and_hadamard_keeps_norms_and_takes_the_positive_part() -> None:
    """Against SciPy's Hadamard matrix; two blocks of 8 give 16 numbers, of which 11 are kept."""
    vectors = images(5, 3)[:, :8] - 0.5
    by_scipy = vectors @ hadamard(8) / math.sqrt(8.0)
    assert walsh_hadamard(vectors) == pytest.approx(by_scipy, abs=1e-5)
    signs = draw_signs(11, 8, np.random.default_rng(0))
    assert signs.shape == (2, 2, 8)
    assert set(signs.ravel().tolist()) == {-1.0, 1.0}
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found = lengths * rectified_mix(vectors, mixing_matrix(signs, 11))
    turned = [walsh_hadamard(walsh_hadamard(vectors * first) * second) for first, second in signs]
    assert np.linalg.norm(turned[0], axis=1) == pytest.approx(np.linalg.norm(vectors, axis=1), rel=1e-5)
    assert found == pytest.approx(np.maximum(np.hstack(turned), 0.0)[:, :11], abs=1e-6)


def test_strength_counts_by_its_square_root() -> None:
    """An image a quarter as bright has histograms half as large."""
    image = torch.from_numpy(images(3, 12).reshape(3, 1, 12, 12))
    assert torch.allclose(edge_histograms(image / 4.0), edge_histograms(image) / 2.0, atol=2e-3)
    assert not edge_histograms(torch.zeros(2, 1, 12, 12)).any()


def moments_of(image: np.ndarray) -> tuple[float, float, float]:
    """Centre row, centre column and the mixed moment about them, from the middle of the image."""
    rows, columns = np.indices(image.shape) - (np.array(image.shape) - 1)[:, None, None] / 2
    mass = image.sum()
    row, column = (image * rows).sum() / mass, (image * columns).sum() / mass
    return row, column, (image * (rows - row) * (columns - column)).sum() / mass


@pytest.mark.parametrize("slant", [-0.4, 0.0, 0.3])
def test_straightened_images_stand_upright_in_the_middle(slant: float) -> None:
    """A slanted bar of Gaussian breadth, moved off the middle; within a tenth of a pixel, and a tenth of its moment."""
    rows, columns = np.indices((28, 28)) - 13.5
    bar = np.exp(-(((columns - 3 - slant * rows) / 1.5) ** 2)) * np.exp(-(((rows + 2) / 4) ** 4))
    before = moments_of(bar)
    assert abs(before[1]) > 2
    row, column, mixed = moments_of(straighten(torch.from_numpy(bar)[None])[0].numpy())
    assert abs(row - before[0]) < 0.1  # rows are shifted sideways only
    assert abs(column) < 0.1
    assert abs(mixed) < 0.1 * max(abs(before[2]), 1.0)
    if slant:
        assert abs(before[2]) > 1.0


def test_an_empty_image_is_straightened_to_an_empty_one() -> None:
    assert not straighten(torch.zeros(1, 9, 9)).any()


def test_filters_give_nothing_on_a_plain_surface_and_their_answer_on_a_dot() -> None:
    filters = random_filters(3, np.random.default_rng(1))
    assert filters.shape == (3, 5, 5)
    assert filters.sum(axis=(1, 2)) == pytest.approx(np.zeros(3), abs=1e-5)
    dot = torch.zeros(1, 15, 15)
    dot[0, 7, 7] = 1.0
    found = filter_sums(dot[None], filters).reshape(3, 4, 4)
    # A dot answers with the filter turned round; the cells around the middle share all of its positive part.
    assert found.sum(dim=(1, 2)).numpy() == pytest.approx(np.maximum(filters, 0).sum(axis=(1, 2)), rel=1e-5)
    assert (found[:, 1:3, 1:3].sum(dim=(1, 2)) > found[:, 0, 0]).all()


@pytest.mark.parametrize("encoder", FEATURE_ENCODERS)
def test_the_seed_decides_the_features_and_nothing_else_does(encoder: str) -> None:
    raw, more = images(12, 8), images(3, 8, seed=1)
    features = 40 if encoder in ("gradients", "convolution") else 0
    workers = Workers(encoder=encoder, features=features, centre="own", norm="unit")
    shape = (8, 8)
    first, again, other = (encode(workers, raw, image_shape=shape, streams=Streams(seed))[0] for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert encoder == "dct" or not np.allclose(first, other, atol=1e-2)
    # No sample's features depend on which others are encoded with it.
    alone = encode(workers, raw[:1], image_shape=shape, streams=Streams(1))[0]
    beside = encode(workers, np.vstack([more, raw[:1]]), image_shape=shape, streams=Streams(1))[0]
    assert alone[0] == pytest.approx(first[0], abs=1e-5)
    assert beside[-1] == pytest.approx(first[0], abs=1e-5)


@pytest.mark.parametrize("encoder", FEATURE_ENCODERS)
def test_pool_and_test_set_get_the_same_features(encoder: str) -> None:
    """The digits once with a pool of 900 and once with 901: the sample that changes sides keeps its features."""
    workers = {
        pool: Workers(dataset="digits", train_samples=pool, encoder=encoder, features=30, centre="own")
        for pool in (900, 901)
    }
    small, large = (load_dataset(workers[pool], Streams(4)) for pool in (900, 901))
    assert small.input_dim == large.input_dim == 30
    assert small.test_inputs[0] == pytest.approx(large.train_inputs[900], abs=1e-5)
    assert small.train_inputs[7] == pytest.approx(large.train_inputs[7], abs=1e-5)
    assert small.held_dim == 64
    assert small.image_shape is None


@pytest.mark.parametrize(
    ("encoder", "features", "constant", "count"),
    [
        ("scale", 0, 0.0, 64),
        ("clip", 0, 0.5, 65),
        ("dct", 0, 0.0, 64),
        ("dct", 10, 0.5, 11),
        ("dct", 1000, 0.0, 64),
        ("projection", 0, 0.0, 64),
        ("projection", 100, 0.0, 100),
        ("convolution", 0, 0.0, 512),
        ("convolution", 30, 0.2, 31),
        ("gradients", 0, 0.0, 128),
        ("gradients", 17, 0.0, 17),
        ("cells", 0, 0.0, 1024),
        ("cells", 17, 0.5, 18),
    ],
)
def test_the_declared_number_of_features_is_the_real_one(
    encoder: str, features: int, constant: float, count: int
) -> None:
    workers = Workers(encoder=encoder, features=features, constant=constant)
    assert encoded_dim(workers, 64) == count
    assert encode(workers, images(2, 8), image_shape=(8, 8))[0].shape == (2, count)


@pytest.mark.parametrize("encoder", ["convolution", "gradients", "cells"])
def test_encoders_of_images_refuse_what_is_no_image(encoder: str) -> None:
    with pytest.raises(ScenarioError, match=rf'workers.encoder = "{encoder}": needs images'):
        encode(Workers(encoder=encoder), images(2, 4))
    with pytest.raises(ScenarioError, match="needs images"):
        load_dataset(Workers(dataset="iris", encoder=encoder), Streams(0))


@pytest.mark.parametrize("encoder", ["clip", *FEATURE_ENCODERS])
def test_a_public_centre_refuses_the_digits_that_it_is_made_of(encoder: str) -> None:
    with pytest.raises(ScenarioError, match=r'workers.centre = "public": .*private data'):
        load_dataset(Workers(dataset="digits", encoder=encoder, centre="public"), Streams(0))


def test_a_public_centre_notices_the_digits_under_another_name() -> None:
    raw = load_digits().inputs.astype(np.float32) / 16.0
    with pytest.raises(ScenarioError, match="private data"):
        encode(Workers(dataset="copy.csv", encoder="clip", centre="public"), raw[:50], image_shape=(8, 8))
    encode(Workers(dataset="mine.csv", encoder="clip", centre="public"), images(5, 8), image_shape=(8, 8))


def test_the_public_centre_of_what_is_no_image_is_the_middle_of_its_bounds() -> None:
    raw = images(4, 3)
    found, _ = encode(unbounded("clip", centre="public"), raw)
    assert found == pytest.approx(raw - 0.5, abs=1e-6)
    cosines, _ = encode(unbounded("dct", centre="public"), raw)
    assert cosines == pytest.approx(fft.dct(raw - 0.5, norm="ortho"), abs=1e-5)


def test_the_public_centre_of_images_is_the_mean_of_public_ones() -> None:
    public = public_images((14, 14))
    assert public.shape == (1797, 196)
    assert 0.0 <= public.min() < public.max() <= 1.0
    assert not public.reshape(-1, 14, 14)[:, :2].any()  # the middle 5/7 are 10 of 14 pixels
    raw = images(3, 14)
    found, _ = encode(unbounded("clip", centre="public"), raw, image_shape=(14, 14))
    assert found == pytest.approx(raw - public.mean(axis=0), abs=1e-5)


def test_the_own_centre_leaves_no_mean() -> None:
    found, _ = encode(unbounded("clip", centre="own"), images(5, 6))
    assert found.mean(axis=1) == pytest.approx(np.zeros(5), abs=1e-6)


def test_a_constant_takes_its_share_of_the_amplitude() -> None:
    """C = 0.5, c = 0.6: features keep 0.8 of theirs, the constant is 0.3, and a full norm is C again."""
    workers = Workers(encoder="clip", clip_norm=0.5, constant=0.6)
    finished, shortened = finish_encoding(workers, np.array([[3.0, 4.0], [0.1, 0.0]], dtype=np.float32))
    assert shortened == 1
    assert finished == pytest.approx(np.array([[0.24, 0.32, 0.3], [0.08, 0.0, 0.3]]), rel=1e-5)
    assert math.isclose(float(np.linalg.norm(finished[0])), 0.5, rel_tol=1e-5)


def test_one_norm_for_all_but_nothing() -> None:
    workers = Workers(encoder="clip", norm="unit", clip_norm=0.5)
    found, shortened = encode(workers, np.array([[1.0, 1.0], [1e-20, 0.0], [0.0, 0.0]], dtype=np.float32))
    assert shortened == 0
    assert np.linalg.norm(found, axis=1) == pytest.approx([0.5, 0.5, 0.0], rel=1e-5)
