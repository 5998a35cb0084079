"""Likeness, readers and decoders on what they must be able to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from airmixml.attacks.server_attacks import (
    Reconstruction,
    count_copies,
    explained_share,
    recognise,
)
from airmixml.attacks.target import Decoder, Reader, load_held
from airmixml.data import DataSet
from airmixml.scenario import Scenario, Workers

Floats = np.ndarray[Any, np.dtype[np.float32]]


def pairs(shape: tuple[int, int], count: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    originals = rng.uniform(0, 1, (count, shape[0] * shape[1])).astype(np.float32)
    noise = rng.uniform(0, 0.5, (count, 1)) * rng.standard_normal(originals.shape)
    return originals, np.clip(originals + noise, 0, 1).astype(np.float32)


def test_what_was_not_encoded_is_left_as_it_is_but_for_the_range() -> None:
    decoder = Decoder.learn(Workers(), np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32))
    samples = np.array([[-0.5, 0.0, 0.25, 1.5]], np.float32)
    np.testing.assert_array_equal(decoder.decode(samples), [[0.0, 0.0, 0.25, 1.0]])


def test_a_linear_map_is_learned_and_turned_back() -> None:
    rng = np.random.default_rng(0)
    held = rng.uniform(0, 1, (400, 6)).astype(np.float32)
    encoded = ((held - 0.3) @ np.linalg.qr(rng.standard_normal((6, 6)))[0]).astype(np.float32)
    decoder = Decoder.learn(Workers(encoder="projection"), encoded[:300], held[:300])
    np.testing.assert_allclose(decoder.decode(encoded[300:]), held[300:], atol=0.01)
    blind = Decoder.learn(Workers(encoder="projection"), np.zeros((300, 2), np.float32), held[:300])
    np.testing.assert_allclose(blind.decode(np.zeros((1, 2), np.float32))[0], held[:300].mean(axis=0), atol=1e-5)


@pytest.mark.parametrize(("preset", "least"), [("digits", 0.85), ("paper-iris", 0.85)])
def test_the_reader_reads_samples_that_it_has_never_seen(preset: str, least: float) -> None:
    held = load_held(Scenario.preset(preset))
    reader = Reader(held.test_inputs, held.test_labels, seed=0)
    # The pool was not in its training: only test samples are public.
    assert float((reader.read(held.train_inputs) == held.train_labels).mean()) > least
    assert 0.0 <= reader.accuracy <= 1.0
    shuffled = np.random.default_rng(0).permutation(held.train_labels)
    assert float((reader.read(held.train_inputs) == shuffled).mean()) < 0.55


@pytest.mark.parametrize("samples", [1, 2, 3, 12])
def test_a_reader_of_a_handful_of_samples(samples: int) -> None:
    rng = np.random.default_rng(samples)
    inputs = rng.uniform(0, 1, (samples, 3)).astype(np.float32)
    labels = np.arange(samples) % 2
    read = Reader(inputs, labels, seed=2**40).read(rng.uniform(0, 1, (50, 3)).astype(np.float32))
    assert set(read.tolist()) <= {0, 1}


def test_the_held_data_are_those_before_the_encoder() -> None:
    plain = load_held(Scenario.preset("private-iris"))
    assert plain.input_dim == 4
    assert 0.0 <= plain.train_inputs.min() <= plain.train_inputs.max() <= 1.0


class _ReadsFirstNumber:
    accuracy = 1.0

    def read(self, samples: Floats) -> Any:
        return (samples[:, 0] > 0.5).astype(np.int64)


def test_recognition_by_hand() -> None:
    train = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], np.float32)
    held = DataSet(
        name="hand",
        train_inputs=train,
        train_labels=np.array([0, 1, 1]),
        test_inputs=np.full((2, 2), 0.5, np.float32),
        test_labels=np.array([0, 1]),
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )
    found = Reconstruction(
        inputs=np.array([[0.0, 0.0], [0.9, 0.0], [0.2, 1.0], [1.0, 1.0]], np.float32),
        labels=np.array([[0.9, 0.1], [0.2, 0.3], [0.0, 1.0], [0.6, 0.5]], np.float32),
    )
    decoder = Decoder(weights=None, offset=np.zeros(2, np.float32))
    reader: Any = _ReadsFirstNumber()
    findings, seen = recognise(found, held, np.array([0, 1, 2, 1]), decoder, reader)
    figures = findings.to_dict()
    assert seen["recognised"].tolist() == [True, True, False, True]
    assert (figures["recognised"], figures["recognised_share"], figures["guessing"]) == (3, 0.75, 0.75)
    assert figures["labels"]["accuracy"] == 0.75
    # Three or four right of four, each with probability 3/4.
    assert figures["p_value"] == pytest.approx(4 * 0.75**3 * 0.25 + 0.75**4)
    # Errors of the four: 0, 0.1^2, 0.8^2, 1; the means of the others: (1, 1/3), (2/3, 1/3), (2/3, 0), (2/3, 1/3).
    left_open = (1 + 1 / 9) + (1 / 9 + 1 / 9) + (1 / 9 + 1) + (1 / 9 + 1 / 9)
    assert figures["explained"] == pytest.approx(1 - 1.65 / left_open)
    np.testing.assert_allclose(
        seen["psnr_db"][1:], [-10 * math.log10(0.005), -10 * math.log10(0.32), -10 * math.log10(0.5)], atol=1e-3
    )


def test_what_is_the_same_for_all_workers_explains_next_to_nothing() -> None:
    samples = np.random.default_rng(0).uniform(0, 1, (500, 7)).astype(np.float32)
    mean = samples.mean(axis=0)
    same = np.tile(mean, (500, 1))
    assert explained_share(samples, same, mean) == pytest.approx(1 - (499 / 500) ** 2, abs=1e-4)
    assert explained_share(samples, samples, mean) == 1.0
    assert explained_share(samples, samples[::-1], mean) == pytest.approx(-1.0, abs=0.15)
    # Of one worker alone everything may be out though its class is no secret.
    assert explained_share(samples[:1], samples[:1], mean) == 1.0
    assert explained_share(samples[:1], mean[None], mean) == 0.0
    assert explained_share(np.tile(mean, (3, 1)), same[:3], mean) == 0.0


def test_copies_are_counted_against_the_public_mean() -> None:
    """Errors of 1/100 and 9/100 of the mean's squared error are copies, 11/100 is none."""
    originals = np.ones((3, 4), np.float32)
    recovered = originals - np.sqrt(np.array([[0.01], [0.09], [0.11]], np.float32))
    assert count_copies(originals, recovered, np.zeros(4, np.float32)) == 2
