"""What so few workers can learn is said beforehand, and a sum that no honest workers have is noticed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deploy_histories import WORKERS, analog_contract, keys, small_contract
from one_process import carry, new_ledger
from scipy.stats import ncx2

from airmixml.deploy.compiling import data_of
from airmixml.deploy.contract import Contract
from airmixml.deploy.expectations import noise_beside_mean, outside, told_beforehand, warnings_of
from airmixml.deploy.frames import FrameKind
from airmixml.deploy.journal import Journal
from airmixml.deploy.rehearsal import REHEARSALS, rehearse, told_of
from airmixml.deploy.rounds import Sum
from airmixml.deploy.server import Server
from airmixml.deploy.worker import Device
from airmixml.integers.encoding import signed

ROUNDS = 2000


def a_sum(contract: Contract, mean: Any) -> Sum:
    return Sum(0, 0, tuple(range(WORKERS)), mean, contract.kinds[0].noise_variance(WORKERS))


def loudest(contract: Contract, random: np.random.Generator) -> Any:
    """A mean of workers that all send the longest vector there is, with the noise of the contract."""
    kind = contract.kinds[0]
    vector = np.zeros(kind.numbers)
    vector[0] = kind.norm
    return vector + math.sqrt(kind.noise_variance(WORKERS)) * random.standard_normal(kind.numbers)


@pytest.mark.parametrize("make", [small_contract, analog_contract])
def test_honest_workers_are_never_suspected_however_loud(make: Callable[[], Contract]) -> None:
    contract, random = make(), np.random.default_rng(1)
    assert [outside(contract, a_sum(contract, loudest(contract, random))) for _ in range(ROUNDS)] == [""] * ROUNDS


@pytest.mark.parametrize("make", [small_contract, analog_contract])
def test_the_longest_mean_is_not_far_from_what_chance_gives(make: Callable[[], Contract]) -> None:
    """Between the exact quantile for a probability of 5e-7, by SciPy, and a fifth more."""
    contract = make()
    kind = contract.kinds[0]
    variance = kind.noise_variance(WORKERS)
    exact = math.sqrt(variance * ncx2.isf(5e-7, kind.numbers, kind.norm**2 / variance))
    even = np.full(kind.numbers, 1.0 / math.sqrt(kind.numbers))  # no single number is large
    assert outside(contract, a_sum(contract, even * exact * 0.999)) == ""
    assert "has a norm of" in outside(contract, a_sum(contract, even * exact * 1.2))


def test_one_number_alone_is_enough() -> None:
    contract = small_contract()
    kind, mean = contract.kinds[0], np.zeros(contract.kinds[0].numbers)
    deviation = math.sqrt(kind.noise_variance(WORKERS))
    mean[3] = -kind.norm - 5.0 * deviation  # which honest workers reach once in a million rounds
    assert outside(contract, a_sum(contract, mean)) == ""
    mean[3] = -kind.norm - 7.0 * deviation
    assert "has a number of" in outside(contract, a_sum(contract, mean))


@pytest.mark.parametrize("hostile", [False, True])
def test_a_worker_that_sends_anything_is_noticed_in_the_log_and_the_result(hostile: bool, tmp_path: Path) -> None:
    """Behind masks its frame passes every check; it is uniform modulo 2^b, as all frames look."""
    contract, lines = small_contract(), list[str]()
    contract = replace(
        contract, scenario=contract.scenario.replace("rounds = 1", "rounds = 0"), kinds=contract.kinds[:1]
    )
    server = Server(contract, keys()[1], Journal(tmp_path / "journal", contract.run), note=lines.append)
    ledger, random = new_ledger(contract, tmp_path), np.random.default_rng(2)
    kind = contract.kinds[0]
    assert isinstance(kind, FrameKind)

    def vector(_kind: int, _told: Any) -> Any:
        return np.zeros(kind.numbers)

    devices = {number: Device(number, contract, key, vector, ledger) for number, key in enumerate(keys()[0].values())}
    if hostile:
        garbage = signed(random.integers(0, 1 << kind.bits, kind.numbers, dtype=np.uint64), kind.bits)

        class Hostile(FrameKind):
            def noisy(self, vector: Any, seed: bytes, slot: int) -> Any:
                return garbage

        loud = Hostile(**vars(kind))
        devices[2].contract = replace(contract, kinds=(loud,))
        devices[2].contract.__dict__["run"] = contract.run
    carry(server, devices)
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    told = warnings_of(contract, server.sums)
    assert [line for line in lines if "WARNING" in line] == [f"WARNING: {line}" for line in told]
    assert len(told) == hostile
    if hostile:
        assert told[0].startswith("round 0: the mean of moments has a norm of ")
        assert np.abs(found.mean).max() > kind.norm


def test_noise_beside_the_mean_by_hand() -> None:
    """Six workers, each with Skellam noise of its variance: the root of d of these over six, over the norm."""
    contract = small_contract()
    for kind in contract.kinds:
        assert isinstance(kind, FrameKind)
        of_one = kind.step * math.sqrt(kind.numbers * (kind.variance + kind.rounding_variance))
        assert noise_beside_mean(contract)[kind.sends] == pytest.approx(of_one / math.sqrt(WORKERS) / kind.norm)
    assert told_beforehand(contract).startswith("6 workers: noise is ")


def test_large_numbers_are_written_in_digits() -> None:
    contract = small_contract()
    noisy = replace(contract, kinds=tuple(replace(each, norm=1e-6 * each.norm) for each in contract.kinds))
    far = replace(a_sum(noisy, np.full(noisy.kinds[0].numbers, 1e9)), variance=1e8)
    for line in (told_beforehand(noisy), outside(noisy, far)):
        assert re.search(r"\d{1,3}(,000)+", line), line
        assert "e+" not in line


def test_rehearsals_meet_what_the_noise_leaves(tmp_path: Path) -> None:
    """With next to no noise all runs end alike, and with all of it they differ."""
    contract = small_contract()
    dataset = data_of(contract.plan)
    names = np.array(dataset.class_names)[dataset.train_labels]
    paths = []
    assert dataset.row_format is not None
    random = np.random.default_rng(3)
    raw = random.uniform(0.0, 8.0, (5 * WORKERS, dataset.row_format.width))
    for number in range(WORKERS):
        rows = slice(5 * number, 5 * number + 5)
        paths.append(tmp_path / f"{number}.npz")
        np.savez(paths[-1], inputs=raw[rows], labels=names[rows])
    quiet = replace(contract, kinds=tuple(replace(each, variance=1e-12) for each in contract.kinds))
    found = rehearse(quiet, dataset, paths)
    assert len(found) == REHEARSALS
    assert found[-1] - found[0] <= 0.05
    noisy = rehearse(contract, dataset, paths)
    assert noisy == sorted(noisy)
    assert noisy[-1] - noisy[0] > 0.05
    assert told_of([0.37, 0.7, 0.97]).startswith(
        "rehearsed 3 times: 37 to 97 % accuracy on the test rows, half of them below 70 %"
    )


def test_init_says_beforehand_what_so_few_can_learn(airmix: Any, tmp_path: Path) -> None:
    words = ("deploy", "init", "--preset", "trustless-wine", "--workers")
    told = {}
    for count in (8, 16):
        done = airmix(*words, str(count), "--out", f"at-{count}", "--json")
        assert done.returncode == 0, done.stderr
        told[count] = json.loads(done.stdout)["noise_beside_mean"]
    assert told[8].keys() == {"moments", "gradients"}
    assert all(1.5 < told[8][what] / told[16][what] < 2.6 for what in told[8]), "about twice as much for half as many"
