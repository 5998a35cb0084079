"""The signal of rows that may be read: of a public table that the scenario names, as a run of that seed has it."""

from __future__ import annotations

import numpy as np

from airmixml.data import known_dataset
from airmixml.planning.slot_designs import ExpectedSignal
from airmixml.radio.centring import centre_privately
from airmixml.registries import DATASETS
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Signal, deploy, load_dataset


def is_public(scenario: Scenario) -> bool:
    """Whether the scenario's rows are a table that comes with the package, which anybody may read."""
    known = known_dataset(scenario.workers.dataset)
    return known is not None and known.name in DATASETS.own and known.image_shape is None


def public_signal(scenario: Scenario) -> ExpectedSignal | None:
    """Return the energies of what workers send of public rows; None where no such rows are sent one by one."""
    workers, one_by_one = scenario.workers, scenario.workers.sends in ("samples", "moments")
    if not is_public(scenario) or workers.several_rows or not one_by_one or not scenario.air.is_ideal:
        return None
    streams = Streams(scenario.seed)
    dataset = load_dataset(workers, streams)
    population = deploy(workers, dataset, streams)
    dataset = centre_privately([scenario], dataset, population)
    held = population.sample_index
    inputs = dataset.train_inputs[held].astype(np.float64)
    labels = workers.label_weight * dataset.label_code.coded(np.asarray(dataset.train_labels)[held])
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    rows = len(inputs)
    squares, weights = (inputs**2).sum(axis=1), (labels**2).sum(axis=1)
    means = (inputs.mean(axis=0), labels.mean(axis=0))
    if signal.moments:
        means, weights, squares = (inputs.T @ inputs / rows, inputs.T @ labels / rows), squares * weights, squares**2
    return ExpectedSignal(
        input_energy=float(squares.mean()) / signal.input_symbols,
        input_mean_energy=float((means[0] ** 2).sum()) / signal.input_symbols,
        label_energy=float(weights.mean()) / signal.label_symbols,
        label_mean_energy=float((means[1] ** 2).sum()) / signal.label_symbols,
        workers=rows,
    )
