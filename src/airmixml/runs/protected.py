"""A protected run: real data, hidden by noise that nobody can repeat, and nothing written that was not hidden."""

from dataclasses import dataclass, replace
from typing import Any

from airmixml.data import DataSet
from airmixml.edge import TrainingHistory, learn
from airmixml.output.tables import rows_csv
from airmixml.radio.privacy_target import composes_exactly
from airmixml.radio.transmission import Transmission
from airmixml.runs.model_files import save_model
from airmixml.runs.pictures import draw_statements
from airmixml.runs.results import ProtectedResult, versions
from airmixml.runs.spending import Spending
from airmixml.runs.summaries import summarise_releases
from airmixml.scenario import RunContext, Scenario, keys_in_force
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import PROTECTION, RunFolder, identity_of
from airmixml.streams import Secret, Streams
from airmixml.workers import load_dataset, worker_cost


@dataclass(frozen=True, kw_only=True)
class ProtectedRunner:
    """Runs single seeds in protection, each with a secret of its own; the arguments are those of ``run``."""

    context: RunContext
    pictures: bool
    public_test: bool
    spending: Spending | None = None

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
        held_dim = dataset.held_dim or dataset.input_dim
        learned = learn(scenario, dataset=dataset, context=context)
        sent, history, report = learned.transmission, learned.trained.history, learned.transmission.report
        report.before_the_draw = True
        if self.spending is not None:
            self.spending.settle(sent)
        if curve := _curve(history):
            write_text(folder.work / "learning_curve.csv", rows_csv(curve))
        save_model(learned.trained.model, sent.dataset, folder.work, scenario)
        statements = report.statements
        if self.pictures:
            draw_statements(statements, folder.work / "figures" / "privacy.png")
        about = {name: getattr(sent.dataset, name) for name in ("name", "input_dim", "label_dim")}
        metrics = {
            "mode": PROTECTION,
            "name": scenario.name,
            "seed": scenario.seed,
            "air": keys_in_force(scenario.air),
            "releases": 1,
            "slots": report.slots,
            "symbols_per_slot": report.symbols_per_slot,
            "air_seconds": report.air_seconds,
            "privacy": [statement.to_dict() for statement in statements],
            **stated_rows(sent),
            **stated_scores(dataset, history),
            "worker_cost": worker_cost(scenario.workers, held_dim, report.signal).to_dict(),
            "dataset": {**about, "train_samples": pool, "test_samples": tested},
            "seconds": learned.training_seconds,  # how long rows take to read and to encode depends on them
            "device": context.speed.device,
            "versions": versions(),
            "run_dir": run_dir,
        }
        return ProtectedResult.from_dict(metrics)

    def summarise(self, scenario: Scenario, runs: list[ProtectedResult], run_dir: str) -> ProtectedResult:
        """Return what all releases together reveal."""
        gaussian = not scenario.workers.centre_on_air or composes_exactly(scenario)
        return summarise_releases(runs, run_dir, gaussian=gaussian)


def stated_rows(sent: Transmission) -> dict[str, Any]:
    """Return on how many workers a row of the data lies at most, and what each adversary learns of such a row."""
    report = sent.report
    server = report.privacy_of_a_row(report.row_copies)
    return {
        "row_copies": report.row_copies,
        "row_privacy": server.to_dict(),
        "row_statements": [statement.to_dict() for statement in report.privacy_of_rows()],
    }


def stated_scores(dataset: DataSet, history: TrainingHistory) -> dict[str, Any]:
    """Return accuracy and scores on the clean test set, as results have them; nothing where there is no such set."""
    accuracy = None
    if history.test_accuracy:
        best = {"best": history.best_accuracy, "best_epoch": history.best_epoch}
        accuracy = {"final": history.final_accuracy, **best}
    return {"task": dataset.task, "accuracy": accuracy, "scores": history.scores}


def _curve(history: TrainingHistory) -> list[dict[str, Any]]:
    """Return the loss on the mixtures of each epoch, and the accuracy or score where the test rows are public."""
    scored = history.test_accuracy or history.test_score
    columns = {"training_loss": history.loss, f"test_{history.score_name}": scored}
    present = {name: values for name, values in columns.items() if values}
    epochs = max(map(len, present.values()), default=0)
    return [{"epoch": place + 1, **{name: each[place] for name, each in present.items()}} for place in range(epochs)]
