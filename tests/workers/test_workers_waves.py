"""Waves, cells and windows: against the kernel that they stand for, hand-made images and tones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from airmixml.scenario import Workers
from airmixml.workers import Signal, encode, worker_cost
from airmixml.workers.encoders.images import cell_numbers
from airmixml.workers.encoders.random_features import band_edges, waves, window_numbers


def test_waves_stand_for_the_gaussian_kernel() -> None:
    """<f(z), f(z')> is exp(-||z - z'||^2 / 2) on average, with a deviation below 1 / sqrt(2000 angles) = 0.022."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(6, 50)).astype(np.float32) / 7.0
    found = waves(vectors, 4000, np.random.default_rng(1))
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    distances = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    assert 0.8 < distances[0, 1] < 2.0
    assert found @ found.T == pytest.approx(np.exp(-(distances**2) / 2.0), abs=0.09)
    assert waves(vectors, 7, rng).shape == (6, 7)


def test_cells_hold_the_edge_and_the_brightness_where_they_are() -> None:
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, :, 22:] = 1.0  # dark to the left, bright to the right
    found = cell_numbers(image)[0]
    edges, brightness = found[:392].reshape(8, 7, 7), found[392:].reshape(7, 7)
    rightwards = edges[0]  # the first direction is where it grows brighter to the right
    assert int(rightwards.sum(dim=0).argmax()) == 5  # columns 20 to 23
    assert (rightwards[:, 5] > edges[2:, :, 5].amax(dim=0) + 0.01).all()
    assert (brightness[:, 6] > brightness[:, 0]).all()
    assert float(found.norm()) == pytest.approx(1.0, abs=1e-5)


def test_cells_see_colour_but_no_light() -> None:
    rng = np.random.default_rng(3)
    grey = torch.from_numpy(rng.random((1, 1, 14, 15)).astype(np.float32)).expand(1, 3, 14, 15) * 0.5
    reddish = grey * torch.tensor([1.5, 0.75, 0.75])[None, :, None, None]
    assert cell_numbers(grey).shape == (1, 441 + 48)
    assert torch.dist(cell_numbers(grey), cell_numbers(0.5 * grey)) < 1e-4
    assert torch.dist(cell_numbers(grey), cell_numbers(reddish)) > 0.1


def test_cells_are_no_smaller_than_two_pixels() -> None:
    assert cell_numbers(torch.rand(1, 1, 8, 8)).shape == (1, 9 * 4 * 4)


@pytest.mark.parametrize("shape", [(8, 8), (5, 9), (3, 32, 32), (12, 10, 10), (100, 61)])
def test_cells_take_images_of_any_size(shape: tuple[int, ...]) -> None:
    raw = np.random.default_rng(4).random((3, math.prod(shape))).astype(np.float32)
    raw[2] = 0.0  # an empty one
    found, _ = encode(Workers(encoder="cells", features=100, norm="unit"), raw, image_shape=shape)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3), abs=1e-4)


def test_a_tone_is_in_its_band_wherever_it_starts() -> None:
    """Seven periods in 64 readings of amplitude 0.1: a mean square of 0.005, all of it in the band with 7 in it."""
    time = np.arange(64) / 64.0
    tones = [0.5 + 0.1 * np.sin(2.0 * np.pi * (7.0 * time + start)) for start in (0.0, 0.3)]
    series = np.array(tones, dtype=np.float32)[:, None]
    numbers = window_numbers(series)
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-3)
    edges = band_edges(64)
    band = int(np.searchsorted(edges, 7, side="right")) - 1
    bands = numbers[0, 2:]
    assert bands[band] == pytest.approx(0.2 * 0.5 * math.log1p(0.005 / 1e-6), rel=1e-4)
    assert np.delete(bands, band) == pytest.approx(np.zeros(len(bands) - 1), abs=1e-3)
    assert numbers[0, 0] == pytest.approx(0.0, abs=1e-5)
    assert numbers[0, 1] == pytest.approx(0.3 * math.log1p(math.sqrt(0.005) / 1e-3), rel=1e-4)


@pytest.mark.parametrize("times", [1, 2, 5, 200])
def test_windows_take_any_length(times: int) -> None:
    raw = np.random.default_rng(5).random((2, 3 * times)).astype(np.float32)
    found, _ = encode(Workers(encoder="windows", features=64), raw, image_shape=(3, 1, times))
    assert found.shape == (2, 64)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("encoder", "shape"), [("cells", (8, 8)), ("windows", (2, 1, 32))])
def test_no_samples_have_no_features(encoder: str, shape: tuple[int, ...]) -> None:
    found, _ = encode(Workers(encoder=encoder, features=9), np.zeros((0, 64), dtype=np.float32), image_shape=shape)
    assert found.shape == (0, 9)


def test_what_windows_cost_fits_a_microcontroller() -> None:
    windows = worker_cost(Workers(encoder="windows"), 600, Signal(features=256, classes=7))
    assert windows.multiply_accumulates < 60_000
    assert windows.working_bytes < 8_000
