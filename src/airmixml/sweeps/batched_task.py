"""Batches on any engine: each part is kept as soon as it is finished, and one that fails costs no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from airmixml.engines import Engine
from airmixml.engines.work import Lost, Tell, Work
from airmixml.errors import AirMixError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.storage.files import ResultStore, from_plain, locked, remove_temporaries, to_plain
from airmixml.storage.study import Budget, Study
from airmixml.sweeps.batches import Batch, Failed, Part, Place, on_gpu, silent_share, useful_jobs
from airmixml.wording import one_line

_SHARES: Final = 1000
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What each scenario of a part gave; ``broke``: nothing, for a reason that may not be there another time."""

    part: Part
    outcomes: list[Any]
    broke: bool = False

    @classmethod
    def broken(cls, part: Part, why: str) -> Finished:
        """Return what becomes of a part of which nothing came."""
        return cls(part=part, outcomes=[Failed(error=one_line(why)) for _ in part.scenarios], broke=True)


def _attempt(place: Place, batch: Batch, tell: Tell) -> list[Finished]:
    """Run one batch; whatever goes wrong becomes the outcome of its scenarios, and others are run by themselves."""
    done: dict[Part, Finished] = {}
    try:
        for part, outcomes in batch[0].kind.run(batch, replace(place, tell=tell)):
            done[part] = Finished(part=part, outcomes=outcomes)
            tell(done[part])
    except Exception as problem:  # whatever it is, the other batches must not be lost
        name = "" if isinstance(problem, AirMixError) else f"{type(problem).__name__}: "
        for part in batch:
            if part not in done:
                if len(batch) > 1:
                    (done[part],) = _attempt(place, (part,), silent_share)
                else:
                    done[part] = Finished.broken(part, f"{name}{problem}")
                tell(done[part])
    return list(done.values())


def _attempts(place: Place) -> Work:
    """Return what runs a batch wherever this is called, and tells how far it is."""
    return partial(_attempt, place)


class BatchedTask:
    """Runs the parts of batches on an engine, and keeps each in a file named by its digest."""

    def __init__(
        self, batches: Sequence[Batch], place: Place, folder: Path, *, engine: str, jobs: int, progress: Progress
    ) -> None:
        self._batches = list(dict.fromkeys(batches))
        self._place, self._folder, self._store = place, folder, ResultStore(folder)
        self._engine, self._jobs, self._progress = engine, jobs, progress
        self._parts = dict.fromkeys(part for batch in self._batches for part in batch)

    def load(self, part: Part) -> Finished | None:
        """Return the outcomes of a finished part, or None."""
        found = self._store.load(f"{part.digest}.json", lambda values, _: _read_outcomes(part, values))
        if found is not None:
            self._forget_beginnings(part)
        return None if found is None else Finished(part=part, outcomes=found)

    def save(self, part: Part, finished: Finished) -> bool:
        """Keep the outcomes of a finished part; of one that broke nothing."""
        if not finished.broke:
            about = {"kind": part.kind.name, "seed": part.seed, "device": part.device}
            self._store.save(f"{part.digest}.json", {**about, "outcomes": list(map(to_plain, finished.outcomes))})
            self._forget_beginnings(part)
        return not finished.broke

    def _forget_beginnings(self, part: Part) -> None:
        shutil.rmtree(self._folder / f"{part.digest}.partial", ignore_errors=True)

    def run(self, unfinished: Iterable[Part], finished: Callable[[Part, Finished], None]) -> None:
        """Run what is left of each batch; parts that a dying process left undone are run again, each by itself."""
        left = dict.fromkeys(unfinished)
        if self._engine != "ray":  # what the nodes of a cluster have is theirs to say
            for kind in dict.fromkeys(part.kind for part in left):
                kind.prepare([part for part in left if part.kind == kind], self._place.data_dir, self._progress)
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder):
            remove_temporaries(self._folder)
            batches = [some for batch in self._batches if (some := tuple(part for part in batch if part in left))]
            work = _WorkDone(self._parts, left, self._progress)

            def told(batch: Batch, message: float | Finished) -> None:
                if not isinstance(message, Finished):  # the share of a batch that is done: its finished parts first
                    unfinished = [part for part in batch if part in left]
                    finished_ones = len(batch) - len(unfinished)
                    share = (message * len(batch) - finished_ones) / max(1, len(unfinished))
                    work.report(dict.fromkeys(unfinished, share))
                elif message.part in left:  # else it was told before
                    finished(message.part, message)
                    del left[message.part]  # not before: what cannot be written is told again at the end of its batch
                    work.report({message.part: 1.0})

            def left_behind(batch: Batch) -> list[Batch]:
                return [(part,) for part in batch if part in left] if len(batch) > 1 else []

            on_ray = self._engine == "ray"
            jobs = self._jobs if on_ray else max(1, min(self._jobs or useful_jobs(self._batches), len(batches)))
            place = self._place if on_ray else replace(self._place, folder=self._folder)
            for batch, result in Engine(name="ray" if on_ray else "local", jobs=jobs).each(
                _attempts, place, batches, told=told, left_behind=left_behind, on_gpu=on_gpu
            ):
                lost = isinstance(result, Lost)
                for message in [Finished.broken(part, result.why) for part in batch] if lost else result:
                    told(batch, message)


