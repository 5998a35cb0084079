"""A whole run: simulate, train, write the run folder; one seed or several, resumable.

It is a simulation for studies, or real data in protection, with nothing written that was not hidden.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from airmixml.arrays import find_device
from airmixml.data import DataSet, known_dataset, warn_of_clipping
from airmixml.edge import Learned, learn
from airmixml.files import ResultStore, corrupt_file, from_plain, write_arrays, write_text, writing_to
from airmixml.messages import (
    AirMixError,
    LeftoverWarning,
    RunFolderError,
    ScenarioError,
    hides_values,
    is_out_of_memory,
)
from airmixml.output.tables import rows_csv
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.radio.draws import AirSetting
from airmixml.radio.privacy_target import check_target_met, is_one_gaussian
from airmixml.radio.tally import placed_distances
from airmixml.registry import naming_objects
from airmixml.runs.baselines import baselines_of
from airmixml.runs.model_files import CHECKPOINT, FileCheckpoint, save_model
from airmixml.runs.read_back import check_after, check_before
from airmixml.runs.results import AnyResult, ProtectedResult, SeedsResult, load_result, metrics_of, result_of
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.scenario import PROTECTION, consecutive_seeds, identity_of
from airmixml.scenario.toml import folder_stem
from airmixml.storage.folders import (
    METRICS,
    RUNS_FOLDER,
    SCENARIO,
    Finish,
    RunFolder,
    Study,
    claim,
    claim_folder,
    write_result,
)
from airmixml.streams import Secret, Streams
from airmixml.workers import encoded_dim, load_dataset, settle
from airmixml.workers.loading import check_protectable

if TYPE_CHECKING:
    from airmixml.runs.spending import Spending

KEPT_ROUNDS: Final = "shards"  # the folder that finished rounds are kept in until the run is whole


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
    how: dict[str, Any] = {"context": context, "pictures": pictures, "checkpoint_seconds": checkpoint_seconds}
    how["spending"] = spending
    of_protection: dict[str, Any] = {"public_test": public_test} if private else {}

    def identity(of_seed: Scenario) -> dict[str, Any]:
        """Return what must be equal for a run to be resumed; of the data of a protected one, nothing."""
        return {**identity_of(of_seed, protected=private), **of_protection}

    with (
        writing_to(out or RUNS_FOLDER),
        claim(out, name, {**identity(scenario), "seeds": seeds}, force=force, again=again, ledger=ledger) as folder,
        saying_what_was_sent(folder, out or RUNS_FOLDER),
    ):
        warn_of_killed(folder)
        kind = ProtectedRunner if private else Runner
        runner = kind(scenario=scenario, seeds=seeds, identity=identity, whole=folder, **how, **of_protection)
        found, _ = Study(cells=numbers, task=runner, reserve=runner.reserve).run()
        result: AnyResult = runner.summarise(list(found.values()))
        _publish(scenario, result, folder, seeds=seeds, force=force, finish=finish)
    return result


def _publish(
    scenario: Scenario,
    result: AnyResult,
    folder: RunFolder,
    *,
    seeds: int = 1,
    force: bool = False,
    finish: Finish | None = None,
) -> None:
    """Write what makes a run folder whole, read it back, and give it its name."""
    write_result(folder.work, scenario, result.to_dict())
    shutil.rmtree(folder.work / KEPT_ROUNDS, ignore_errors=True)
    check_after(folder.work, scenario, result, with_model=seeds == 1)
    folder.publish(replace=force, leave_out=(CHECKPOINT,), finish=finish)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Simulates each seed in a folder of its own within the whole, or the only one in the whole itself."""

    scenario: Scenario
    seeds: int
    identity: Callable[[Scenario], dict[str, Any]]
    whole: RunFolder
    context: RunContext
    pictures: bool
    checkpoint_seconds: float
    spending: Spending | None
    ready: dict[int, tuple[float, DataSet]] = field(default_factory=dict)  # by seed: when it was begun to be loaded

    @property
    def test_rows(self) -> bool:
        """Whether rows that are not in the pool are tested on."""
        return True

    def reserve(self, finished: Container[int]) -> None:
        """Reserve what seeds spend that are not finished, once it is sure that what they leave can be read."""
        left = [seed for seed in range(self.scenario.seed, self.scenario.seed + self.seeds) if seed not in finished]
        if left:  # others have the same shape
            self._prepare(self.scenario.with_seed(left[0]))
        if self.spending is not None:
            self.spending.reserve(finished)

    def load(self, seed: int) -> Any:
        folder = self.whole.work / f"seed-{seed}"
        if self.seeds == 1 or not folder.exists():
            return None
        result = load_result(folder)
        if isinstance(result, SeedsResult) or (result.name, result.seed) != (self.scenario.name, seed):
            why = ValueError(f"not the result of seed {seed}")
            raise corrupt_file(folder / METRICS, why, delete=f"the folder {folder}")
        return result

    def save(self, _seed: int, _result: Any) -> None:
        """Keep nothing more: a run writes its own folder."""

    def run(self, unfinished: Iterable[int], finished: Callable[[int, Any], None]) -> None:
        progress = self.context.progress
        for seed in unfinished:
            scenario = self.scenario.with_seed(seed)
            if self.seeds == 1:
                finished(seed, self.run_one(scenario, self.whole))
                return
            progress("seeds", seed - self.scenario.seed, self.seeds)
            with claim_folder(self.whole.work / f"seed-{seed}", self.identity(scenario)) as folder:
                result = self.run_one(scenario, folder)
                _publish(scenario, result, folder)
            finished(seed, result)
        progress("seeds", self.seeds, self.seeds)

    def run_one(self, scenario: Scenario, folder: RunFolder) -> Any:
        """Run one seed inside its folder, which may be that of all seeds, and return its result."""
        device = self.context.speed.device
        self._prepare(scenario)
        started, dataset = self.ready.pop(scenario.seed)
        held_dim = dataset.held_dim or dataset.input_dim
        warn_of_clipping(dataset.clipped_values, held_dim * (dataset.train_samples + len(dataset.test_labels)))
        made_with = f"{device} torch {torch.__version__}"
        checkpoint = FileCheckpoint(folder.work, made_with=made_with, every_seconds=self.checkpoint_seconds)
        kept = ResultStore(folder.work / KEPT_ROUNDS, made_with)
        learned = learn(scenario, dataset=dataset, context=self.context, checkpoint=checkpoint, kept=kept)
        seconds = time.perf_counter() - started
        self._keep(learned, folder)
        report = learned.transmission.report
        ledger, epsilons = report.ledger, report.worker_epsilons()
        spent = {"participations": ledger.participations, "received_watts": ledger.received_watts, "epsilon": epsilons}
        write_arrays(folder.work / "ledger.npz", spent)
        if self.pictures:
            from airmixml.runs.pictures import draw_run

            draw_run(learned.transmission, learned.trained.history, folder.work / "figures")
        result = result_of(learned, seconds=seconds, device=device, run_dir=self._run_dir(folder))
        resumed = checkpoint.resumed_epoch
        return replace(result, resumed_from_epoch=resumed, baselines=baselines_of(learned, protected=False))

    def summarise(self, runs: list[Any]) -> Any:
        """Return means over the seeds, or the only one."""
        if len(runs) == 1:
            return runs[0]
        from airmixml.runs.several import seeds_together  # here: most runs are one

        return seeds_together(self.scenario, runs, str(self.whole.final))

    def _prepare(self, scenario: Scenario) -> None:
        """Load what workers hold, unless it is there; what cannot be run, or could not be read, is refused here."""
        if scenario.seed in self.ready:
            return
        started = time.perf_counter()
        if known := known_dataset(scenario.workers.dataset):  # what the air refuses is refused before data are read
            inputs = encoded_dim(scenario.workers, known.input_dim)
            AirSetting.of(scenario, inputs, known.label_dim, placed_distances(scenario))
        dataset = load_dataset(
            scenario.workers,
            Streams(scenario.seed),
            data_dir=self.context.data_dir,
            progress=self.context.progress,
            test_rows=self.test_rows,
            device=self.context.speed.device,
            raw=None if self.spending is None else self.spending.raw,
        )
        check_before(scenario, dataset, self.whole.work)
        self.ready[scenario.seed] = started, dataset

    def _run_dir(self, folder: RunFolder) -> str:
        return str(self.whole.final if folder is self.whole else self.whole.final / folder.final.name)

    def _keep(self, learned: Learned, folder: RunFolder) -> None:
        """Write the model, which can be read from then on, and the curve, where there is one; settle what was spent."""
        sent = learned.transmission
        save_model(learned.trained.model, sent.dataset, folder.work, sent.scenario)
        write_text(folder.work / SCENARIO, sent.scenario.to_toml())
        if self.spending is not None:
            self.spending.settle(sent)
        if curve := learned.trained.history.rows():
            write_text(folder.work / "learning_curve.csv", rows_csv(curve))


