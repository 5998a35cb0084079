"""Designs tried on synthetic tables: what they are, that their noise is that of a run, and what is recommended."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError
from airmixml.data.dataset import RawData
from airmixml.edge.training import learn
from airmixml.planning import InputMoments
from airmixml.planning.design_search import DesignSearch, TableDesign, TriedDesign, simplest_of
from airmixml.planning.known_inputs import KnownInputs
from airmixml.planning.trials import KINDS, EncodedTable, NoisyDesign, TableKind, TableTrial, make_table, trial_of
from airmixml.radio.tally import placed_distances
from airmixml.streams import Streams
from airmixml.workers import load_dataset

PLAIN = (
    "workers.centre=public",
    "workers.norm=clip",
    "workers.label_code=one-hot",
    "learner.model=ridge",
    "learner.rounds=0",
)
TABLE = Scenario.preset("private-table").with_overrides(*PLAIN).settled(379)
COLUMNS = InputMoments(mean=0.317, deviation=0.104)


def search_designs(
    scenario: Scenario, inputs: int, classes: int, moments: InputMoments, seconds: float = math.inf
) -> DesignSearch:
    search = TableTrial(scenario, KnownInputs((inputs, classes), moments, inputs)).search(seconds)
    assert search is not None
    return search


@pytest.fixture(scope="module")
def breast_cancer() -> DesignSearch:
    return search_designs(TABLE, 30, 2, COLUMNS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_synthetic_table_has_what_was_asked_for(kind: TableKind) -> None:
    moments, rng = InputMoments(mean=0.4, deviation=0.1), np.random.default_rng(1)
    table = make_table(kind, rows=500, inputs=12, classes=3, moments=moments, rng=rng)
    assert table.train_inputs.shape == table.test_inputs.shape == (500, 12)
    assert set(table.train_labels.tolist()) == {0, 1, 2}
    assert 0.0 <= table.train_inputs.min() <= table.train_inputs.max() <= 1.0
    assert table.train_inputs.mean() == pytest.approx(0.4, abs=0.12)
    assert math.sqrt(table.train_inputs.var(axis=0).mean()) == pytest.approx(0.1, abs=0.06)


def test_the_noise_is_that_of_the_gaussian_mechanism_by_hand() -> None:
    """Each of N averaged moments has deviation sqrt(1 + w^2) / (mu N), with mu of epsilon 1 at a tenth of 1 / N."""
    from airmixml.privacy.gaussian import gaussian_mu

    scenario = TABLE.with_overrides("workers.label_weight=0.5")
    mu = gaussian_mu(1.0, 0.1 / 379)
    variance = NoisyDesign.of(scenario, 30, 2, placed_distances(scenario)).variance
    assert math.sqrt(variance) == pytest.approx(math.sqrt(1.25) / mu / 379, rel=0.03)
    refined = scenario.with_overrides("workers.centre=refined")
    assert NoisyDesign.of(refined, 30, 2, placed_distances(refined)).variance == pytest.approx(variance / 0.9, rel=0.03)


def test_the_noise_of_rounds_is_their_share_of_the_mechanism_by_hand() -> None:
    """Each of R rounds has mu^2 s / R, and what comes before them (1 - s) mu^2."""
    alone = NoisyDesign.of(TABLE, 30, 2, placed_distances(TABLE)).variance
    scenario = TABLE.with_overrides("learner.rounds=8", "learner.rounds_share=0.6")
    design = NoisyDesign.of(scenario, 30, 2, placed_distances(scenario))
    assert design.variance == pytest.approx(alone / 0.4, rel=0.01)
    assert design.round_variance == pytest.approx(alone / (0.6 / 8), rel=0.01)


def test_a_trial_with_rounds_is_as_good_as_a_run_of_them() -> None:
    """A synthetic table, sent over the simulated radio, is learnt as the trial says."""
    moments, rows = InputMoments(mean=0.37, deviation=0.12), 1500
    table = make_table(KINDS[1], rows=rows, inputs=12, classes=4, moments=moments, rng=np.random.default_rng(5))
    scenario = Scenario.preset("private-table").with_overrides("privacy.epsilon=3").settled(rows, 12)
    distances = placed_distances(scenario)
    trials = [
        EncodedTable(scenario, table, 4, distances, number).accuracy(NoisyDesign.of(scenario, 12, 4, distances))
        for number in range(5)
    ]
    raw = RawData(
        inputs=table.train_inputs,
        labels=table.train_labels,
        class_names=("a", "b", "c", "d"),
        lower=(0.0,),
        upper=(1.0,),
        test_inputs=table.test_inputs,
        test_labels=table.test_labels,
    )
    scenarios = [scenario.with_overrides(f"seed={seed}") for seed in range(5)]
    held = [load_dataset(each.workers, Streams(each.seed), raw=raw) for each in scenarios]
    runs = [learn(each, dataset=dataset).trained.history for each, dataset in zip(scenarios, held, strict=True)]
    assert np.mean(trials) == pytest.approx(np.mean([each.final_accuracy for each in runs]), abs=0.02)


def test_breast_cancer_is_told_what_was_measured_to_be_best(breast_cancer: DesignSearch) -> None:
    """Measured at epsilon 1, 20 seeds: plain lda 85.8 %, plain ridge 90.5, the preset with ridge 94.9, lda 95.8."""
    by_design = {each.design: each.accuracy for each in breast_cancer.tried}
    own = TableDesign.of(TABLE)
    assert by_design[own] >= by_design[replace(own, model="lda")]
    best = breast_cancer.best
    assert (best.design.encoder, best.design.centre, best.design.norm) == ("clip", "refined", "unit")
    assert best.accuracy > breast_cancer.own.accuracy + 0.01
    assert [each.accuracy for each in breast_cancer.tried] == sorted(
        (each.accuracy for each in breast_cancer.tried), reverse=True
    )
    assert len(breast_cancer.to_dict()["tried"]) == len(breast_cancer.tried)


@pytest.mark.long
def test_the_same_is_recommended_from_wherever_one_starts(breast_cancer: DesignSearch) -> None:
    """From what is recommended, from the most accurate design, and from the least accurate one."""
    for start in (breast_cancer.best, breast_cancer.tried[0], breast_cancer.tried[-1]):
        again = search_designs(start.design.applied_to(TABLE), 30, 2, COLUMNS)
        assert again.own == start
        assert again.best == breast_cancer.best
        assert set(again.tried) == set(breast_cancer.tried)


def test_rows_of_few_columns_are_tried_at_one_norm_whatever_the_start_has() -> None:
    """Unit rows at norm 1, clipped ones at half of it (docs/tables.md)."""
    few = Scenario.preset("private-table").settled(150, 5)
    assert (few.workers.norm, few.workers.clip_norm) == ("clip", 0.5)
    starts = (few, few.with_overrides("workers.norm=unit", "workers.clip_norm=1"))
    found = [search_designs(start, 5, 3, COLUMNS) for start in starts]
    norms = {(each.design.norm, each.design.applied_to(few).workers.clip_norm) for each in found[0].tried}
    assert norms == {("clip", 0.5), ("unit", 1.0)}
    assert found[0].best == found[1].best


@pytest.mark.parametrize(
    "changes",
    [
        ("workers.encoder=dct",),
        ("workers.sends=samples",),
        ("workers.bits=4",),
        ("workers.task=regression", "workers.target_lower=0", "workers.target_upper=1"),
    ],
)
def test_what_is_not_tried(changes: tuple[str, ...]) -> None:
    known = KnownInputs((31, 2), COLUMNS, 30)
    assert trial_of(TABLE.with_overrides(*changes), known) is None
    assert isinstance(trial_of(TABLE, known), TableTrial)


@pytest.fixture(scope="module")
def satimage() -> DesignSearch:
    """As many rows, inputs and classes as satimage, on which ``mixed`` with rounds was measured to be best."""
    scenario = Scenario.preset("private-table").settled(4435, 36)
    return search_designs(scenario, 36, 6, InputMoments(mean=0.37, deviation=0.12))


@pytest.mark.long
def test_features_and_rounds_are_chosen_where_they_were_measured_to_be_best(satimage: DesignSearch) -> None:
    best = satimage.best.design
    assert (best.encoder, best.model) == ("mixed", "ridge")
    assert best.rounds > 0
    assert satimage.best.accuracy > max(each.accuracy for each in satimage.tried if not each.design.rounds) + 0.01
    same = {each.design.rounds for each in satimage.tried if replace(each.design, rounds=best.rounds) == best}
    assert same == {0, 4, 8, 20, 50}


@pytest.mark.long
def test_time_on_the_air_decides_between_features_and_rounds(satimage: DesignSearch) -> None:
    scenario = Scenario.preset("private-table").settled(4435, 36)
    moments, own_seconds = InputMoments(mean=0.37, deviation=0.12), satimage.own.air_seconds
    for limit in (own_seconds, own_seconds / 3.0):
        found = search_designs(scenario, 36, 6, moments, limit)
        assert found.best.air_seconds <= limit
        assert found.best.accuracy < satimage.best.accuracy
    assert found.best.design.rounds < scenario.learner.rounds


def test_a_rule_that_forbids_rounds_leaves_one_slot() -> None:
    with pytest.raises(ScenarioError, match="must be 0 for learner"):
        TABLE.with_overrides("radio.slot_seconds=1", "learner.rounds=4")
    found = search_designs(TABLE.with_overrides("radio.slot_seconds=1"), 30, 2, COLUMNS)
    assert {each.design.rounds for each in found.tried} == {0}


def tried(rounds: int, *accuracies: float, symbols: int = 100) -> TriedDesign:
    design = replace(TableDesign.of(TABLE), rounds=rounds)
    return TriedDesign(design=design, accuracies=accuracies, uplink_symbols=symbols, air_seconds=1e-3 * symbols)


def told(own: TriedDesign, *others: TriedDesign, seconds: float = math.inf) -> DesignSearch:
    every = sorted((own, *others), key=lambda each: -each.accuracy)
    best = simplest_of(every, seconds)
    trial = TableTrial(TABLE, KnownInputs((30, 2), COLUMNS, 30))
    return DesignSearch(own=own, best=best, tried=tuple(every), max_air_seconds=seconds, trial=trial)


def test_the_simplest_of_designs_within_chance_is_recommended_and_a_line_says_so() -> None:
    rounds, one_slot = tried(20, 0.91, 0.93, 0.95, symbols=200), tried(0, 0.90, 0.94, 0.94)
    for own, other in ((rounds, one_slot), (one_slot, rounds)):
        search = told(own, other)
        assert search.best == one_slot
        # 0.33 points more, whose error is the deviation of (1, -1, 1) over sqrt(3): 0.67
        assert search.reason == (
            "the most accurate design is 0.3 ± 0.7 points better; this one needs one slot: 100 symbols in place of 200"
        )
        assert search.to_dict()["reason"] == search.reason
        centred = [replace(each, design=replace(each.design, centre="refined")) for each in (own, other)]
        assert "this one needs one slot after that for the mean: 100 symbols" in told(*centred).reason
        assert search.to_dict()["gained"] == pytest.approx(0.0 if own is one_slot else -0.01 / 3)


def test_rounds_are_recommended_where_they_are_better_beyond_chance() -> None:
    rounds, fewer, one_slot = (
        tried(20, 0.93, 0.96, 0.96, symbols=200),
        tried(4, 0.931, 0.958, 0.96, symbols=120),
        tried(0, 0.90, 0.94, 0.94),
    )
    search = told(one_slot, rounds, fewer)
    assert search.best == fewer  # with fewer symbols than as good ones
    assert "120 symbols in place of 200" in search.reason
    assert told(rounds, one_slot, seconds=0.15).best == one_slot
    assert "longer on the air" in told(rounds, one_slot, seconds=0.15).reason


def test_nothing_that_is_as_simple_is_more_accurate_than_what_is_recommended() -> None:
    """A design whose difference is small because it is uncertain does not win over a better one of as many symbols."""
    first = tried(4, 0.95, 0.95, 0.95, symbols=300)
    steady, shaky = tried(0, 0.944, 0.945, 0.943), tried(0, 0.90, 0.99, 0.935)
    shaky = replace(shaky, design=replace(shaky.design, model="lda"))
    assert shaky.as_good_as(first, 0.003)
    assert not steady.as_good_as(first, 0.003)
    assert told(first, steady, shaky).best == steady


def test_a_search_is_plain_facts(breast_cancer: DesignSearch) -> None:
    """It compares, and goes to other processes, whatever told its progress."""
    assert pickle.loads(pickle.dumps(breast_cancer)) == breast_cancer
