"""A whole run: simulate, train, write the run folder; one seed or several, resumable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airmixml.devices import find_device
from airmixml.errors import ScenarioError, hides_values
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.registries import naming_objects
from airmixml.runs.model_files import CHECKPOINT
from airmixml.runs.results import ProtectedResult, RunResult, SeedsResult, load_result
from airmixml.runs.runners import SHARDS, ProtectedRunner, Runner, warn_of_killed
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.toml import folder_stem
from airmixml.storage.files import corrupt_file, write_text, writing_to
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, Finish, RunFolder, claim, claim_folder
from airmixml.storage.study import Study, consecutive_seeds
from airmixml.workers import settle
from airmixml.workers.loading import check_protectable

AnyResult = RunResult | SeedsResult | ProtectedResult


@hides_values
@naming_objects()
def run(
    scenario: Scenario,
    *,
    seeds: int = 1,
    out: Path | str | None = None,
    force: bool = False,
    pictures: bool = True,
    checkpoint_seconds: float = 5.0,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
    private: bool = False,
    public_test: bool = False,
    ledger: Path | str | None = None,
    finish: Finish | None = None,
    show_values: bool = False,
    again: bool = True,
) -> AnyResult:
    """Run a scenario, write its folder, and return its result (that of the folder's ``metrics.json``).

    A run is a *simulation* unless it is ``private``: its noise follows from the seed, so that anyone can repeat it
    and remove it. A *protected* run draws everything that hides the data from the operating system's entropy and writes
    only what its privacy statements cover; the seed decides only what is public. Interrupted, it begins again, since
    nothing of its noise is kept; its statements then count what the interrupted one may have sent. The same data
    protected several times over (``seeds``, or another call) are protected less: ``seeds`` states it.

    Args:
        scenario: what to run.
        seeds: how many runs, with the scenario's seed and those after it.
        out: folder to make (default: a free name below ``runs``).
        force: replace ``out`` where it exists.
        pictures: draw them, which takes most of the time of a small run.
        checkpoint_seconds: time between checkpoints of the training, from which an interrupted run is resumed.
        speed: device, block size and threads.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
        private: protect the data, which are real.
        public_test: the test rows are public, so that a protected run may state its accuracy on them.
        ledger: file of budgets that last (``airmix ledger create``): a run that would pass a worker's is refused before
            anything is sent, and what it spends is kept there.
        finish: called with the complete folder (a ``RunFolder``) before it gets its name, to add files to it.
        show_values: let the errors of a protected run quote rows, values and names, for the owner of the data alone.
        again: also make what a finished folder of the same settings holds; else that is a ``FinishedBefore``.
    """
    if private:
        check_protectable(scenario.workers)
    for option, given in (("--public-test", public_test), ("--show-values", show_values)):
        if given and not private:
            raise ScenarioError(f"{option}: says something about a private run; give --private too")
    scenario = settle(scenario, data_dir=data_dir, progress=progress, test_rows=public_test or not private)
    numbers = consecutive_seeds(scenario, seeds)
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    find_device(context.speed.device)
    check_privacy_target(scenario)
    spending = None
    if ledger is not None:
        from airmixml.runs.spending import plan_spending  # here: most runs have no ledger

        data: dict[str, Any] = {"private": private, "public_test": public_test, "data_dir": data_dir}
        spending = plan_spending(scenario, seeds, ledger, progress=progress, **data)
    name = f"{folder_stem(scenario.name, scenario.air)}-seed{scenario.seed}" + (f"-x{seeds}" if seeds > 1 else "")
    common: dict[str, Any] = {"context": context, "pictures": pictures, "spending": spending}
    runner = Runner(**common, checkpoint_seconds=checkpoint_seconds)
    if private:
        runner = ProtectedRunner(**common, public_test=public_test)
    identity = {**runner.identity_of(scenario), "seeds": seeds}
    with (
        writing_to(out or RUNS_FOLDER),
        claim(out, name, identity, force=force, again=again, ledger=ledger) as folder,
    ):
        warn_of_killed(folder)
        result: AnyResult = Study(
            cells=numbers,
            task=_EachSeed(runner, scenario, folder, seeds),
            reducer=lambda found, _kept: runner.summarise(scenario, list(found.values()), folder),
            budget=spending,
        ).run()
        _publish(scenario, result, folder, force=force, finish=finish)
    return result


@dataclass(frozen=True)
class _EachSeed:
    """Runs each seed in a folder of its own within the whole, or the only one in the whole itself."""

    runner: Runner
    scenario: Scenario
    whole: RunFolder
    seeds: int

    def load(self, seed: int) -> Any:
        """Return what an earlier process found with this seed."""
        folder = self.whole.work / f"seed-{seed}"
        if self.seeds == 1 or not folder.exists():
            return None
        result = load_result(folder)
        if isinstance(result, SeedsResult) or (result.name, result.seed) != (self.scenario.name, seed):
            why = ValueError(f"not the result of seed {seed}")
            raise corrupt_file(folder / METRICS, why, delete=f"the folder {folder}")
        return result

    def save(self, _seed: int, _result: Any) -> bool:
        """Keep nothing more: a run writes its own folder."""
        return True

    def run(self, unfinished: Iterable[int], finished: Callable[[int, Any], None]) -> None:
        """Run one seed after the other."""
        progress = self.runner.context.progress
        for seed in unfinished:
            scenario = self.scenario.with_seed(seed)
            if self.seeds == 1:
                finished(seed, self.runner.run_one(scenario, self.whole, self.whole))
                return
            progress("seeds", seed - self.scenario.seed, self.seeds)
            with claim_folder(self.whole.work / f"seed-{seed}", self.runner.identity_of(scenario)) as folder:
                result = self.runner.run_one(scenario, folder, self.whole)
                _publish(scenario, result, folder)
            finished(seed, result)
        progress("seeds", self.seeds, self.seeds)


def _publish(
    scenario: Scenario, result: AnyResult, folder: RunFolder, *, force: bool = False, finish: Finish | None = None
) -> None:
    """Write what makes a run folder whole and give it its name."""
    write_text(folder.work / SCENARIO, scenario.to_toml())
    write_text(folder.work / METRICS, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
    shutil.rmtree(folder.work / SHARDS, ignore_errors=True)
    folder.publish(replace=force, leave_out=(CHECKPOINT,), finish=finish)
