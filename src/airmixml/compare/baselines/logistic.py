"""Logistic regression on all rows in the clear: no privacy, what a linear model could reach."""

import math
from dataclasses import replace
from typing import Final

from airmixml.compare.adversaries import Exposure
from airmixml.compare.baselines.central import state_curator
from airmixml.compare.methods import Method, Outcome, Work
from airmixml.compare.ours import state_both
from airmixml.privacy import PrivacyStatement
from airmixml.scenario import Scenario, Speed, Workers

_MOST_NUMBERS: Final = 20_000_000
_STEPS: Final = 1000


class Logistic(Method):
    """scikit-learn's logistic regression on standardised raw inputs."""

    about = "logistic regression (scikit-learn) on the raw rows: no privacy at all"

    def run(self, work: Work) -> Outcome:
        """Fit on what all workers hold; epsilon is infinite."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scenario, plain = work.scenario, Workers()
        encoding = ("encoder", "features", "centre", "norm", "clip_norm", "constant", "sends", "label_code", "bits")
        workers = replace(scenario.workers, **{name: getattr(plain, name) for name in encoding})
        dataset, population = work.load(workers)
        held = population.sample_index
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_STEPS))
        model.fit(dataset.train_inputs[held], dataset.train_labels[held])

        def state(adjacency: str) -> PrivacyStatement:
            return replace(state_curator(scenario.privacy, len(held), 1.0, adjacency), epsilon=math.inf)

        accuracy = float(model.score(dataset.test_inputs, dataset.test_labels))
        return Outcome(
            accuracy=accuracy, privacy=state_both(scenario, state, targeted=False), exposure=Exposure.of_curator()
        )

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why it is not fitted unless asked for."""
        from airmixml.data import known_dataset

        known = known_dataset(scenario.workers.dataset)
        numbers = scenario.workers.count * (1 if known is None else known.input_dim)
        return "takes long on so many inputs: name it in --methods" if numbers > _MOST_NUMBERS else ""


LOGISTIC: Final = Logistic()
