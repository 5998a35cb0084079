"""Trials on tables: synthetic ones for rows that nobody may look at, splits of itself for a table that is public.

Each candidate encodes tables of the right number of columns and classes, its moments get the noise that the privacy
target leaves, and the learner solves them in closed form; where rounds follow, it descends by clipped gradients of the
same rows with their noise. benchmarks/check_tables_plan.py compares the order with that on real tables.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np

from airmixml.errors import AirMixError
from airmixml.planning.design_search import TableDesign, Trial, TriedDesign
from airmixml.planning.image_designs import ImageTrial, nearest_set
from airmixml.planning.slot_designs import InputMoments, is_public
from airmixml.planning.table_trial import KINDS, EncodedTable, NoisyDesign, SyntheticTable, make_table
from airmixml.progress import Progress, silent
from airmixml.radio.centring import mean_slot
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
from airmixml.scenario.automatic import clipped_share
from airmixml.streams import Streams
from airmixml.workers import deploy, encoded_dim, load_dataset

# What keeps a plan quick: larger tables are made with so many rows, columns and classes, and say so.
MOST_ROWS: Final = 2000
MOST_INPUTS: Final = 64
MOST_CLASSES: Final = 20
TABLES: Final = 2 * len(KINDS)
_FEATURES: Final = (32, 64, 128, 256)
_WEIGHTS: Final = (0.7, 1.0)
_MODELS: Final = ("ridge", "lda")
# Every encoding is tried with the first number of rounds, the best of them with the others too.
ROUNDS: Final = (20, 4, 8, 50)
# Features beyond this many rows per feature leave nothing but noise.
_FEWEST_ROWS_PER_FEATURE: Final = 10
_TABLE_ENCODERS: Final = ("clip", "mixed")
_PLAIN: Final[dict[str, Any]] = {"encoder": "scale", "features": 0, "centre": "none", "norm": "clip", "constant": 0.0}


class TableTrial(Trial):
    """Synthetic tables, with columns of about these moments once they are scaled to [0, 1]; no data is read."""

    times = "synthetic tables"

    def __init__(
        self, scenario: Scenario, input_dim: int, label_dim: int, moments: InputMoments, progress: Progress = silent
    ) -> None:
        """Take the columns before they are encoded, and what is assumed of each."""
        super().__init__(scenario)
        self._dimensions, self._moments, self._progress = (input_dim, label_dim), moments, progress
        self._distance_metres, self._stage = placed_distances(scenario), 0
        self.rows = min(scenario.workers.count, MOST_ROWS)
        self.inputs, self.classes = min(input_dim, MOST_INPUTS), min(label_dim, MOST_CLASSES)

    def table(self, number: int) -> SyntheticTable:
        """Return one of them."""
        return make_table(
            KINDS[number % len(KINDS)],
            rows=self.rows,
            inputs=self.inputs,
            classes=self.classes,
            moments=self._moments,
            rng=np.random.default_rng((self.scenario.seed, number)),
        )

    def of(self, designs: Iterable[TableDesign]) -> list[TriedDesign]:
        """Return what each design reaches."""
        scenario, classes, distance_metres = self.scenario, self.classes, self._distance_metres
        settings = {
            design: NoisyDesign.of(design.applied_to(scenario), self.inputs, classes, distance_metres)
            for design in designs
        }
        found: dict[TableDesign, list[float]] = {design: [] for design in settings}
        for number in range(TABLES):
            self._progress(self.times, number + self._stage * TABLES, 2 * TABLES)
            table = self.table(number)
            encoded: dict[TableDesign, EncodedTable] = {}
            for design, setting in settings.items():
                # Learner, rounds and weight change nothing about the encoding.
                key = replace(design, model="", label_weight=1.0, rounds=0)
                if key not in encoded:
                    encoded[key] = EncodedTable(setting.scenario, table, classes, distance_metres, number)
                found[design].append(encoded[key].accuracy(setting))
        self._stage = 1
        self._progress(self.times, TABLES, 2 * TABLES)
        return [self._tried(design, settings[design].scenario, found[design]) for design in settings]

    def _tried(self, design: TableDesign, aired: Scenario, accuracies: list[float]) -> TriedDesign:
        input_dim, label_dim = self._dimensions
        system = System.of(aired, encoded_dim(aired.workers, input_dim), label_dim)
        mean = mean_slot(aired, input_dim, self._distance_metres)
        return TriedDesign(
            design=design,
            accuracies=tuple(accuracies),
            uplink_symbols=system.uplink_symbols + (0 if mean is None else mean.features),
            air_seconds=system.air_seconds + (0.0 if mean is None else mean.seconds),
        )

    def candidates(self) -> Iterator[TableDesign]:
        """Yield designs that the scenario's keys allow, each once."""
        workers = self.scenario.workers
        own = TableDesign.of(self.scenario)
        plain = replace(own, model="ridge", encoder="clip", features=0, centre="public", norm="clip", rounds=0)
        plain = replace(plain, label_code="one-hot", label_weight=1.0, clip_norm=clipped_share(self._dimensions[0]))
        unit = replace(plain, norm="unit", clip_norm=1.0)
        found = [replace(plain, model=model) for model in _MODELS]
        places = [replace(each, centre=centre) for centre in ("public", "refined") for each in (plain, unit)]
        counts = [count for count in _FEATURES if count * _FEWEST_ROWS_PER_FEATURE <= workers.count]
        # Features of rows far from the centre all point one way, so they are tried with the better centre alone.
        centre = "refined" if self._allows(replace(plain, centre="refined")) else "public"
        mixed = replace(unit, encoder="mixed", centre=centre)
        places += [replace(mixed, features=count) for count in counts]
        code = "centred" if workers.constant else "one-hot"
        for place, model, weight in product(places, _MODELS, _WEIGHTS):
            found.append(replace(place, model=model, label_code=code, label_weight=weight))
        # Rounds hardly depend on what they start from, which is solved by least squares.
        few = [replace(unit, centre=centre), *(replace(mixed, features=count) for count in counts[-2:])]
        found += [replace(place, label_code=code, rounds=ROUNDS[0]) for place in few]
        yield from filter(self._allows, dict.fromkeys(found))

    def after(self, tried: list[TriedDesign]) -> Iterator[TableDesign]:
        """Yield the best design that has rounds with other numbers of them."""
        best = max((each for each in tried if each.design.rounds), key=lambda each: each.accuracy, default=None)
        if best is not None:
            yield from (replace(best.design, rounds=rounds) for rounds in ROUNDS)

    def _allows(self, design: TableDesign) -> bool:
        try:
            design.applied_to(self.scenario)
        except AirMixError:
            return False
        return True