@dataclass(frozen=True, kw_only=True)
class ProtectedRunner(Runner):
    """Runs each seed in protection, with a secret of its own."""

    public_test: bool

    @property
    def test_rows(self) -> bool:
        return self.public_test

    def _prepare(self, scenario: Scenario) -> None:
        """Refuse a target that would be missed, too."""
        super()._prepare(scenario)
        _, dataset = self.ready[scenario.seed]
        check_target_met(scenario, dataset.input_dim, dataset.label_dim, placed_distances(scenario))

    def run_one(self, scenario: Scenario, folder: RunFolder) -> ProtectedResult:
        """Run one seed inside its folder and return its result.

        No checkpoint is kept: nothing tells whether another process would go on with the same data. Before anything is
        drawn the attempt is on the disk.
        """
        privacy = {name: getattr(scenario.privacy, name) for name in ("epsilon", "delta", "adversary", "adjacency")}
        claim = partial(self.whole.note_attempt, {"seed": scenario.seed, "privacy": privacy})
        self._prepare(scenario)
        _, dataset = self.ready.pop(scenario.seed)
        pool, tested = dataset.public_counts
        if not self.public_test:
            dataset = replace(dataset, test_inputs=dataset.test_inputs[:0], test_labels=dataset.test_labels[:0])
        learned = learn(scenario, dataset=dataset, context=replace(self.context, secret=Secret(claim)))
        learned.transmission.report.before_the_draw = True
        self._keep(learned, folder)
        metrics = {
            **metrics_of(learned, device=self.context.speed.device, run_dir=self._run_dir(folder)),
            "mode": PROTECTION,
            "public_test": self.public_test,
            "releases": 1,
            "seconds": learned.training_seconds,  # how long rows take to read and to encode depends on them
        }
        metrics["dataset"] |= {"train_samples": pool, "test_samples": tested}
        covered = {each.name for each in fields(ProtectedResult)}  # all that the statements cover, and what is public
        plain = {name: metrics[name] for name in covered & metrics.keys()}
        result: ProtectedResult = from_plain(ProtectedResult, plain)
        with leaving_out("what the accuracy stands beside"):
            result = replace(result, baselines=baselines_of(learned, protected=True))
        self._draw(result, folder)
        return result

    def summarise(self, runs: list[ProtectedResult]) -> ProtectedResult:
        """Return what all releases together reveal, those that were killed included."""
        killed = len(self.whole.attempts) - len(runs)
        if len(runs) + killed == 1:
            return runs[0]
        from airmixml.runs.several import releases_together

        gaussian = is_one_gaussian(self.scenario)
        result = releases_together(runs, str(self.whole.final), gaussian=gaussian, killed=killed)
        self._draw(result, self.whole)
        return result

    def _draw(self, result: ProtectedResult, folder: RunFolder) -> None:
        if self.pictures:
            with leaving_out("its picture"):
                from airmixml.runs.pictures import draw_statements

                draw_statements(result.privacy, folder.work / "figures" / "privacy.png")


