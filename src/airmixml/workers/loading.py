"""From a scenario's ``[workers]`` table to a data set that workers can send: source, split, scale."""

import os.path
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Integers, declared_shape, per_input, physical_memory_bytes
from airmixml.data.dataset import TARGET_KEYS, DataSet, RawData, RowFormat, declare_bounds, known_dataset
from airmixml.data.labels import ABSENT, Bounded, Centred, LabelCode, Signs
from airmixml.messages import ScenarioError, did_you_mean, shown
from airmixml.progress import Progress, silent
from airmixml.registries import DATASETS
from airmixml.scenario import Workers
from airmixml.scenario.rules import AUTO
from airmixml.scenario.tables import OWN_FILES
from airmixml.streams import Streams
from airmixml.workers.encoder import FLOAT_BYTES, encoder_of, scales_inputs
from airmixml.workers.encoding import RowEncoder, encode, encoded_dim, keeps_pixels
from airmixml.workers.signal import Signal

# Features before and after centring, and as they are sent.
_COPIES_OF_A_SAMPLE: Final = 3
# A slot's sum, its noise, what is received, and its moments in double precision.
_COPIES_OF_A_SLOT: Final = 6


def check_signal_memory(workers: Workers, features: int, label_dim: int, samples: int = 0) -> None:
    """Refuse encoded features of so many samples, or one slot of what is sent of them, that fit into no memory."""
    signal = Signal.of(workers, features, label_dim)
    numbers = _COPIES_OF_A_SAMPLE * samples * features + _COPIES_OF_A_SLOT * signal.symbols
    needed, available = FLOAT_BYTES * numbers, physical_memory_bytes()
    if needed > available:
        raise too_many_numbers(workers, signal, needed, available)


def too_many_numbers(workers: Workers, signal: Signal, needed: float, available: float) -> ScenarioError:
    """Return the error that names the key which makes so many bytes of features or products."""
    size = f"needs {needed / 1e9:.3g} GB of memory and there are {available / 1e9:.3g} GB"
    products = f" ({signal.symbols:,} products in each slot)" if signal.moments else ""
    if encoder_of(workers).takes_features:
        return ScenarioError(f"workers.features = {workers.features}: {size}{products}; choose fewer features")
    if signal.moments:
        less = "choose an encoder with fewer features, such as projection"
        return ScenarioError(f'workers.sends = "moments": {size}{products}; {less}, or send samples')
    return ScenarioError(f"workers.train_samples = {workers.train_samples}: {size}; choose fewer samples")


def load_dataset(
    workers: Workers,
    streams: Streams,
    *,
    data_dir: Path | None = None,
    progress: Progress = silent,
    test_rows: bool = True,
    device: str = "cpu",
    raw: RawData | None = None,
) -> DataSet:
    """Return the training pool and the test set that the scenario asks for, inputs scaled to [0, 1] and encoded.

    The stream "data" splits data sets that have no test set of their own; without ``test_rows`` all their rows may be
    in the pool. ``data_dir`` holds the files of MNIST; None takes the cache, which is filled where needed. Features are
    computed on the ``device`` where the encoder can. ``raw`` are the samples where they have been read already.
    """
    if AUTO in (workers.centre, workers.norm, workers.label_code):
        raise ScenarioError("workers.centre, norm or label_code is auto: use airmixml.settle(scenario) first")
    raw = load_raw(workers, data_dir, progress) if raw is None else raw
    image_shape = declared_shape(workers.shape, raw.image_shape, raw.inputs.shape[1])
    row_format = _row_format(workers, raw, image_shape)
    scale = RowEncoder(workers=workers, seed=streams.seed, row_format=row_format).scale
    code = label_code(workers, raw)
    check_signal_memory(workers, encoded_dim(workers, raw.inputs.shape[1]), len(raw.class_names), len(raw.inputs))
    rng = streams.generator("data")
    train, test = pool_and_test(raw, workers, rng, test_rows)
    all_in_order = raw.test_labels is not None and len(train) == len(raw.inputs)
    train_inputs, train_labels = (part if all_in_order else part[train] for part in (raw.inputs, raw.labels))
    test_inputs, test_labels, holders = raw.test_inputs, raw.test_labels, None
    if test_inputs is None or test_labels is None:
        test_inputs, test_labels = raw.inputs[test], raw.labels[test]
    test_holders = len(test_labels)
    if raw.holders is not None and raw.test_labels is None:
        holders = np.unique(raw.holders[train], return_inverse=True)[1].reshape(-1).astype(np.int64)
        test_holders = len(np.unique(raw.holders[test]))
    if workers.classes:  # a row of no declared class is not scored
        test_inputs, test_labels = (part[test_labels != ABSENT] for part in (test_inputs, test_labels))
    (scaled_train, clipped_in_train), (scaled_test, clipped_in_test) = scale(train_inputs), scale(test_inputs)
    (encoded_train, shortened), (encoded_test, _) = (
        encode(workers, scaled, image_shape=image_shape, streams=streams, device=device)
        for scaled in (scaled_train, scaled_test)
    )
    return DataSet(
        name=raw.name,
        train_inputs=encoded_train,
        train_labels=train_labels,
        test_inputs=encoded_test,
        test_labels=test_labels,
        class_names=raw.class_names,
        image_shape=image_shape if keeps_pixels(workers) else None,
        clipped_values=clipped_in_train + clipped_in_test + (0 if code is None else code.clipped(train_labels)),
        clipped_samples=shortened,
        held_dim=int(raw.inputs.shape[1]),
        code=code,
        own_test=raw.test_labels is not None,
        holders=holders,
        test_holders=test_holders,
        row_format=row_format,
    )