class _WorkDone:
    """Adds up how far all parts together are."""

    def __init__(self, parts: Mapping[Part, None], left: Mapping[Part, None], tell: Progress) -> None:
        self._all, self._tell = max(1, sum(part.work for part in parts)), tell
        self._shares = {part: 0.0 if part in left else 1.0 for part in parts}
        self._done = sum(part.work * share for part, share in self._shares.items())
        self.report({})

    def report(self, shares: Mapping[Part, float]) -> None:
        """Take into account which share of these parts is done."""
        for part, share in shares.items():
            self._done += part.work * (share - self._shares[part])
            self._shares[part] = share
        self._tell("sweep", int(_SHARES * self._done / self._all + _ROUNDING), _SHARES)


def _read_outcomes(part: Part, values: Any) -> list[Any]:
    outcomes = values["outcomes"]
    if not isinstance(outcomes, list) or len(outcomes) != len(part.scenarios):
        raise ValueError(f"outcomes must be {len(part.scenarios)}, one of each scenario")
    return [
        from_plain(Failed, each) if isinstance(each, dict) and "error" in each else part.kind.read(part, each)
        for each in outcomes
    ]


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many parts were found finished."""

    outcomes: dict[tuple[str, Scenario], Any]
    kept_batches: int

    def outcome(self, kind: str, scenario: Scenario) -> Any:
        """Return what the scenario gave, an error included."""
        return self.outcomes[kind, scenario]


def run_sweep(
    batches: Sequence[Batch],
    folder: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    data_dir: Path | None = None,
    checkpoint_seconds: float = 5.0,
    progress: Progress = silent,
    budget: Budget | None = None,
) -> SweepResult:
    """Run all batches that the folder does not hold yet and return the outcomes of all.

    Every part is kept in the folder as soon as it is finished, so an interrupted sweep is resumed where it was. The
    number of jobs (batches at a time; 1: in this process; 0: as many as cores, memory or the cluster allow) and the
    engine ("ray", or this machine) do not change a result. ``budget`` is what the parts spend, if a ledger counts it.
    """
    place = Place(data_dir=data_dir, checkpoint_seconds=checkpoint_seconds)
    task = BatchedTask(batches, place, folder, engine=engine, jobs=jobs, progress=progress)
    parts = [part for batch in batches for part in batch]
    return Study(cells=parts, task=task, reducer=_by_scenario, budget=budget).run()


def _by_scenario(found: Mapping[Part, Finished], kept: int) -> SweepResult:
    outcomes = {
        (part.kind.name, scenario): outcome
        for part, finished in found.items()
        for scenario, outcome in zip(part.scenarios, finished.outcomes, strict=True)
    }
    return SweepResult(outcomes=outcomes, kept_batches=kept)
