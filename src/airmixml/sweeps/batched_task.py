"""Batches on any engine: each part is kept as soon as it is finished, and one that fails costs no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from airmixml.engines import Engine
from airmixml.engines.processes import Lost, Tell, Work
from airmixml.errors import AirMixError
from airmixml.files import ResultStore, locked, remove_temporaries
from airmixml.progress import Progress, silent
from airmixml.registry import naming_objects
from airmixml.scenario import Scenario
from airmixml.storage.study import Study
from airmixml.sweeps.batches import Batch, Outcome, Part, Place, may_be_mended, on_gpu, silent_share, useful_jobs
from airmixml.wording import one_line

_SHARES: Final = 1000
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What each scenario of a part gave; ``broke``: nothing, for a reason that may not be there another time."""

    part: Part
    outcomes: list[Outcome]
    broke: bool = False

    @classmethod
    def failed(cls, part: Part, why: str, *, broke: bool = True) -> Finished:
        """Return what becomes of a part of which nothing came."""
        return cls(part=part, outcomes=[{"error": one_line(why)} for _ in part.scenarios], broke=broke)


def _attempt(place: Place, batch: Batch, tell: Tell) -> list[Finished]:
    """Run one batch; whatever goes wrong becomes the outcome of its scenarios, and others are run by themselves."""
    done: dict[Part, Finished] = {}
    try:
        with naming_objects():
            for part, outcomes in batch[0].kind.run(batch, replace(place, tell=tell)):
                done[part] = Finished(part=part, outcomes=outcomes)
                tell(done[part])
    except Exception as problem:  # whatever it is, the other batches must not be lost
        name = "" if isinstance(problem, AirMixError) else f"{type(problem).__name__}: "
        for part in (each for each in batch if each not in done):
            if len(batch) > 1:
                (done[part],) = _attempt(place, (part,), silent_share)
            else:
                broke = part.kind.stacked or may_be_mended(problem)
                done[part] = Finished.failed(part, f"{name}{problem}", broke=broke)
            tell(done[part])
    return list(done.values())


def _attempts(place: Place) -> Work:
    """Return what runs a batch wherever this is called, and tells how far it is."""
    return partial(_attempt, place)


@dataclass(frozen=True, kw_only=True)
class BatchedTask:
    """Runs the parts of batches on an engine, and keeps each in a file of the place, named by its digest."""

    batches: Sequence[Batch]
    place: Place
    folder: Path
    engine: str = "local"
    jobs: int = 1
    progress: Progress = silent

    def load(self, part: Part) -> Finished | None:
        """Return the outcomes of a finished part, or None."""
        outcomes = ResultStore(self.folder).load(f"{part.digest}.json", lambda values, _: list(values["outcomes"]))
        if outcomes is None:
            return None
        self._forget_beginnings(part)
        return Finished(part=part, outcomes=outcomes)

    def save(self, part: Part, finished: Finished) -> bool:
        """Keep the outcomes of a finished part; of one that broke nothing."""
        if not finished.broke:
            about = {"kind": part.kind.name, "seed": part.seed, "device": part.device}
            ResultStore(self.folder).save(f"{part.digest}.json", {**about, "outcomes": finished.outcomes})
            self._forget_beginnings(part)
        return not finished.broke

    def _forget_beginnings(self, part: Part) -> None:
        shutil.rmtree(self.folder / f"{part.digest}.partial", ignore_errors=True)

    def run(self, unfinished: Iterable[Part], finished: Callable[[Part, Finished], None]) -> None:
        """Run what is left of each batch; parts that a dying process left undone are run again, each by itself."""
        left, on_ray = dict.fromkeys(unfinished), self.engine == "ray"
        if not on_ray:  # what the nodes of a cluster have is theirs to say
            for kind in dict.fromkeys(part.kind for part in left):
                kind.prepare([part for part in left if part.kind == kind], self.place.data_dir, self.progress)
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            remove_temporaries(self.folder)
            batches = [some for batch in self.batches if (some := tuple(part for part in batch if part in left))]
            shares = dict.fromkeys(batches, 0.0)  # that are done of each, where it says so
            total = len({part for batch in self.batches for part in batch})
            already = total - len(left)

            def report() -> None:
                done = sum(
                    max(share * len(batch), sum(part not in left for part in batch)) for batch, share in shares.items()
                )
                share = (already + done) / total if total else 0.0
                self.progress("sweep", int(_SHARES * share + _ROUNDING), _SHARES)

            def told(batch: Batch, message: float | Finished) -> None:
                if not isinstance(message, Finished):
                    if batch in shares:
                        shares[batch] = message
                elif message.part not in left:  # it was told before
                    return
                else:
                    finished(message.part, message)
                    del left[message.part]  # not before: what cannot be written is told again at the end of its batch
                report()

            def left_behind(batch: Batch) -> list[Batch]:
                return [(part,) for part in batch if part in left] if len(batch) > 1 else []

            report()
            jobs = self.jobs if on_ray else max(1, min(self.jobs or useful_jobs(self.batches), len(batches)))
            place = self.place if on_ray else replace(self.place, folder=self.folder)
            for batch, result in Engine(name="ray" if on_ray else "local", jobs=jobs).each(
                _attempts, place, batches, told=told, left_behind=left_behind, on_gpu=on_gpu
            ):
                lost = isinstance(result, Lost)
                for message in [Finished.failed(part, result.why) for part in batch] if lost else result:
                    told(batch, message)


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many parts were found finished."""

    outcomes: dict[tuple[str, Scenario], Outcome]
    kept_batches: int

    def outcome(self, kind: str, scenario: Scenario) -> Outcome:
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
) -> SweepResult:
    """Run all batches that the folder does not hold yet and return the outcomes of all.

    Every part is kept in the folder as soon as it is finished, so an interrupted sweep is resumed where it was. The
    number of jobs (batches at a time; 1: in this process; 0: as many as cores, memory or the cluster allow) and the
    engine ("ray", or this machine) do not change a result.
    """
    place = Place(data_dir=data_dir, checkpoint_seconds=checkpoint_seconds)
    batches = list(dict.fromkeys(batches))
    task = BatchedTask(batches=batches, place=place, folder=folder, engine=engine, jobs=jobs, progress=progress)
    parts = [part for batch in batches for part in batch]
    return Study(cells=parts, task=task, reducer=_by_scenario).run()


def _by_scenario(found: Mapping[Part, Finished], kept: int) -> SweepResult:
    outcomes = {
        (part.kind.name, scenario): outcome
        for part, finished in found.items()
        for scenario, outcome in zip(part.scenarios, finished.outcomes, strict=True)
    }
    return SweepResult(outcomes=outcomes, kept_batches=kept)
