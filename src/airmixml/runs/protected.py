"""A protected run: real data, hidden by noise that nobody can repeat, and nothing written that was not hidden."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airmixml.data import DataSet
from airmixml.edge import Learned, learn
from airmixml.output.tables import rows_csv
from airmixml.radio.power_calibration import composes_exactly
from airmixml.runs.model_files import save_model
from airmixml.runs.results import ProtectedResult, versions
from airmixml.scenario import RunContext, Scenario, keys_in_force
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import PROTECTION, RunFolder, identity_of
from airmixml.streams import Secret, Streams
from airmixml.workers import load_dataset, worker_cost

if TYPE_CHECKING:
    from airmixml.runs.spending import Spending


@dataclass(frozen=True, kw_only=True)
class ProtectedRunner:
    """Runs single seeds in protection, each with a secret of its own; the arguments are those of ``run``."""

    context: RunContext
    pictures: bool
    public_test: bool
    spending: "Spending | None" = None

    def identity_of(self, scenario: Scenario) -> dict[str, Any]:
        """Return what names the run in its folder; of the data, nothing."""
        return {**identity_of(scenario, protected=True), "public_test": self.public_test}

    def run_one(self, scenario: Scenario, folder: RunFolder, run_dir: str) -> ProtectedResult:
        """Run one seed inside the folder and return its result.

        No checkpoint is kept: what another process went on from would be a second release of the same data.
        """
        context = replace(self.context, secret=Secret())
        public = Streams(scenario.seed)
        where, progress = context.data_dir, context.progress
        dataset = load_dataset(
            scenario.workers,
            public,
            data_dir=where,
            progress=progress,
            test_rows=self.public_test,
            device=context.speed.device,
            raw=None if self.spending is None else self.spending.data[scenario.workers],
        )
        pool, tested = dataset.public_counts
        if not self.public_test:
            dataset = replace(dataset, test_inputs=dataset.test_inputs[:0], test_labels=dataset.test_labels[:0])
        learned = learn(scenario, dataset=dataset, context=context)
        sent, history, report = learned.transmission, learned.trained.history, learned.transmission.report
        report.before_the_draw = True
        if self.spending is not None:
            self.spending.settle(sent)
        if curve := history.rows():
            write_text(folder.work / "learning_curve.csv", rows_csv(curve))
        save_model(learned.trained.model, sent.dataset, folder.work, scenario)
        statements = report.statements
        if self.pictures:
            from airmixml.runs.score_pictures import draw_statements

            draw_statements(statements, folder.work / "figures" / "privacy.png")
        metrics = {
            **stated_in_both_modes(learned, device=context.speed.device, run_dir=run_dir),
            "mode": PROTECTION,
            "releases": 1,
            **{name: getattr(report, name) for name in ("slots", "symbols_per_slot", "air_seconds")},
            **({"rounds": report.system.about_rounds} if report.rounds else {}),
            "integers": report.system.integers and report.system.integers.to_dict(),
            "link": report.system.link.to_dict(report.system),
            "privacy": [statement.to_dict() for statement in statements],
            "dataset": {**about_data(sent.dataset), "train_samples": pool, "test_samples": tested},
            "seconds": learned.training_seconds,  # how long rows take to read and to encode depends on them
        }
        return ProtectedResult.from_dict(metrics)

    def summarise(self, scenario: Scenario, runs: list[ProtectedResult], run_dir: str) -> ProtectedResult:
        """Return what all releases together reveal."""
        from airmixml.runs.summaries import summarise_releases

        gaussian = not scenario.workers.centre_on_air or composes_exactly(scenario)
        return summarise_releases(runs, run_dir, gaussian=gaussian)


def stated_in_both_modes(learned: Learned, *, device: str, run_dir: str) -> dict[str, Any]:
    """Return what a result tells of a simulation and of a protected run alike.

    Of scores, those on the clean test set, if there is one; of a row of the data, on how many workers it lies at most
    and what each adversary learns of it.
    """
    sent, history = learned.transmission, learned.trained.history
    scenario, dataset, report = sent.scenario, sent.dataset, sent.report
    accuracy = None
    if history.test_accuracy:
        best = {"best": history.best_accuracy, "best_epoch": history.best_epoch}
        accuracy = {"final": history.final_accuracy, **best}
    held_dim = dataset.held_dim or dataset.input_dim
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "air": keys_in_force(scenario.air),
        "task": dataset.task,
        "accuracy": accuracy,
        "scores": history.scores,
        "worker_cost": worker_cost(scenario.workers, held_dim, report.signal).to_dict(),
        "row_copies": report.row_copies,
        "row_privacy": report.privacy_of_a_row(report.row_copies).to_dict(),
        "row_statements": [statement.to_dict() for statement in report.privacy_of_rows()],
        "device": device,
        "versions": versions(),
        "run_dir": run_dir,
    }


def about_data(dataset: DataSet) -> dict[str, Any]:
    """Return name and dimensions of the data."""
    return {name: getattr(dataset, name) for name in ("name", "input_dim", "label_dim")}
