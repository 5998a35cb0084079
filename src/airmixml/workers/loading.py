"""From a scenario's ``[workers]`` table to a data set that workers can send: source, split, scale."""

import os.path
from pathlib import Path
from typing import Any

from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Integers
from airmixml.data.csv_file import load_csv
from airmixml.data.dataset import DataSet, RawData, known_dataset
from airmixml.data.npz_file import load_npz
from airmixml.data.scaling import declare_bounds, scale_to_unit
from airmixml.doors import DATASETS
from airmixml.errors import DataError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.wording import did_you_mean, shown
from airmixml.workers.encoding import encode, keeps_pixels
from airmixml.workers.memory import check_feature_memory


def load_dataset(
    workers: Workers, streams: Streams, *, data_dir: Path | None = None, progress: Progress = silent
) -> DataSet:
    """Return the training pool and the test set that the scenario asks for, inputs scaled to [0, 1] and encoded.

    The stream "data" splits data sets that have no test set of their own. ``data_dir`` holds the files of MNIST; None
    takes the cache, which is filled where needed.
    """
    raw = _load_raw(workers, data_dir, progress)
    lower, upper = declare_bounds(
        workers.input_lower or raw.lower, workers.input_upper or raw.upper, features=raw.inputs.shape[1]
    )
    check_feature_memory(workers, len(raw.inputs), int(raw.inputs.shape[1]), len(raw.class_names))
    rng = streams.generator("data")
    if raw.test_inputs is None or raw.test_labels is None:
        train_inputs, train_labels, test_inputs, test_labels = _split(raw, workers.train_samples, rng)
    else:
        train_inputs, train_labels = _draw_pool(raw, workers.train_samples, rng)
        test_inputs, test_labels = raw.test_inputs, raw.test_labels
    scaled_train, clipped_in_train = scale_to_unit(train_inputs, lower, upper)
    scaled_test, clipped_in_test = scale_to_unit(test_inputs, lower, upper)
    encoded_train, shortened = encode(workers, scaled_train, image_shape=raw.image_shape, streams=streams)
    encoded_test, _ = encode(workers, scaled_test, image_shape=raw.image_shape, streams=streams)
    return DataSet(
        name=raw.name,
        train_inputs=encoded_train,
        train_labels=train_labels,
        test_inputs=encoded_test,
        test_labels=test_labels,
        class_names=raw.class_names,
        image_shape=raw.image_shape if keeps_pixels(workers) else None,
        clipped_values=clipped_in_train + clipped_in_test,
        clipped_samples=shortened,
        held_dim=int(raw.inputs.shape[1]),
    )


def _load_raw(workers: Workers, data_dir: Path | None, progress: Progress) -> RawData:
    known = known_dataset(workers.dataset)
    if known is not None:
        return known.read(data_dir, progress)
    path = Path(os.path.expanduser(workers.dataset))
    if path.is_fifo():  # nobody may ever write to it
        raise DataError(f"{path}: is a pipe; workers.dataset must name a CSV or NPZ file")
    if path.suffix.lower() == ".csv":
        return load_csv(path, feature_columns=workers.feature_columns, label_column=workers.label_column)
    if path.suffix.lower() == ".npz":
        return load_npz(path)
    names = DATASETS.names
    raise ScenarioError(
        f"workers.dataset = {shown(workers.dataset)}: must be {', '.join(names)}, or the path of a .csv or "
        f".npz file{did_you_mean(workers.dataset, names)}"
    )


def _split(raw: RawData, train_samples: int, rng: Generator) -> tuple[NDArray[Any], Integers, NDArray[Any], Integers]:
    """Shuffle and cut: the first samples are the pool, the rest is the test set."""
    samples = raw.inputs.shape[0]
    pool = train_samples or max(1, 2 * samples // 3)
    if pool >= samples:
        raise ScenarioError(
            f"workers.train_samples = {train_samples}: must be at most {samples - 1} for {raw.name}, which "
            f"has {samples} samples, so that some are left to test on (0 takes two thirds)"
        )
    order = rng.permutation(samples)
    train, test = order[:pool], order[pool:]
    return raw.inputs[train], raw.labels[train], raw.inputs[test], raw.labels[test]


def _draw_pool(raw: RawData, train_samples: int, rng: Generator) -> tuple[NDArray[Any], Integers]:
    """Draw the pool from the training part of a data set that has a test set of its own."""
    samples = raw.inputs.shape[0]
    if train_samples > samples:
        raise ScenarioError(
            f"workers.train_samples = {train_samples}: must be at most {samples}, the training samples of "
            f"{raw.name} (0 takes them all)"
        )
    if train_samples in (0, samples):
        return raw.inputs, raw.labels
    train = rng.permutation(samples)[:train_samples]
    return raw.inputs[train], raw.labels[train]