@contextmanager
def leaving_out(what: str) -> Iterator[None]:
    """Say what is missing where it fails: a release that is paid for does without what is not needed to read it."""
    try:
        yield
    except Exception as problem:  # whose words may be of private rows
        warnings.warn(f"{what} is left out ({type(problem).__name__})", LeftoverWarning, stacklevel=2)


@contextmanager
def saying_what_was_sent(whole: RunFolder, place: Path | str) -> Iterator[None]:
    """Let an error that comes once a protected release has begun say so: to repeat the command spends again."""
    before = len(whole.attempts)
    try:
        with writing_to(place):
            yield
    except (AirMixError, MemoryError, RuntimeError) as problem:
        told = RunFolderError("not enough memory") if is_out_of_memory(problem) else problem
        if not isinstance(told, AirMixError) or len(whole.attempts) <= before:
            raise
        spent = "this release has begun and counts as spent: the same command sends once more and spends epsilon again"
        model = f"; until then its model can be read from {whole.work}" if (whole.work / SCENARIO).exists() else ""
        raise told.saying(f"{spent}{model}") from problem


def warn_of_killed(whole: RunFolder) -> None:
    """Say so where protected releases were begun in a folder and killed."""
    if killed := len(whole.attempts):
        begun = "an earlier release was begun" if killed == 1 else f"{killed:,} earlier releases were begun"
        warnings.warn(
            f"{whole.work}: {begun} here and did not finish; what may have been sent counts, so the statements of "
            "this run are about all of them together",
            LeftoverWarning,
            stacklevel=2,
        )
