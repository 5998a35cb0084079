"""No two protected fits share noise, however the second came about: the same rows leave different sums every time."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone

from airmixml import AirMixClassifier

ROWS = np.random.default_rng(4).random((40, 3))
CLASSES = np.arange(40) % 2
TIMES = 4


def made() -> AirMixClassifier:
    """Return a classifier with one seed: the encoder's features are the same in every fit, the noise is not."""
    return AirMixClassifier(epsilon=1.0, input_bounds=(0, 1), classes=(0, 1), random_state=0)


def received(model: AirMixClassifier) -> tuple[float, ...]:
    """Return what the server received of the rows, fitted now."""
    return tuple(model.fit(ROWS, CLASSES).mixtures_.inputs[0].tolist())


def send(model: AirMixClassifier, pipe: Any) -> None:
    pipe.send(received(model))
    pipe.close()


def forked(model: AirMixClassifier) -> list[tuple[float, ...]]:
    context, sums = multiprocessing.get_context("fork"), []
    for _ in range(TIMES):
        ours, theirs = context.Pipe()
        child = context.Process(target=send, args=(model, theirs))
        child.start()
        sums.append(ours.recv())
        child.join()
    return sums


def in_threads(model: AirMixClassifier) -> list[tuple[float, ...]]:
    with ThreadPoolExecutor(TIMES) as pool:
        return list(pool.map(received, [clone(model) for _ in range(TIMES)]))


WAYS: dict[str, Callable[[AirMixClassifier], list[tuple[float, ...]]]] = {
    "refit": lambda model: [received(model) for _ in range(TIMES)],
    "clone": lambda model: [received(clone(model)) for _ in range(TIMES)],
    "deepcopy": lambda model: [received(copy.deepcopy(model)) for _ in range(TIMES)],
    "pickle": lambda model: [received(pickle.loads(pickle.dumps(model))) for _ in range(TIMES)],
    "threads": in_threads,
    "joblib threads": lambda model: list(
        Parallel(n_jobs=2, backend="threading")(delayed(received)(clone(model)) for _ in range(TIMES))
    ),
}


def all_differ(sums: list[tuple[float, ...]]) -> bool:
    """Whether no number of one is a number of another: noise that was shared in part would leave some alike."""
    numbers = [number for each in sums for number in each]
    return len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("way", WAYS)
def test_noise_is_fresh(way: str) -> None:
    model = made()
    first = received(model)
    assert all_differ([first, *WAYS[way](model)])


def test_noise_is_fresh_in_forked_processes() -> None:
    model = made()
    first = received(model)
    assert all_differ([first, *forked(model)])


@pytest.mark.long
def test_noise_is_fresh_in_processes_of_joblib() -> None:
    sums = Parallel(n_jobs=2, backend="loky")(delayed(received)(made()) for _ in range(TIMES))
    assert all_differ([received(made()), *sums])


def test_noise_of_a_simulation_is_the_same() -> None:
    """So that the tests above can fail."""
    model = made().set_params(mode="simulation")
    assert received(model) == received(clone(model))
