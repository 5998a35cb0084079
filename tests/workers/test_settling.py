"""What a scenario leaves to its data: workers, who sends at once, delta; and presets whose data set is replaced."""

import re
from pathlib import Path

import numpy as np
import pytest

from airmixml import Scenario, settle
from airmixml.messages import DataError, ScenarioError
from airmixml.radio import check_privacy_target
from airmixml.streams import Streams
from airmixml.workers import load_dataset


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    rows = [f"{age:.1f},{weight:.1f},{'ab'[int(age > 50)]}" for age, weight in rng.uniform(0, 100, size=(90, 2))]
    path = tmp_path / "people.csv"
    path.write_text("age,weight,group\n" + "\n".join(rows) + "\n")
    return path


def of_table(preset: str, table: Path, *more: str) -> Scenario:
    named = (f"workers.dataset={table}", "workers.label_column=group")
    return Scenario.preset(preset).with_overrides(*named, *more)


def test_each_row_of_a_file_is_on_one_worker_whatever_the_preset_was_made_for(table: Path) -> None:
    for preset in ("private-table", "private-iris", "paper-iris"):
        scenario = settle(of_table(preset, table))
        assert scenario.workers.count == 60  # two thirds of 90 rows, the rest is for testing
        assert scenario.workers.holding == "dealt"
        assert scenario.workers.input_lower == ()  # bounds of irises say nothing of people
    assert settle(of_table("private-iris", table)).radio.scheduled == 60
    assert settle(of_table("paper-iris", table)).radio.scheduled == 8
    assert settle(of_table("private-iris", table)).privacy.delta == 0.01  # the preset says so
    assert settle(of_table("private-table", table)).privacy.delta == pytest.approx(0.1 / 60)
    assert settle(of_table("private-table", table), test_rows=False).workers.count == 90
    assert settle(of_table("paper-iris", table, "workers.count=500", "workers.holding=drawn")).workers.count == 500


def test_a_scenario_file_without_a_count_has_one_worker_for_each_row(table: Path) -> None:
    text = (
        f'[workers]\ndataset = "{table}"\nlabel_column = "group"\n[workers.bounds]\nage = [0, 120]\nweight = [0, 300]'
    )
    scenario = settle(Scenario.from_toml(text))
    assert scenario.workers.count == 60
    assert scenario.workers.feature_columns == ("age", "weight")
    assert scenario.workers.input_upper == (120.0, 300.0)
    assert Scenario.from_toml(scenario.to_toml()) == scenario


def test_known_data_sets_are_not_read_to_be_counted() -> None:
    scenario = settle(Scenario.preset("private-table").with_overrides("workers.dataset=mnist"))
    assert scenario.workers.count == 60_000
    assert settle(scenario) is scenario


def test_all_rows_are_in_the_pool_where_none_are_tested_on(table: Path) -> None:
    bounds = ("workers.input_lower=0", "workers.input_upper=300")
    workers = settle(of_table("private-table", table, *bounds)).workers
    whole = load_dataset(workers, Streams(0), test_rows=False)
    assert (whole.train_samples, len(whole.test_labels)) == (90, 0)
    split = load_dataset(workers, Streams(0))
    assert (split.train_samples, len(split.test_labels)) == (60, 30)


def test_undeclared_bounds_are_refused_with_a_way_to_declare_them(table: Path) -> None:
    """By the names of columns, where a table has them, with categories or without; else by the keys."""
    for changes in ((), ("workers.missing=fill",)):
        with pytest.raises(DataError, match=r"^\[workers\.bounds\] lacks 'age', 'weight': write"):
            load_dataset(of_table("private-iris", table, *changes).workers, Streams(0))
    arrays = table.with_suffix(".npz")
    np.savez(arrays, inputs=np.zeros((9, 2)), labels=np.arange(9) % 3)
    nameless = Scenario.preset("private-iris").with_overrides(f"workers.dataset={arrays}").workers
    with pytest.raises(DataError, match=r"workers.input_lower and workers.input_upper: must be declared"):
        load_dataset(nameless, Streams(0))


