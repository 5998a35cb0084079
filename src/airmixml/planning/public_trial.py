"""Which design serves the public data set that a scenario names, whose rows may be read.

Synthetic tables stand for rows that nobody may look at. A table that comes with the package is public: designs are
tried on several splits of itself, its rows on workers as in a run.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from airmixml.planning.design_search import TableTrial
from airmixml.planning.slot_designs import InputMoments, is_public
from airmixml.planning.table_trial import SyntheticTable
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset


class PublicTrial(TableTrial):
    """Splits of the scenario's own data set, its rows on workers as in a run, in place of synthetic tables."""

    def __init__(
        self,
        scenario: Scenario,
        input_dim: int,
        label_dim: int,
        moments: InputMoments,
        progress: Progress = silent,
    ) -> None:
        super().__init__(scenario, input_dim, label_dim, moments, progress)
        name = scenario.workers.dataset
        self.times, self.told, self.rows = (
            f"splits of {name}",
            f"{name}, which is public and was read",
            scenario.workers.count,
        )
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


def trial_of(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    moments: InputMoments,
    progress: Progress = silent,
    *,
    named: bool,
) -> TableTrial:
    """Return what tries designs: on the scenario's own rows where these are ``named`` and public, else on synthetic."""
    kind = PublicTrial if named and is_public(scenario) else TableTrial
    return kind(scenario, input_dim, label_dim, moments, progress)
