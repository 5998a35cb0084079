"""A protected run: real data, hidden by noise that nobody can repeat, and nothing written that was not hidden."""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from airmixml.edge import learn
from airmixml.errors import LeftoverWarning
from airmixml.output.tables import rows_csv
from airmixml.radio.power_calibration import composes_exactly
from airmixml.runs.baselines import baselines_of
from airmixml.runs.model_files import save_model
from airmixml.runs.results import ProtectedResult, about_data, stated_in_both_modes
from airmixml.scenario import RunContext, Scenario
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import PROTECTION, RunFolder, identity_of
from airmixml.streams import Secret, Streams
from airmixml.workers import load_dataset

if TYPE_CHECKING:
    from airmixml.runs.spending import Spending


@dataclass(frozen=True, kw_only=True)
class ProtectedRunner:
    """Runs single seeds in protection, each with a secret of its own; the arguments are those of ``run``."""

    context: RunContext
    pictures: bool
    public_test: bool
    spending: "Spending | None" = None
    whole: RunFolder | None = None  # of all seeds

    def identity_of(self, scenario: Scenario) -> dict[str, Any]:
        """Return what names the run in its folder; of the data, nothing."""
        return {**identity_of(scenario, protected=True), "public_test": self.public_test}

    def within(self, whole: RunFolder) -> Self:
        """Return the same for the folder of all seeds; say so where releases were begun in it and killed."""
        if killed := len(whole.attempts):
            begun = "an earlier release was begun" if killed == 1 else f"{killed:,} earlier releases were begun"
            warnings.warn(
                f"{whole.work}: {begun} here and did not finish; what may have been sent counts, so the statements of "
                "this run are about all of them together",
                LeftoverWarning,
                stacklevel=2,
            )
        return replace(self, whole=whole)

    def run_one(self, scenario: Scenario, folder: RunFolder, run_dir: str) -> ProtectedResult:
        """Run one seed inside the folder and return its result.

        No checkpoint is kept: nothing tells whether another process would go on with the same data. Before anything is
        drawn the attempt is on the disk.
        """
        privacy = {name: getattr(scenario.privacy, name) for name in ("epsilon", "delta", "adversary", "adjacency")}
        claim = partial((self.whole or folder).note_attempt, {"seed": scenario.seed, "privacy": privacy})
        context = replace(self.context, secret=Secret(claim))
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
        metrics = {
            **stated_in_both_modes(learned, device=context.speed.device, run_dir=run_dir),
            "mode": PROTECTION,
            "public_test": self.public_test,
            "releases": 1,
            **{name: getattr(report, name) for name in ("slots", "symbols_per_slot", "air_seconds")},
            **({"rounds": rounds} if (rounds := report.system.about_rounds) else {}),
            "integers": report.system.integers and report.system.integers.to_dict(),
            "link": report.system.link.to_dict(report.system),
            **report.privacy_in_plain_values,
            "dataset": {**about_data(sent.dataset), "train_samples": pool, "test_samples": tested},
            "seconds": learned.training_seconds,  # how long rows take to read and to encode depends on them
        }
        result = ProtectedResult.from_dict(metrics)
        if self.pictures:
            from airmixml.runs.score_pictures import draw_statements

            draw_statements(result.privacy, folder.work / "figures" / "privacy.png")
        return replace(result, baselines=baselines_of(learned, protected=True))

    def summarise(self, scenario: Scenario, runs: list[ProtectedResult], run_dir: str) -> ProtectedResult:
        """Return what all releases together reveal, those that were killed included."""
        killed = 0 if self.whole is None else len(self.whole.attempts) - len(runs)
        if len(runs) + killed == 1:
            return runs[0]
        from airmixml.runs.summaries import summarise_releases

        gaussian = not scenario.workers.centre_on_air or composes_exactly(scenario)
        return summarise_releases(runs, run_dir, gaussian=gaussian, killed=killed)