def test_what_is_not_settled_is_refused_where_it_would_be_used() -> None:
    with pytest.raises(ScenarioError, match=r"workers.count, radio.scheduled or privacy.delta is 0"):
        check_privacy_target(Scenario.preset("private-table"))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("age = [0, 120]\nweight = [0, 9]\nsize = [0, 1]", "workers.bounds: 'size' is not an input column of numbers"),
        ("age = [nan, 1]\nweight = [0, 9]", "workers.bounds.'age'[0] = nan: must be a number (finite)"),
        ("age = 3\nweight = [0, 9]", "workers.bounds.'age' = 3: must be a list of 2 values"),
        ("age = [0, 1, 2]\nweight = [0, 9]", "workers.bounds.'age' = [0, 1, 2]: must be a list of 2 values"),
        ("", "workers.bounds = {}: must be a table with a line COLUMN = [lower, upper]"),
    ],
)
def test_a_file_of_bounds_must_fit_the_columns(tmp_path: Path, bounds: str, message: str) -> None:
    path = tmp_path / "bounds.toml"
    path.write_text(bounds)
    scenario = Scenario.preset("private-table").with_overrides("workers.feature_columns=age,weight")
    with pytest.raises(ScenarioError, match=f"^{re.escape(f'{path}: {message}')}"):
        scenario.with_bounds(path)


def test_bounds_are_said_once() -> None:
    text = "[workers]\ninput_lower = [0]\n[workers.bounds]\na = [0, 1]"
    with pytest.raises(ScenarioError, match=r"workers.input_lower: says the same as \[workers.bounds\]"):
        Scenario.from_toml(text)


def test_columns_that_a_file_of_bounds_does_not_name_are_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "bounds.toml").write_text("age = [0, 120]")
    scenario = Scenario.preset("private-table").with_overrides("workers.feature_columns=weight,age")
    bounded = scenario.with_bounds(tmp_path / "bounds.toml").workers
    assert (bounded.feature_columns, bounded.input_upper) == (("age",), (120.0,))
    text = "[workers]\nfeature_columns = ['age', 'weight']\n[workers.bounds]\nage = [0, 120]"
    with pytest.raises(ScenarioError, match=r"^workers.bounds: 'weight' must have a line"):
        Scenario.from_toml(text)


def test_few_columns_keep_their_magnitudes() -> None:
    preset = Scenario.preset("private-table")
    for inputs, norm, clip_norm in ((4, "clip", 0.5), (7, "clip", 0.5), (8, "unit", 1.0), (0, "unit", 1.0)):
        settled = preset.settled(100, inputs).workers
        assert (settled.norm, settled.clip_norm) == (norm, clip_norm)


def test_auto_is_what_the_rest_of_the_scenario_allows() -> None:
    preset = Scenario.preset("private-table")

    def chosen(*changes: str, rounds: int | str = 0) -> tuple[str, str, str]:
        settled = preset.with_overrides("workers.count=50", f"learner.rounds={rounds}", *changes).settled(50, 30)
        assert settled.is_settled
        return settled.workers.centre, settled.workers.label_code, settled.learner.model

    assert chosen() == ("refined", "centred", "lda")
    assert chosen("workers.task=regression") == ("refined", "one-hot", "ridge")
    assert chosen("workers.worker_column=who") == ("public", "one-hot", "lda")
    assert chosen("workers.bits=4") == ("refined", "one-hot", "lda")
    assert chosen("mixing.power=max") == ("public", "centred", "lda")
    assert chosen("radio.fading=rayleigh") == ("public", "centred", "lda")
    assert chosen("workers.encoder=embeddings") == ("none", "centred", "lda")
    assert chosen("workers.count=200", rounds="auto") == ("refined", "centred", "ridge")
    assert chosen(rounds="auto") == ("refined", "centred", "lda")  # of 50 rows rounds learn no more
    assert chosen("workers.centre=own", "learner.model=ridge") == ("own", "centred", "ridge")
