"""A study of tolerances: search every impairment's ladder at once, round by round; what is finished is kept."""

import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airmixml.errors import AirMixError, RunFolderError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.scenario import AIR_PRESETS, Air, Scenario
from airmixml.scenario.described_air import describe_air
from airmixml.scenario.scope import require_real_numbers
from airmixml.storage.files import writing_to
from airmixml.storage.run_folder import PARTIAL, RUNS_FOLDER, hold_folder, identity_of
from airmixml.streams import Streams
from airmixml.sweeps.grid_sweep import CELLS, check_engine
from airmixml.tolerances.epsilons import SLACK, Epsilons
from airmixml.tolerances.findings import FILES, Delivered, Tolerance, Tolerances
from airmixml.tolerances.search import Ladder
from airmixml.tolerances.sizes import Sizes, chosen_sizes
from airmixml.tolerances.trials import Trials

PRIVACY: Final = "privacy"
_BEST_FIRST: Final = ("lab", "campus")
HARDWARE: Final = tuple(
    dict.fromkeys(name for name in (*_BEST_FIRST, *AIR_PRESETS) if name in AIR_PRESETS and name != "ideal")
)
"""The classes of hardware whose numbers stand beside the tolerances."""


def find_tolerances(
    scenario: Scenario,
    *,
    drop: float = 1.0,
    seeds: int = 3,
    only: str | None = None,
    quick: bool = False,
    engine: str = "processes",
    jobs: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    device: str = "cpu",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Tolerances:
    """Find how bad each impairment may get, alone, before the accuracy falls by ``drop`` points.

    Every size is run with the same seeds as the ideal air, and compared seed by seed. Where the power follows from a
    privacy target, sizes are also found at which a system that was calibrated for the ideal air would miss it.

    Args:
        scenario: settled; its air is the base, on which one impairment at a time is changed.
        drop: how many points accuracy may fall.
        seeds: how many, beginning with the scenario's.
        only: keys of the table ``[air]``, with commas between them (default: all).
        quick: try every second size alone.
        engine: "processes" of this machine, or "ray".
        jobs: runs at a time (0: as many as cores, memory or the cluster allow; 1: in this process).
        out: folder that keeps every finished run (default: ``runs/tolerances-NAME``); the same call resumes.
        force: remove what another study left there.
        device: where to compute.
        data_dir: folder to look for MNIST in.
        progress: told how far each round is.
    """
    started, chosen = time.perf_counter(), chosen_sizes(only)
    check_engine(engine, jobs)
    require_real_numbers(scenario.privacy, "a search for tolerances")
    if not (0.0 < drop <= 100.0):
        raise ScenarioError(f"--drop = {drop:g}: must be a number of points above 0 and of at most 100")
    if seeds < 1:
        raise ScenarioError(f"--seeds = {seeds}: must be at least 1")
    scenario.with_seed(scenario.seed + seeds - 1)  # refuses a last seed that is too large
    check_privacy_target(scenario)
    label = "" if scenario.air.is_ideal else f"-{scenario.air.preset}"
    folder = RUNS_FOLDER / f"tolerances-{scenario.name}{label}" if out is None else Path(out)
    if folder.name.endswith(PARTIAL):
        raise RunFolderError(f"{folder}: belongs to an interrupted run; choose an --out that does not end in {PARTIAL}")
    numbers = range(scenario.seed, scenario.seed + seeds)
    identity = {**identity_of(scenario.with_seed(0)), "tolerances": True}
    own, begun = (CELLS, PRIVACY, *FILES), (folder / CELLS).exists()
    with writing_to(folder), hold_folder(folder, identity, holds="a study of tolerances", force=force, own=own):
        trials = Trials(scenario, numbers, folder / CELLS, engine=engine, jobs=jobs, device=device, data_dir=data_dir)
        study = _Study(scenario, trials, chosen, drop=drop, quick=quick, progress=progress)
        try:
            base = study.run_unchanged()
        except AirMixError:
            if not begun:
                shutil.rmtree(folder / CELLS, ignore_errors=True)  # why nothing can be run is not worth a folder
            raise
        study.search_accuracy()
        needed, epsilons = None, None
        if scenario.mixing.power == "dp":
            epsilons = Epsilons(scenario, _dimensions(scenario, data_dir), folder / PRIVACY)
            needed = epsilons.needed_power()
        found = []
        for number, sizes in enumerate(chosen):
            progress("privacy", number, len(chosen))
            found.append(study.tolerance_of(sizes, epsilons))
        progress("privacy", len(chosen), len(chosen))
    return Tolerances(
        scenario=scenario,
        metric=trials.metric,
        drop=drop,
        seeds=list(numbers),
        ideal=study.ideal,
        base=base,
        found=tuple(found),
        target=scenario.privacy.epsilon if epsilons is not None else None,
        needed=needed,
        kept=trials.kept,
        runs=trials.runs,
        out=folder,
        seconds=time.perf_counter() - started,
    )


def _dimensions(scenario: Scenario, data_dir: Path | None) -> tuple[int, int]:
    """Return d_X as it leaves the encoder, and d_Y."""
    from airmixml.data import known_dataset
    from airmixml.workers import encoded_dim, load_dataset

    known = known_dataset(scenario.workers.dataset)
    if known is not None:
        return encoded_dim(scenario.workers, known.input_dim), known.label_dim
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir)
    return dataset.input_dim, dataset.label_dim


