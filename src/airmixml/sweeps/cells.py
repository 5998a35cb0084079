"""Cells of a grid: each is what ``airmix run``, ``attack`` or ``audit`` gives for one scenario, in memory.

Cells of ``run`` that share their draws are sent at once; what each of them learns is what it would learn alone.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from airmixml.data import DataSet, known_dataset
from airmixml.errors import AirMixError, DataError, PluginError, RunFolderError
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario, Speed, Workers
from airmixml.storage.run_folder import identity_of
from airmixml.streams import Streams
from airmixml.sweeps.batches import (
    Batch,
    Failed,
    Kind,
    Measured,
    SweepOutcome,
    beginnings_name,
    most_at_once,
)
from airmixml.sweeps.metrics import attack_metrics, audit_metrics, run_metrics
from airmixml.wording import one_line

_PARTS: Final = 1000
_BATCHES_PER_JOB: Final = 2
_MOST_IN_CLOSED_FORM: Final = 16  # each holds only its moments


def cut_into_cells(
    scenarios: Sequence[Scenario], kind: Kind, *, device: str = "cpu", asked: str = "", jobs: int = 1
) -> list[Batch]:
    """Cut the cells of a grid into batches: cells of ``run`` that share their draws together, all others alone.

    No batch is so large that one of the jobs would be left without work, or its mixtures without memory; ``jobs`` = 0
    puts every cell alone. How they are cut changes no outcome, and each is kept by itself.
    """
    from airmixml.radio.draws import draws_key

    digests: dict[tuple[str, str], str] = {}  # of the user's files: data, and what an encoder is made of
    groups: dict[object, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        files = scenario.workers.dataset, scenario.workers.encoder
        if files not in digests:
            identity = identity_of(scenario)
            digests[files] = identity["data"] + identity.get("encoder", "")
        # A mean that is estimated over the air depends on the target.
        shared = kind == "run" and not scenario.workers.centre_on_air and jobs
        key = (draws_key(scenario), scenario.learner.closed_form) if shared else scenario
        groups.setdefault(key, []).append(scenario)
    fair = len(scenarios) if jobs == 1 else max(1, len(scenarios) // (_BATCHES_PER_JOB * max(1, jobs)))
    batches = []
    for alike in groups.values():
        first = alike[0]
        size = min(fair, 1 if len(alike) == 1 else _most_at_once(first, device))
        parts = (tuple(alike[start : start + size]) for start in range(0, len(alike), size))
        data = digests[first.workers.dataset, first.workers.encoder]
        batches += [Batch(kind=kind, scenarios=part, device=device, asked=asked, data=data) for part in parts]
    return batches


def _most_at_once(scenario: Scenario, device: str) -> int:
    """Return how many have room at once; 1 for networks on data of unknown size."""
    if scenario.learner.closed_form:
        return _MOST_IN_CLOSED_FORM
    known = known_dataset(scenario.workers.dataset) is not None
    return most_at_once(scenario, device) if known else 1


CellFinished = Callable[[int, SweepOutcome], None]
"""Told the number of a cell in its batch, and its outcome."""


@dataclass(frozen=True, kw_only=True)
class CellPlace:
    """Where the cells of a batch find MNIST, and keep their beginnings; the arguments of ``run_cells``."""

    data_dir: Path | None
    checkpoints: Path | None
    checkpoint_seconds: float

    def beginnings(self, cell: Batch) -> Path | None:
        """Return the folder for the beginnings of a cell, whichever batch it is in."""
        return None if self.checkpoints is None else self.checkpoints.with_name(beginnings_name(cell))


def run_cells(
    batch: Batch,
    *,
    data_dir: Path | None = None,
    checkpoints: Path | None = None,
    checkpoint_seconds: float = 5.0,
    progress: Progress = silent,
    finished: CellFinished = lambda _number, _outcome: None,
) -> list[SweepOutcome]:
    """Return the outcome of each cell of the batch, in order; ``finished`` is told of each as soon as it is there.

    A cell that is refused gets the refusal as its outcome. ``progress`` is told how far all of them together are.
    """
    place = CellPlace(data_dir=data_dir, checkpoints=checkpoints, checkpoint_seconds=checkpoint_seconds)
    outcomes: dict[int, SweepOutcome] = {}

    def tell(stage: str, done: int, total: int) -> None:
        if stage in ("training", "attacks") and total:
            progress("cells", int(_PARTS * (len(outcomes) + done / total)), _PARTS * len(batch.parts))

    def keep(number: int, outcome: SweepOutcome) -> None:
        outcomes[number] = outcome
        finished(number, outcome)
        progress("cells", len(outcomes), len(batch.parts))

    # One thread: cells run side by side, and their number must not change what one of them gives.
    speed = Speed(device=batch.device, threads=1 if batch.device == "cpu" else 0)
    context = RunContext(speed=speed, data_dir=place.data_dir, progress=tell)
    waiting = [list(range(len(batch.parts)))]
    while waiting:
        members = waiting.pop(0)
        try:
            _COMMANDS[batch.kind](batch, members, context, place, keep)
        except (DataError, PluginError, RunFolderError):
            raise  # it is not of the cell's making, and may be mended: the same command tries again
        except AirMixError as problem:
            left = [number for number in members if number not in outcomes]
            if len(members) == 1:
                keep(members[0], Failed(error=one_line(str(problem))))
            else:  # one of them was refused: each alone
                waiting += [[number] for number in left]
    return [outcomes[number] for number in range(len(batch.parts))]


def _run(batch: Batch, members: list[int], context: RunContext, place: CellPlace, keep: CellFinished) -> None:
    """Run cells that share their draws; metrics are those of ``airmix run``."""
    import torch

    from airmixml.edge.training import learn_family
    from airmixml.runs.experiment import result_of
    from airmixml.runs.model_files import FileCheckpoint

    scenarios = [batch.scenarios[number] for number in members]
    made_with = f"{batch.device} torch {torch.__version__}"
    folders = [place.beginnings(batch.parts[number]) for number in members]
    checkpoints = [
        None if folder is None else FileCheckpoint(folder, made_with=made_with, every_seconds=place.checkpoint_seconds)
        for folder in folders
    ]
    began = time.perf_counter()
    dataset = _dataset(scenarios[0].workers, scenarios[0].seed, batch.data, place.data_dir, batch.device)
    loading_seconds = (time.perf_counter() - began) / len(members)
    learning = learn_family(scenarios, dataset=dataset, context=context, checkpoints=checkpoints)
    for number, learned in zip(members, learning, strict=True):
        seconds = loading_seconds + learned.over_the_air_seconds + learned.training_seconds
        result = result_of(learned, seconds=seconds, device=batch.device)
        keep(number, Measured(metrics=run_metrics(result)))


@lru_cache(maxsize=1)
def _dataset(workers: Workers, seed: int, _digest: str, data_dir: Path | None, device: str) -> DataSet:
    """Return the encoded data; the last are kept, since the cells of one seed follow each other."""
    from airmixml.workers import load_dataset

    return load_dataset(workers, Streams(seed), data_dir=data_dir, device=device)


def _attack(batch: Batch, members: list[int], context: RunContext, place: CellPlace, keep: CellFinished) -> None:
    """Attack one cell; metrics are those of ``airmix attack``."""
    from airmixml.attacks.attack_cases import Case, PartStore, attack_each, check_attackable, load_attacks

    (number,) = members
    (scenario,) = batch.parts[number].scenarios
    attacks = load_attacks(json.loads(batch.asked)["attacks"])
    case = Case(label=scenario.name, scenario=scenario)
    check_attackable([case], attacks)
    began = time.perf_counter()
    with ExitStack() as stack:
        folder = place.beginnings(batch.parts[number]) or Path(stack.enter_context(TemporaryDirectory()))
        (found,) = attack_each([case], attacks, store=PartStore(folder), context=context)
    metrics = attack_metrics(found)
    keep(number, Measured(metrics={**metrics, "seconds": time.perf_counter() - began}))


def _audit(batch: Batch, members: list[int], context: RunContext, place: CellPlace, keep: CellFinished) -> None:
    """Audit one cell; metrics are those of ``airmix audit``."""
    from airmixml.audit import AuditSettings, fault_named
    from airmixml.audit.auditor import audit_scenario
    from airmixml.audit.trials import Keeper

    (number,) = members
    (scenario,) = batch.parts[number].scenarios
    asked: dict[str, Any] = json.loads(batch.asked)
    fault = fault_named(asked.pop("fault"))
    settings = AuditSettings(adversaries=tuple(asked.pop("adversaries")), fault=fault, **asked)
    settings.check(scenario)
    keeper = Keeper(place.beginnings(batch.parts[number]))
    result = audit_scenario(scenario, settings, context=context, keeper=keeper, run_dir=Path())
    keep(number, Measured(metrics=audit_metrics(result)))


_COMMANDS: Final[dict[str, Callable[[Batch, list[int], RunContext, CellPlace, CellFinished], None]]] = {
    "run": _run,
    "attack": _attack,
    "audit": _audit,
}