def _row_format(workers: Workers, raw: RawData, image_shape: ImageShape) -> RowFormat:
    lower = upper = None
    if scales_inputs(workers):
        given = (workers.input_lower or raw.lower, workers.input_upper or raw.upper)
        given = (raw.lower, raw.upper) if raw.columns else given  # of features, where columns become several
        each = (per_input(bounds, image_shape) for bounds in given)
        lower, upper = declare_bounds(*each, count=raw.inputs.shape[1], columns=raw.feature_names)
    return RowFormat(
        width=int(raw.inputs.shape[1]),
        lower=lower,
        upper=upper,
        feature_names=raw.feature_names,
        image_shape=image_shape,
        columns=raw.columns,
        decimal=workers.decimal,
    )


def label_code(workers: Workers, raw: RawData) -> LabelCode | None:
    """Return how the scenario's workers send the labels of the data; None: as one-hot vectors."""
    outputs = len(raw.class_names)
    if workers.task == "multi-label":
        return Signs(outputs)
    if workers.task != "regression":
        return class_code(workers, outputs)
    lower, upper = (workers.target_lower or raw.target_lower), (workers.target_upper or raw.target_upper)
    bounds = declare_bounds(lower, upper, count=outputs, names=TARGET_KEYS, what="target")
    return Bounded(*(tuple(each.tolist()) for each in bounds))


def class_code(workers: Workers, classes: int) -> LabelCode | None:
    """Return how the scenario's workers send one of so many classes; None: as a one-hot vector."""
    return Centred(classes) if workers.label_code == "centred" else None


def load_raw(workers: Workers, data_dir: Path | None, progress: Progress) -> RawData:
    """Return the samples as their source has them."""
    known = known_dataset(workers.dataset)
    if known is not None:
        if known.task != workers.task:
            raise ScenarioError(
                f'workers.task = "{workers.task}": must be "{known.task}" for workers.dataset = "{known.name}"'
            )
        for key, why in (
            ("classes", "which declares its own; it is for your own file"),
            ("worker_column", "whose rows are of nobody; it names a column of your own file"),
        ):
            if given := getattr(workers, key):
                value = shown(list(given) if isinstance(given, tuple) else given)
                raise ScenarioError(
                    f'workers.{key} = {value}: must be empty for workers.dataset = "{known.name}", {why}'
                )
        return known.read(data_dir, progress)
    path = Path(os.path.expanduser(workers.dataset))
    if path.suffix.lower() in OWN_FILES:
        from airmixml.data.own_file import load_own_file  # here: most data sets are no file of the user's

        return load_own_file(path, workers)
    names = DATASETS.names
    raise ScenarioError(
        f"workers.dataset = {shown(workers.dataset)}: must be {', '.join(names)}, or the path of a .csv, .tsv or "
        f".npz file{did_you_mean(workers.dataset, names)}"
    )


def check_protectable(workers: Workers) -> None:
    """Refuse to protect data that are dealt for a study, or whose classes would be found in private rows."""
    if workers.holding.endswith("-skewed"):
        raise ScenarioError(
            f'workers.holding = "{workers.holding}": deals rows for a study, by their labels; for --private name who '
            "holds a row (workers.worker_column)"
        )
    own_file = known_dataset(workers.dataset) is None
    if own_file and workers.task == "classification" and not workers.classes:
        raise ScenarioError(
            'workers.classes: must be declared to protect your own data; add a line such as classes = ["no", "yes"] to '
            "[workers], with all classes that there may be: a class found in the rows reveals that some row has it "
            "(`airmix init` writes the line)"
        )


def pool_rows(workers: Workers, rows: int, *, own_test: bool, test_rows: bool = True) -> int:
    """Return how many of a source's rows the pool holds; the arguments say what there is to test on."""
    everything = own_test or not test_rows
    return workers.train_samples or (rows if everything else max(1, 2 * rows // 3))


def units_of(raw: RawData) -> int:
    """Return what is split and counted: samples, or where people hold several, these people."""
    return len(raw.labels) if raw.holders is None else int(raw.holders.max(initial=-1)) + 1


def pool_and_test(raw: RawData, workers: Workers, rng: Generator, test_rows: bool) -> tuple[Integers, Integers]:
    """Return which rows of the source the pool has, and which others are there to test on where it has no test set.

    ``rng`` is that of the stream "data". Where people hold several rows, the people are shuffled and cut: nobody has
    rows on both sides.
    """
    own_test = raw.test_labels is not None
    units = len(raw.inputs) if own_test else units_of(raw)
    pool = pool_rows(workers, units, own_test=own_test, test_rows=test_rows)
    most = units - (1 if test_rows and not own_test else 0)
    if pool > most:
        what = "training samples" if own_test else "samples" if raw.holders is None else "workers"
        default = "them all" if own_test or not test_rows else "two thirds, so that some are left to test on"
        raise ScenarioError(
            f"workers.train_samples = {workers.train_samples}: must be at most {most} for {raw.name}, which has "
            f"{units} {what} (0 takes {default})"
        )
    order = np.arange(units) if own_test and pool == units else rng.permutation(units)
    if raw.holders is None or own_test:
        return order[:pool], order[pool:]
    in_pool = np.isin(raw.holders, order[:pool])
    return np.flatnonzero(in_pool), np.flatnonzero(~in_pool)