class _Study:
    """One scenario, its runs, and where the search along each ladder stands."""

    def __init__(
        self,
        scenario: Scenario,
        trials: Trials,
        chosen: Sequence[Sizes],
        *,
        drop: float,
        quick: bool,
        progress: Progress,
    ) -> None:
        self.ideal: tuple[float, ...] = ()
        self._scenario = scenario
        self._trials = trials
        self._ladders = {sizes.key: Ladder(sizes, coarse=quick) for sizes in chosen}
        self._sizes_tried: dict[str, list[float]] = {sizes.key: [] for sizes in chosen}
        self._drop = drop
        self._progress = progress
        self._hardware = {name: describe_air(name).air for name in HARDWARE}

    def run_unchanged(self) -> tuple[float, ...]:
        """Run the ideal air and the base, and return the scores of the base; refuse a scenario that cannot be run."""
        base = self._scenario.air
        self._trials.run([Air(), base], self._progress, "ideal air")
        self.ideal = self._trials.scores(Air())
        return self._trials.scores(base)

    def search_accuracy(self) -> None:
        """Run rounds until every ladder has its answer, then what hardware has and no answer covers."""
        round_number = 0
        while asked := [(ladder, size) for ladder in self._ladders.values() if (size := ladder.next_size) is not None]:
            round_number += 1
            airs = [self._air(ladder.sizes, size) for ladder, size in asked]
            self._trials.run(airs, self._progress, f"search {round_number}")
            for (ladder, size), air in zip(asked, airs, strict=True):
                tried = self._trials.tried(air, size, self.ideal)
                ladder.told(size, tolerated=tried.is_tolerated(self._drop))
                self._sizes_tried[ladder.sizes.key].append(size)
        unsettled = [
            self._hardware_air(ladder.sizes, name)
            for ladder in self._ladders.values()
            for name in HARDWARE
            if self._settled(ladder, name) is None
        ]
        self._trials.run(unsettled, self._progress, "hardware")

    def _air(self, sizes: Sizes, size: float) -> Air:
        """Return the base air with one impairment of that size."""
        changed: dict[str, Any] = {**sizes.needs, sizes.key: size}
        return replace(self._scenario.air, **changed)

    def _hardware_size(self, sizes: Sizes, name: str) -> float | None:
        """Return what a class of hardware has; None where it has none of it."""
        size, off = getattr(self._hardware[name], sizes.key), getattr(Air(), sizes.key)
        return sizes.limits.get(name) if size == off else float(size)

    def _hardware_along(self, sizes: Sizes, name: str) -> dict[str, Any]:
        """Return the keys that belong to the impairment and are not as they were in the search."""
        searched = self._air(sizes, sizes.ladder[0])
        theirs = {key: getattr(self._hardware[name], key) for key in sizes.along}
        return {key: value for key, value in theirs.items() if value != getattr(searched, key)}

    def _hardware_air(self, sizes: Sizes, name: str) -> Air:
        size = self._hardware_size(sizes, name)
        assert size is not None
        return replace(self._air(sizes, size), **self._hardware_along(sizes, name))

    def _settled(self, ladder: Ladder, name: str) -> bool | None:
        """Return whether accuracy tolerates what a class of hardware has; None where it has to be run."""
        sizes, size = ladder.sizes, self._hardware_size(ladder.sizes, name)
        if size is None:
            return True
        if self._hardware_along(sizes, name):
            return None
        if ladder.largest_tolerated is not None and sizes.is_milder(size, ladder.largest_tolerated):
            return True
        if ladder.smallest_refused is not None and sizes.is_milder(ladder.smallest_refused, size):
            return False
        return None

    def tolerance_of(self, sizes: Sizes, epsilons: Epsilons | None) -> Tolerance:
        """Return everything about one impairment; ``epsilons`` where there is a target."""
        ladder = self._ladders[sizes.key]
        asked = epsilons if sizes.tells else None
        spent, private, revealing = self._search_privacy(sizes, asked)
        tried = [
            self._trials.tried(self._air(sizes, size), size, self.ideal)
            for size in sizes.ladder
            if size in self._sizes_tried[sizes.key]
        ]
        errors = [each.error for each in tried]
        return Tolerance(
            sizes=sizes,
            tolerated=ladder.largest_tolerated,
            refused=ladder.smallest_refused,
            tried=tuple(tried),
            why_not=errors[0] if all(errors) else "",
            epsilons=spent,
            private=private,
            revealing=revealing,
            delivered=tuple(self._delivered(ladder, name, asked) for name in HARDWARE),
        )

    def _search_privacy(
        self, sizes: Sizes, epsilons: Epsilons | None
    ) -> tuple[dict[float, float | None], float | None, float | None]:
        """Return epsilons by size, the most severe size with which the target holds, and the mildest without."""
        if epsilons is None:
            return {}, None, None
        ladder, spent = Ladder(sizes), dict[float, float | None]()
        while (size := ladder.next_size) is not None:
            spent[size] = epsilons.realised(self._air(sizes, size))
            ladder.told(size, tolerated=self._keeps_target(spent[size]))
        ordered = {size: spent[size] for size in sizes.ladder if size in spent}
        return ordered, ladder.largest_tolerated, ladder.smallest_refused

    def _keeps_target(self, epsilon: float | None) -> bool:
        return epsilon is not None and epsilon <= SLACK * self._scenario.privacy.epsilon

    def _delivered(self, ladder: Ladder, name: str, epsilons: Epsilons | None) -> Delivered:
        size, sizes = self._hardware_size(ladder.sizes, name), ladder.sizes
        if size is None:
            return Delivered(air=name, size=None, along={})
        air, tolerated, fall = self._hardware_air(sizes, name), self._settled(ladder, name), None
        if tolerated is None:
            tried = self._trials.tried(air, size, self.ideal)
            fall = tried.fall if math.isfinite(tried.fall) else None
            tolerated = tried.is_tolerated(self._drop)
        epsilon = None if epsilons is None else epsilons.realised(air)
        return Delivered(
            air=name,
            size=size,
            tolerated=tolerated,
            fall=fall,
            epsilon=epsilon,
            target_kept=None if epsilons is None else self._keeps_target(epsilon),
            along=self._hardware_along(sizes, name),
        )
