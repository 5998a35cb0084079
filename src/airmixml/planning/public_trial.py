"""Whether what synthetic tables recommend holds on the public data set that a scenario names, whose rows may be read.

Synthetic tables stand for rows that nobody may look at. A table that comes with the package is public: there the
designs that do better than the scenario's own on synthetic tables are tried on several splits, and these decide.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from airmixml.data import known_dataset
from airmixml.planning.design_search import DesignSearch, PublicCheck, TableTrial, best_of
from airmixml.planning.slot_designs import InputMoments
from airmixml.planning.synthetic_tables import SyntheticTable
from airmixml.registries import DATASETS
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset


class PublicTrial(TableTrial):
    """Splits of the scenario's own data set, its rows on workers as in a run, in place of synthetic tables."""

    def __init__(self, scenario: Scenario, input_dim: int, label_dim: int, moments: InputMoments) -> None:
        super().__init__(scenario, input_dim, label_dim, moments)
        self.inputs, self.classes = input_dim, label_dim
        plain: dict[str, Any] = {"encoder": "scale", "features": 0, "centre": "none", "norm": "clip", "constant": 0.0}
        self._plain = replace(scenario.workers, **plain, sends="samples", label_code="one-hot", label_weight=1.0)

    def table(self, number: int) -> SyntheticTable:
        """Return the split and the workers of one seed; inputs are scaled by the declared bounds alone."""
        streams = Streams(self.scenario.seed + number)
        rows = load_dataset(self._plain, streams)
        held = deploy(self._plain, rows, streams).sample_index
        return SyntheticTable(
            train_inputs=rows.train_inputs[held],
            train_labels=np.asarray(rows.train_labels)[held],
            test_inputs=rows.test_inputs,
            test_labels=np.asarray(rows.test_labels),
        )


def checked_on_public_rows(
    search: DesignSearch, scenario: Scenario, input_dim: int, label_dim: int, moments: InputMoments
) -> DesignSearch:
    """Return the search whose best design is the best on the scenario's data too, where they are public."""
    known = known_dataset(scenario.workers.dataset)
    public = known is not None and known.name in DATASETS.own and known.image_shape is None
    if not public or search.best is search.own or search.own.air_seconds > search.max_air_seconds:
        return search
    fitting = [each for each in search.tried if each.air_seconds <= search.max_air_seconds]
    better = [each.design for each in fitting if not search.own.as_good_as(each)]
    candidates = dict.fromkeys((search.own.design, search.best.design, *better))
    tried = PublicTrial(scenario, input_dim, label_dim, moments).of(candidates)
    own, first = tried[:2]
    tried.sort(key=lambda each: -each.accuracy)
    check = PublicCheck(
        name=scenario.workers.dataset, own=own, first=first, best=best_of(tried, own, search.max_air_seconds)
    )
    return replace(search, public=check, best=next(each for each in fitting if each.design == check.best.design))