class PublicTrial(TableTrial):
    """Splits of the scenario's own data set, its rows on workers as in a run."""

    def __init__(
        self, scenario: Scenario, input_dim: int, label_dim: int, moments: InputMoments, progress: Progress = silent
    ) -> None:
        """Take the same as for synthetic tables."""
        super().__init__(scenario, input_dim, label_dim, moments, progress)
        name, self.rows = scenario.workers.dataset, scenario.workers.count
        self.times, self.told = f"splits of {name}", f"{name}, which is public and was read"
        self.inputs, self.classes = input_dim, label_dim
        self._plain = replace(scenario.workers, **_PLAIN, sends="samples", label_code="one-hot", label_weight=1.0)

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
    dimensions: tuple[int, int],
    held_dim: int | None,
    moments: InputMoments,
    progress: Progress = silent,
    *,
    named: bool,
) -> Trial | None:
    """Return what tries designs, the scenario's own rows where these are ``named`` and public; None where nothing can.

    That needs classes, and every worker sending the unrounded moments of one row. Arguments are those of ``make_plan``.
    """
    workers = scenario.workers
    at_once = not workers.several_rows and not workers.bits and workers.sends == "moments" and scenario.all_send
    if not at_once or workers.task != "classification":
        return None
    if held_dim is None:
        measured = nearest_set(scenario)
        return measured and ImageTrial(scenario, dimensions, measured)
    if workers.encoder not in _TABLE_ENCODERS:
        return None
    kind = PublicTrial if named and is_public(scenario) else TableTrial
    return kind(scenario, held_dim, dimensions[1], moments, progress)
