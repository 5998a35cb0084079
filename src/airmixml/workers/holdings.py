"""Several rows on a worker: which they are, where the data say it or a study deals them unequally.

Label-skewed: every worker holds as many rows, and the classes of each worker follow shares of its own, drawn from a
symmetric Dirichlet distribution. Size-skewed: every worker holds a row, and the remaining rows go to workers with such
shares, so that some hold many and most hold few. A small concentration is far from equal, a large one nearly equal.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Integers
from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.scenario import Workers

NOBODY = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """The rows of the pool that each worker holds, padded to the same number.

    Attributes:
        rows: holdings x most rows of one; 0 where there is none.
        present: whether there is one; holdings x most rows of one.
    """

    rows: Integers
    present: NDArray[np.bool_]

    @property
    def sizes(self) -> Integers:
        """How many rows each holding has; shape holdings."""
        return np.asarray(self.present.sum(axis=1))


def gather_rows(holders: Integers, count: int, max_rows: int, rng: Generator) -> Holdings:
    """Return the rows of each of ``count`` holders, of which ``holders`` says who holds which; shape rows.

    Rows of ``NOBODY`` are left out. Where one has more than ``max_rows`` (0: no limit), chance picks those that enter:
    for each holder by itself, as the order of its rows in one permutation is. Where data are protected the chance must
    be secret, or the pick of others would tell how many rows one has.
    """
    order = rng.permutation(len(holders)) if max_rows else np.arange(len(holders))
    order = order[holders[order] != NOBODY]
    order = order[np.argsort(holders[order], kind="stable")]
    holder = holders[order]
    sizes = np.bincount(holder, minlength=count)
    place = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[holder]
    enters = place < max_rows if max_rows else np.ones(len(order), dtype=bool)
    most = int(min(sizes.max(initial=1), max_rows or len(holders)))
    rows = np.zeros((count, max(1, most)), dtype=np.int64)
    present = np.zeros(rows.shape, dtype=bool)
    rows[holder[enters], place[enters]] = order[enters]
    present[holder[enters], place[enters]] = True
    return Holdings(rows=rows, present=present)


def deal_rows(workers: Workers, dataset: DataSet, rng: Generator) -> Integers:
    """Deal the rows of the pool to the scenario's workers; return who holds each row, or ``NOBODY``; shape rows."""
    samples, count = dataset.train_samples, workers.count
    wanted = workers.rows_per_worker * count or samples
    if wanted > samples or count > samples:
        key, value = ("rows_per_worker", workers.rows_per_worker) if wanted > samples else ("count", count)
        raise ScenarioError(
            f"workers.{key} = {value}: must be at most {samples // (count if wanted > samples else 1)} for "
            f'workers.holding = "{workers.holding}" with {count} workers and the {samples} rows of the pool'
        )
    order = rng.permutation(samples)[:wanted]
    owners = np.full(samples, NOBODY, dtype=np.int64)
    if workers.holding == "size-skewed":
        shares = rng.dirichlet(np.full(count, workers.skew))
        sizes = 1 + rng.multinomial(wanted - count, shares)
        owners[order] = np.repeat(np.arange(count), sizes)
    else:
        seats = np.repeat(np.arange(count), wanted // count)
        labels = np.asarray(dataset.train_labels)[order[: len(seats)]]
        owners[order[: len(seats)]] = _seated(seats, labels, dataset.label_dim, workers, rng)
    return owners


def _seated(seats: Integers, labels: Integers, classes: int, workers: Workers, rng: Generator) -> Integers:
    """Return the worker of each row: every seat asks for a class by its worker's shares and gets such a row.

    Where more seats ask for a class than there are rows of it, chance fills the others with what is left. The seats'
    workers and the rows' classes are of one shape.
    """
    # The classes that are in the pool more often are asked for more often, so that few seats remain.
    frequency = np.bincount(labels, minlength=classes) / len(labels)
    shares = rng.dirichlet(np.maximum(workers.skew * classes * frequency, 1e-9), size=workers.count)
    cumulative = np.cumsum(shares, axis=1)
    asked = (rng.random(len(seats))[:, None] > cumulative[seats] / cumulative[seats][:, -1:]).sum(axis=1)
    mixed = rng.permutation(len(seats))
    found = np.full(len(labels), NOBODY, dtype=np.int64)
    taken = np.zeros(len(seats), dtype=bool)
    for kind in range(classes):
        there, asking = np.flatnonzero(labels == kind), mixed[asked[mixed] == kind]
        matched = min(len(there), len(asking))
        found[there[:matched]] = seats[asking[:matched]]
        taken[asking[:matched]] = True
    left = rng.permutation(np.flatnonzero(~taken))
    found[found == NOBODY] = seats[left]
    return found
