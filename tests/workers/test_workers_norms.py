"""What is declared about what is sent against what is sent: no norm and no distance above it, whatever the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from airmixml import DataError, Scenario, settle
from airmixml.arrays import ImageShape
from airmixml.data import DataSet, RowFormat
from airmixml.data.dataset import declare_bounds
from airmixml.data.labels import Bounded, Centred, Signs
from airmixml.radio.transmission import make_sender
from airmixml.registries import ENCODERS
from airmixml.streams import Secret, Streams
from airmixml.workers import RowEncoder, Signal, declared_bounds, encode, scales_inputs
from airmixml.workers.loading import load_raw

IMAGES, SERIES = (8, 8), (2, 1, 32)
NUMBERS = 64
BOUNDS = (-3.0, 5.0)


def weird_rows() -> np.ndarray:
    """Return raw rows for bounds from -3 to 5: usual ones, extremes, huge and denormal numbers, and steps between."""
    rng = np.random.default_rng(0)
    usual = rng.uniform(*BOUNDS, size=(20, NUMBERS))
    lowest, highest = np.full((1, NUMBERS), BOUNDS[0]), np.full((1, NUMBERS), BOUNDS[1])
    huge = rng.choice([1e300, -1e300, 1.7e308], size=(3, NUMBERS))
    tiny = rng.choice([5e-324, -5e-324, 1e-310, 0.0, -0.0], size=(3, NUMBERS))
    steps = np.tile([BOUNDS[0], BOUNDS[1]], (2, NUMBERS // 2))
    steps[1] = np.nextafter(steps[1], 1e9)
    single = np.where(np.eye(4, NUMBERS) > 0, BOUNDS[1], BOUNDS[0])
    return np.concatenate([usual, lowest, highest, huge, tiny, steps, single, np.nextafter(highest, -np.inf)])


def scenario_with(encoder: str, **keys: object) -> tuple[Scenario, ImageShape]:
    kind = ENCODERS.load(encoder)
    shape: ImageShape = SERIES if kind.needs_series else IMAGES if kind.needs_images else None
    changes = [f"workers.{key}={value}" for key, value in keys.items()]
    changes += ["workers.features=24"] if kind.takes_features else []
    if not kind.bounds_norm:
        preset = Scenario.preset("paper-iris").with_overrides("workers.count=30", "radio.scheduled=8")
    else:
        preset = Scenario.preset("private-table").with_overrides("workers.count=30")
    return preset.with_overrides(f"workers.encoder={encoder}", *changes).settled(30, NUMBERS), shape


def encoded(scenario: Scenario, shape: ImageShape) -> np.ndarray:
    rows = weird_rows()
    lower = upper = None
    if scales_inputs(scenario.workers):
        lower, upper = declare_bounds([BOUNDS[0]], [BOUNDS[1]], count=NUMBERS)
    row_format = RowFormat(width=NUMBERS, lower=lower, upper=upper)
    unit, _ = RowEncoder(workers=scenario.workers, seed=1, row_format=row_format).scale(rows)
    if lower is not None:
        assert unit.min() >= 0.0
        assert unit.max() <= 1.0
    return encode(scenario.workers, unit, image_shape=shape, streams=Streams(1))[0]


def largest_square(rows: np.ndarray) -> float:
    """Return the largest squared norm, added up exactly where rounding could decide which it is."""
    squares = np.square(rows, dtype=np.float64)
    near = squares.sum(axis=1) >= squares.sum(axis=1).max() * (1.0 - 1e-9)
    return max(math.fsum(each) for each in squares[near].tolist())


def largest_square_between(rows: np.ndarray) -> float:
    return max(largest_square(rows.astype(np.float64) - row) for row in rows[::4])


CASES = [
    (encoder, keys)
    for encoder in ENCODERS.own
    for keys in (
        ({"norm": "clip", "centre": "none"}, {"norm": "unit", "centre": "own"}, {"norm": "clip", "clip_norm": 0.3})
        if ENCODERS.load(encoder).bounds_norm
        else ({},)
    )
]


@pytest.mark.parametrize(("encoder", "keys"), CASES, ids=str)
def test_realised_norms_keep_to_the_declared_ones(encoder: str, keys: dict[str, object]) -> None:
    scenario, shape = scenario_with(encoder, **keys)
    inputs = encoded(scenario, shape)
    assert np.isfinite(inputs).all()
    squared_norm, squared_distance = declared_bounds(scenario.workers, inputs.shape[1])
    assert largest_square(inputs) <= squared_norm
    assert largest_square_between(inputs) <= squared_distance
    labels = np.arange(len(inputs)) % 3
    data = DataSet(
        name="weird",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:0],
        test_labels=labels[:0],
        class_names=("a", "b", "c"),
        image_shape=None,
        clipped_values=0,
        code=Centred(3) if scenario.workers.label_code == "centred" else None,
    )
    sender = make_sender(scenario, data, torch.device("cpu"), secret=Secret())
    vectors = sender.vectors(np.arange(len(inputs))).astype(np.float64)
    signal = Signal.of(scenario.workers, inputs.shape[1], 3)
    assert largest_square(vectors) <= signal.largest_squared_norm(squared_norm)
    assert largest_square_between(vectors) <= signal.largest_squared_distance(squared_norm, squared_distance)


@pytest.mark.parametrize("outputs", [1, 2, 3, 7, 100])
def test_labels_have_a_norm_of_at_most_one(outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    flags = rng.integers(2, size=(50, outputs))
    assert largest_square(Signs(outputs).coded(flags)) <= 1.0
    targets = rng.choice([-1e300, 1e300, 5e-324, 0.0, 3.0, -2.0], size=(50, outputs))
    assert largest_square(Bounded((-2.0,) * outputs, (3.0,) * outputs).coded(targets)) <= 1.0
    if outputs > 1:
        assert largest_square(Centred(outputs).coded(np.arange(outputs))) <= 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(value: float, tmp_path: object) -> None:
    inputs = np.zeros((9, 2))
    inputs[4, 1] = value
    np.savez(f"{tmp_path}/odd.npz", inputs=inputs, labels=np.arange(9) % 2)
    own = (f"workers.dataset={tmp_path}/odd.npz", "workers.input_lower=[0]", "workers.input_upper=[1]")
    scenario = Scenario.preset("private-table").with_overrides(*own)
    with pytest.raises(DataError, match="must be finite"):
        settle(scenario)
    with pytest.raises(DataError, match="must be finite"):
        load_raw(scenario.workers, None, lambda *_: None)
