"""Shapes of inputs: what is declared, what it means, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from airmixml import ScenarioError
from airmixml.arrays import declared_shape, in_words, is_series, per_input, planes
from airmixml.edge.learners import build_model
from airmixml.output.figures import as_picture
from airmixml.scenario import Learner, Workers
from airmixml.streams import Streams
from airmixml.workers import encode, load_dataset


def test_what_a_shape_says() -> None:
    assert planes((28, 29)) == (1, 28, 29)
    assert planes((3, 32, 33)) == (3, 32, 33)
    assert [is_series(shape) for shape in (None, (1, 9), (3, 32, 32), (6, 1, 100))] == [False, False, False, True]
    assert (in_words((3, 32, 32)), in_words((6, 1, 100))) == ("3 x 32 x 32", "6 x 100")


@pytest.mark.parametrize("shape", [(7,), (4, 3), (2, 2, 2, 3)])
def test_a_shape_that_cannot_be_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ScenarioError, match=r"workers.shape = .*: must hold the 24 numbers"):
        declared_shape(shape, None, 24)
    with pytest.raises(ScenarioError, match="says 2 x 3 x 4 itself"):
        declared_shape((3, 2, 4), (2, 3, 4), 24)


def test_bounds_of_a_channel_serve_all_its_numbers() -> None:
    assert tuple(per_input((-8.0, 35.0), (2, 1, 3))) == (-8.0, -8.0, -8.0, 35.0, 35.0, 35.0)
    assert tuple(per_input((1.0, 2.0), (2, 3))) == (1.0, 2.0)  # height and width, no channels
    assert tuple(per_input((1.0,), (2, 1, 3))) == (1.0,)


def test_columns_of_a_table_become_an_image_or_a_series(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    header = ",".join([f"c{place}" for place in range(192)]) + ",label"
    rows = np.hstack([rng.random((12, 192)), np.arange(12)[:, None] % 2])
    np.savetxt(tmp_path / "mine.csv", rows, delimiter=",", header=header, comments="", fmt="%.6g")
    common = {"dataset": str(tmp_path / "mine.csv"), "input_lower": (0.0,), "input_upper": (1.0,), "train_samples": 8}
    image = load_dataset(Workers(**common, encoder="clip", shape=(3, 8, 8)), Streams(0))
    assert image.image_shape == (3, 8, 8)
    cells = load_dataset(Workers(**common, encoder="cells", features=40, shape=(3, 8, 8)), Streams(0))
    assert cells.train_inputs.shape == (8, 40)
    windows = load_dataset(Workers(**common, encoder="windows", features=40, shape=(6, 1, 32)), Streams(0))
    assert windows.train_inputs.shape == (8, 40)


def test_each_channel_of_a_file_is_scaled_by_its_own_bounds(tmp_path: Path) -> None:
    inputs = np.array([[[-8.0, 0.0], [0.0, 70.0]], [[8.0, 4.0], [35.0, -35.0]]])  # two windows of two channels
    np.savez(tmp_path / "mine.npz", inputs=inputs, labels=[0, 1], layout="channels x time")
    workers = Workers(
        dataset=str(tmp_path / "mine.npz"), input_lower=(-8.0, -35.0), input_upper=(8.0, 35.0), train_samples=1
    )
    found = load_dataset(workers, Streams(0))
    scaled = np.vstack([found.train_inputs, found.test_inputs])
    assert sorted(scaled.tolist()) == [[0.0, 0.5, 0.5, 1.0], [1.0, 0.75, 1.0, 0.0]]
    assert (found.image_shape, found.clipped_values) == ((2, 1, 2), 1)


@pytest.mark.parametrize(
    ("encoder", "shape", "complaint"),
    [
        ("cells", None, 'encoder = "cells": needs images, but the data set has none; .* declare workers.shape'),
        ("cells", (4, 1, 16), "needs images, but an input is a series of 4 x 16; use one of .*windows"),
        ("gradients", (4, 1, 16), "needs images, but an input is a series"),
        ("windows", None, "needs series, channels over time, but the data set has none"),
        ("windows", (8, 8), "needs series, channels over time, but an input is an image of 8 x 8; use one of .*cells"),
    ],
)
def test_an_encoder_refuses_what_it_cannot_look_at(encoder: str, shape: tuple[int, ...] | None, complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        encode(Workers(encoder=encoder), np.zeros((2, 64), dtype=np.float32), image_shape=shape)


def test_a_network_for_images_reads_all_channels() -> None:
    network = build_model(Learner(model="cnn", filters=(4,), kernel_size=3), 3 * 8 * 9, 2, (3, 8, 9))
    convolution = next(module for module in network if hasattr(module, "in_channels"))
    assert convolution.in_channels == 3
    with pytest.raises(ScenarioError, match='"cnn": needs images, but an input is a series of 3 x 72'):
        build_model(Learner(model="cnn"), 3 * 72, 2, (3, 1, 72))


def test_pictures_show_three_channels_in_colour_and_others_as_their_mean() -> None:
    colours = np.array([[[0.0, 2.0]], [[0.5, 0.5]], [[1.0, -1.0]]], dtype=np.float32)
    assert as_picture(colours.ravel(), (3, 1, 2)).tolist() == [[[0.0, 0.5, 1.0], [1.0, 0.5, 0.0]]]
    assert as_picture(np.array([0.0, 1.0, 1.0, 0.0], dtype=np.float32), (2, 1, 2)).tolist() == [[0.5, 0.5]]
    assert as_picture(np.arange(6, dtype=np.float32), (2, 3)).shape == (2, 3)


def test_cosines_of_channels_are_those_of_each_channel() -> None:
    raw = np.random.default_rng(1).random((3, 48)).astype(np.float32)
    both, _ = encode(Workers(encoder="dct", features=48, clip_norm=1e6), raw, image_shape=(3, 4, 4))
    for channel in range(3):
        alone, _ = encode(
            Workers(encoder="dct", features=16, clip_norm=1e6), raw[:, 16 * channel : 16 * channel + 16],
            image_shape=(4, 4),
        )  # fmt: skip
        for place in range(3):
            assert np.abs(both[place][:, None] - alone[place]).min(axis=0) == pytest.approx(np.zeros(16), abs=1e-5)


def test_an_encoder_for_grey_images_sees_the_mean_of_the_channels() -> None:
    raw = np.random.default_rng(2).random((2, 3, 8, 8)).astype(np.float32)
    colour, _ = encode(Workers(encoder="gradients"), raw.reshape(2, -1), image_shape=(3, 8, 8))
    grey, _ = encode(Workers(encoder="gradients"), raw.mean(axis=1).reshape(2, -1), image_shape=(8, 8))
    assert colour == pytest.approx(grey, abs=1e-5)
