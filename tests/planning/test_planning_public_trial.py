"""Designs that synthetic tables recommend are dropped where the public data set that is named says otherwise."""

from dataclasses import replace

import numpy as np
import pytest

from airmixml import Scenario, settle
from airmixml.edge import learn
from airmixml.planning import InputMoments
from airmixml.planning.design_search import TableDesign, Trial
from airmixml.planning.known_inputs import KnownInputs
from airmixml.planning.plan import make_plan
from airmixml.planning.trials import PublicTrial, trial_of
from airmixml.streams import Streams
from airmixml.workers import load_dataset

IRIS = Scenario.preset("private-iris")
MOMENTS = InputMoments(mean=0.551, deviation=0.25)
OWN = TableDesign.of(IRIS)
FEATURES = replace(OWN, encoder="mixed", features=128, centre="refined", norm="unit", label_code="centred")


def trial(scenario: Scenario, *, named: bool) -> Trial:
    found = trial_of(scenario, KnownInputs((5, 3), MOMENTS, 4, named))
    assert found is not None
    return found


@pytest.mark.long
def test_the_trial_on_public_rows_tells_what_runs_reach() -> None:
    (tried,) = PublicTrial(IRIS, KnownInputs((5, 3), MOMENTS, 4)).of([OWN])
    seeds = [IRIS.with_seed(seed) for seed in range(len(tried.accuracies))]
    learned = [learn(each, dataset=load_dataset(each.workers, Streams(each.seed))) for each in seeds]
    runs = [each.trained.history.test_accuracy[-1] for each in learned]
    assert tried.accuracy == pytest.approx(np.mean(runs), abs=0.02)


def test_designs_are_tried_on_the_public_rows_that_are_named() -> None:
    """Features of four columns were better on synthetic tables, and are far worse on iris itself."""
    on_iris = trial(IRIS, named=True)
    assert on_iris.times == "splits of iris"
    own, features = on_iris.of([OWN, FEATURES])
    assert features.accuracy < own.accuracy - 0.05


@pytest.mark.long
def test_what_is_recommended_for_public_rows_recommends_itself() -> None:
    first = trial(IRIS, named=True).search()
    assert first is not None
    assert first.basis == "8 splits of iris"
    assert first.trial.told == "iris, which is public and was read"
    again = trial(first.best.design.applied_to(IRIS), named=True).search()
    assert again is not None
    assert again.best == again.own == first.best


def test_rows_that_are_not_public_are_not_read() -> None:
    own_file = settle(IRIS).with_overrides("workers.dataset=not-there.csv", "workers.label_column=kind")
    assert trial(own_file, named=True).times == "synthetic tables"
    assert trial(IRIS, named=False).times == "synthetic tables"


@pytest.mark.parametrize("changes", [(), ("workers.centre=refined", "workers.norm=unit", "workers.label_code=centred")])
def test_the_signal_of_public_rows_is_that_of_a_run(changes: tuple[str, ...]) -> None:
    scenario = IRIS.with_overrides(*changes)
    plan = make_plan(scenario, 5, 3, MOMENTS, held_dim=4, alternatives=False)
    report = learn(scenario, dataset=load_dataset(scenario.workers, Streams(0))).transmission.report
    assert plan.snr_inputs_db == report.input_snr_db.quantile_db(0.5)
    assert plan.snr_labels_db == report.label_snr_db.quantile_db(0.5)
    assert plan.energy_joules == pytest.approx(report.energy_joules, rel=1e-6, abs=0)
    assert plan.air_seconds == pytest.approx(report.air_seconds, rel=1e-9, abs=0)
