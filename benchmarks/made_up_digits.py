"""Images of MNIST's size that a network can learn, made up so that no machine needs a download."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.progress import Progress, silent
from airmixml.registries import DATASETS

SIDE, CLASSES = 28, 10
CLASS_NAMES = tuple("0123456789")


@cache
def images(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs in [0, 1] (samples x 784) and their classes: faint strokes, moved a little, under noise."""
    shapes = np.random.default_rng(2024)
    blurred = gaussian_filter(shapes.standard_normal((CLASSES, SIDE, SIDE)), sigma=(0, 3, 3))
    strokes = np.where(blurred > np.quantile(blurred, 0.8, axis=(1, 2), keepdims=True), 1.0, 0.0).astype(np.float32)
    moved = np.stack([np.roll(strokes, step, axis=(1, 2)) for step in ((0, 0), (1, 2), (2, -1), (-2, 1), (-1, -2))])
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=samples)
    inputs = moved.reshape(-1, SIDE * SIDE)[rng.integers(len(moved), size=samples) * CLASSES + labels]
    inputs = 0.15 * inputs + 0.85 * rng.random(inputs.shape, dtype=np.float32)
    return inputs, labels


def made_up_digits(samples: int = 60_000, test_samples: int = 10_000, inputs: int = SIDE * SIDE) -> DataSet:
    """Return them as workers hold them; with another number of ``inputs`` they are plain noise and no images."""
    if inputs == SIDE * SIDE:
        train_inputs, train_labels = images(samples, 0)
        test_inputs, test_labels = images(test_samples, 1)
    else:
        rng = np.random.default_rng(0)
        train_inputs, test_inputs = (rng.random((count, inputs), dtype=np.float32) for count in (samples, test_samples))
        train_labels, test_labels = (rng.integers(CLASSES, size=count) for count in (samples, test_samples))
    return DataSet(
        name="made-up digits",
        train_inputs=train_inputs,
        train_labels=train_labels,
        test_inputs=test_inputs,
        test_labels=test_labels,
        class_names=CLASS_NAMES,
        image_shape=(SIDE, SIDE) if inputs == SIDE * SIDE else None,
        clipped_values=0,
    )


def unscored(dataset: DataSet) -> DataSet:
    """Return the same without its test set: training then takes the time of its steps alone."""
    return replace(dataset, test_inputs=dataset.test_inputs[:0], test_labels=dataset.test_labels[:0])


def _load(_data_dir: Path | None = None, _progress: Progress = silent, *, samples: int) -> RawData:
    inputs, labels = images(samples, 0)
    test_inputs, test_labels = images(10_000, 1)
    return RawData(
        inputs=inputs, labels=labels, class_names=CLASS_NAMES, test_inputs=test_inputs, test_labels=test_labels
    )


def on_made_up_digits(scenario: Scenario, samples: int = 60_000) -> Scenario:
    """Return the scenario with these images in the registry of data sets."""
    known = KnownDataSet(
        name="made-up digits",
        about="images of MNIST's size, made up",
        train_samples=samples,
        test_samples=10_000,
        input_dim=SIDE * SIDE,
        label_dim=CLASSES,
        lower=(0.0,),
        upper=(1.0,),
        scaled_mean=0.4,
        scaled_deviation=0.3,
        load=partial(_load, samples=samples),
        image_shape=(SIDE, SIDE),
    )
    return scenario.with_overrides(f"workers.dataset={DATASETS.add(known)}")
