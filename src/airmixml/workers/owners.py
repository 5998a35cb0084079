"""Whose data a run's workers hold, so that the same person is known again in the next run.

The number of a worker means nothing beyond its run: a seed splits the data, shuffles them, and deals them anew. What
lasts is the row of the data set, or the name of its holder where the data have one (``workers.worker_column``).
"""

from dataclasses import dataclass

import numpy as np

from airmixml.arrays import Integers
from airmixml.data.dataset import RawData
from airmixml.errors import ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.loading import pool_and_test, units_of
from airmixml.workers.population import deploy


@dataclass(frozen=True, kw_only=True, eq=False)
class Owners:
    """The owners of the data of one run.

    Attributes:
        label: what their numbers or names are of.
        count: rows that the data set has to train on; 0 where owners have names.
        who: number of each owner, or its name; one for each holding of the pool.
        holding: the holding that each worker has; shape workers. None where a secret decides that, and nobody has two.
    """

    label: str
    count: int
    who: Integers | tuple[str, ...]
    holding: Integers | None

    @property
    def workers_each(self) -> Integers:
        """On how many workers the data of each owner lie, at most; shape of ``who``."""
        if self.holding is None:
            return np.ones(len(self.who), dtype=np.int64)
        return np.bincount(self.holding, minlength=len(self.who))


def owners_of(workers: Workers, raw: RawData, seed: int, *, protected: bool, test_rows: bool = True) -> Owners:
    """Return whose data the workers of a run with that seed hold; refuse holdings that are nobody's twice.

    ``test_rows`` is that of ``load_dataset``. In protection who is which worker stays secret, so that everybody in the
    pool counts as one of them.
    """
    if workers.holding.endswith("-skewed"):
        raise ScenarioError(
            f'workers.holding = "{workers.holding}": deals rows to new workers with each seed, so that no ledger can '
            'know them again; use "dealt", or name who holds a row (workers.worker_column)'
        )
    if protected and workers.holding == "drawn":
        raise ScenarioError(
            'workers.holding = "drawn": chance decides in secret on how many workers a row lies, and nothing bounds '
            'beforehand what its owner loses; use workers.holding = "dealt" with a ledger'
        )
    streams = Streams(seed)
    pool, _ = pool_and_test(raw, workers, streams.generator("data"), test_rows)
    available = len(pool) if raw.holders is None else len(np.unique(raw.holders[pool]))
    dealt = deploy(workers, available, streams).sample_index  # in protection for its refusals alone
    holding = None if protected else dealt
    if raw.holders is None:
        who = np.sort(pool) if holding is None else pool
        return Owners(label=f"rows of {raw.name}", count=units_of(raw), who=who, holding=holding)
    names = tuple(raw.holder_names[number] for number in np.unique(raw.holders[pool]).tolist())
    return Owners(label=f"column {workers.worker_column}", count=0, who=names, holding=holding)
