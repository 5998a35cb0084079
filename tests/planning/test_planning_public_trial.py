"""Designs that synthetic tables recommend are dropped where the public data set that is named says otherwise."""

from dataclasses import replace

import numpy as np
import pytest

from airmixml import Scenario, settle
from airmixml.edge import learn
from airmixml.planning import InputMoments
from airmixml.planning.design_search import DesignSearch, TableDesign, TableTrial
from airmixml.planning.public_trial import PublicTrial, checked_on_public_rows
from airmixml.streams import Streams
from airmixml.workers import load_dataset

IRIS = Scenario.preset("private-iris")
MOMENTS = InputMoments(mean=0.551, deviation=0.25)
OWN = TableDesign.of(IRIS)
FEATURES = replace(OWN, encoder="mixed", features=128, centre="refined", norm="unit", label_code="centred")


def search_of(scenario: Scenario, better: TableDesign) -> DesignSearch:
    """Return a search in which the synthetic tables prefer ``better``."""
    own, other = TableTrial(scenario, 4, 3, MOMENTS).of([TableDesign.of(scenario), better])
    return DesignSearch(own=own, best=other, tried=(other, own), tables=8, rows=2000, inputs=4, classes=3)


@pytest.mark.long
def test_the_trial_on_public_rows_tells_what_runs_reach() -> None:
    (tried,) = PublicTrial(IRIS, 4, 3, MOMENTS).of([OWN])
    seeds = [IRIS.with_seed(seed) for seed in range(len(tried.accuracies))]
    learned = [learn(each, dataset=load_dataset(each.workers, Streams(each.seed))) for each in seeds]
    runs = [each.trained.history.test_accuracy[-1] for each in learned]
    assert tried.accuracy == pytest.approx(np.mean(runs), abs=0.02)


def test_a_design_that_is_worse_on_the_public_rows_is_dropped() -> None:
    search = checked_on_public_rows(search_of(IRIS, FEATURES), IRIS, 4, 3, MOMENTS)
    assert search.public is not None
    assert search.public.first.accuracy < search.public.own.accuracy - 0.05
    assert search.best is search.own
    assert "on iris itself, which is public and was read" in search.reason
    assert search.to_dict()["public"]["best"] == search.public.own.to_dict()


def test_a_design_that_is_better_there_too_is_recommended() -> None:
    """With the labels 20 times weaker than they may be, the noise hides the classes."""
    weak = IRIS.with_overrides("workers.label_weight=0.05", "privacy.epsilon=0.5")
    search = search_of(weak, OWN)
    checked = checked_on_public_rows(search, weak, 4, 3, MOMENTS)
    assert checked.public is not None
    assert checked.public.best.accuracy > checked.public.own.accuracy
    assert checked.best is search.best
    assert not checked.reason


def test_rows_that_are_not_public_are_not_read() -> None:
    own_file = settle(IRIS).with_overrides("workers.dataset=not-there.csv", "workers.label_column=kind")
    search = search_of(IRIS, FEATURES)
    assert checked_on_public_rows(search, own_file, 4, 3, MOMENTS) is search
