import numpy as np
import pytest

from airmixml.data import DataSet
from airmixml.workers import Population


@pytest.fixture
def small_dataset() -> DataSet:
    """Six samples of three inputs and two classes, with hand-made values."""
    inputs = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0.5, 0.25, 0.75]], dtype=np.float32)
    return DataSet(
        name="small",
        train_inputs=inputs,
        train_labels=np.array([0, 1, 0, 1, 0, 1]),
        test_inputs=inputs,
        test_labels=np.array([0, 1, 0, 1, 0, 1]),
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )


@pytest.fixture
def small_population() -> Population:
    """Twelve workers at known distances; worker i holds sample i mod 6."""
    return Population(distance_metres=np.linspace(10.0, 340.0, 12), sample_index=np.arange(12) % 6)
