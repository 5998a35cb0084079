"""A small run of real workers: their deployment, their rows, and what their sum must be."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.data.dataset import RawData, known_dataset
from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.credentials import create_deployment, free_ports
from airmixml.deploy.endpoint import Endpoint, load_contract
from airmixml.deploy.rounds import Sum
from airmixml.deploy.worker_process import vectors
from airmixml.progress import silent

WORKERS = 8
SETTINGS = ("privacy.epsilon=20", "privacy.most_absent=0.25", "privacy.colluders=1")


@lru_cache
def planned(workers: int = WORKERS) -> tuple[Scenario, DataSet]:
    scenario = planned_for(Scenario.preset("trustless-digits-digital").with_overrides(*SETTINGS), workers)
    return scenario, data_of(scenario)


@lru_cache
def raw() -> RawData:
    known = known_dataset("digits")
    assert known is not None
    return known.read(None, silent)


def deploy(folder: Path, workers: int = WORKERS, gateways: int = 0, *, spare: int = 0) -> Endpoint:
    """Write a deployment whose contract is one of digits; with so many spare rounds the noise is as planned for one."""
    scenario, dataset = planned(workers)
    return create_deployment(
        folder,
        lambda keys, server_key: make_contract(
            scenario, dataset, keys, server_key, epsilon=40.0 if spare else 0.0, spare=spare
        ),
        workers=workers,
        gateways=gateways,
        port=free_ports(1)[0],
    )


def write_rows(path: Path, numbers: range) -> Path:
    """Write a row for each of these workers: digits in their order."""
    found = raw()
    names = np.array(found.class_names)[found.labels[numbers.start : numbers.stop]]
    np.savez(path, inputs=found.inputs[numbers.start : numbers.stop], labels=names)
    return path


def check_sum(found: Sum, folder: Path, rows: Path, workers: int = WORKERS) -> None:
    """Compare with what the rows of its workers add up to: a frame too many or too few leaves masks in it."""
    contract = load_contract(folder / "server")
    given = vectors(contract, write_rows(rows / "all.npz", range(workers)), workers)
    mean = np.mean([given(worker)(0, None) for worker in found.present], axis=0)
    assert np.abs(found.mean - mean).max() < 7.0 * np.sqrt(found.variance)
