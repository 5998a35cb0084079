"""Rows of the scenario's data set as files of the workers, for a trial; else workers have rows of their own."""

import io
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Integers
from airmixml.data import DataSet
from airmixml.deploy.endpoint import Endpoint, find_folder
from airmixml.progress import silent
from airmixml.scenario import Scenario
from airmixml.storage.files import write_bytes
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_and_test
from airmixml.workers.population import deploy

ROWS: Final = "rows.npz"


def deal_rows(
    scenario: Scenario, dataset: DataSet, folder: Path, server: Endpoint, data_dir: Path | None = None
) -> list[int]:
    """Write the rows of each worker into the folder of its endpoint; return how many each worker has.

    They are those that a simulation of the scenario gives them, as the source has them: workers encode them themselves.
    """
    streams = Streams(scenario.seed)
    raw = load_raw(scenario.workers, data_dir, silent)
    pool, _ = pool_and_test(raw, scenario.workers, streams.generator("data"), True)
    population = deploy(scenario.workers, dataset, streams)
    held: list[Integers] = [np.array([each]) for each in population.sample_index]
    if (holdings := population.holdings) is not None:
        held = [holdings.rows[each][holdings.present[each]] for each in population.sample_index]
    for name in server.names:
        rows = pool[np.concatenate([held[number] for number in server.numbers(name)])]
        labels = raw.labels[rows]
        classes = np.issubdtype(labels.dtype, np.integer)
        content = io.BytesIO()
        np.savez_compressed(
            content,
            inputs=raw.inputs[rows],
            labels=np.array([raw.class_names[each] for each in labels]) if classes else labels.reshape(-1),
        )
        write_bytes(find_folder(folder, name) / ROWS, content.getvalue())
    return [len(each) for each in held]
