"""A sweep over a grid: its cells are what the commands give, whatever runs them, and what is finished is kept."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import airmixml
from airmixml import AirMixError, RunFolderError, Scenario, ScenarioError
from airmixml.attacks import attack
from airmixml.audit import AuditSettings, audit
from airmixml.edge import training
from airmixml.scenario.grid import Grid, scenario_at
from airmixml.sweeps import Part, cut_into_batches, run_sweep
from airmixml.sweeps.batches import Place
from airmixml.sweeps.cells import RunCells
from airmixml.sweeps.grid_sweep import Swept, sweep_grid

IRIS = Scenario.preset("private-iris").with_overrides("workers.count=200", "radio.scheduled=200")
NETWORK = Scenario.preset("paper-iris").with_overrides("radio.slots=60", "learner.epochs=3", "workers.count=300")
EPSILONS = {"privacy.epsilon": [0.5, 1, 5]}
TIMES = ("seconds",)


def swept(scenario: Scenario = IRIS, grid: dict[str, Any] | None = None, **options: Any) -> Swept:
    return sweep_grid(scenario, Grid.of(grid or EPSILONS), **{"jobs": 1, **options})


def numbers(result: Swept) -> list[dict[str, Any]]:
    """All rows, but for how long they took."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in result.long_rows()]


# --- Cells are what the commands give ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "grid"),
    [
        (IRIS, {"privacy.epsilon": [0.5, 5], "learner.shrinkage": [0, 1]}),
        (NETWORK, {"learner.hidden_units": [(4,), (8, 3)]}),
        (IRIS, {"workers.centre": ["private"], "privacy.epsilon": [1, 3], "privacy.delta": [0.1]}),
    ],
    ids=["closed form", "networks", "private centre"],
)
def test_a_cell_of_run_is_what_airmix_run_gives(scenario: Scenario, grid: dict[str, Any], tmp_path: Path) -> None:
    """To the last bit, also where cells are sent at once."""
    found = swept(scenario, grid, seeds=2, out=tmp_path / "swept")
    assert len(found.rows) == 2 * len(Grid.of(grid))
    for number, row in enumerate(found.rows):
        assert not row.error
        alone = airmixml.run(
            scenario_at(scenario, row.point).with_seed(row.seed), out=tmp_path / str(number), pictures=False
        ).to_dict()
        for name in ("final", "best", "best_epoch"):
            assert row.metrics[f"accuracy.{name}"] == alone["accuracy"][name]
        for name in ("energy_joules", "air_seconds", "snr_db", "snr_inputs_db", "power_limited_slots", "row_copies"):
            assert row.metrics[name] == alone[name]
        assert row.metrics["ledger.worst_epsilon"] == alone["ledger"]["worst_epsilon"]
        own = alone["privacy"][0]
        assert row.metrics["epsilon"] == own["epsilon"]
        for adversary in ("server", "release"):
            stated = [
                each["epsilon"]
                for each in alone["privacy"]
                if (each["adversary"], each["adjacency"], each["delta"]) == (adversary, own["adjacency"], own["delta"])
            ]
            assert row.metrics[f"epsilon_{adversary}"] == min(stated)
        assert row.metrics["epsilon_row"] == alone["row_privacy"]["epsilon"]
        assert "clipped_values" in row.metrics
        assert row.metrics["mode"] == "simulation"


def test_a_cell_of_attack_is_what_airmix_attack_gives(tmp_path: Path) -> None:
    found = swept(command="attack", attacks=["prior", "release"], out=tmp_path / "swept")
    assert [row.metrics["claimed.server"] for row in found.rows] == pytest.approx([0.5, 1.0, 5.0])
    row = found.rows[1]
    case = attack(scenario_at(IRIS, row.point), ["prior", "release"], out=tmp_path / "alone").to_dict()
    assert row.metrics["grade"] == case["grade"]
    assert row.metrics["server.best"] == "prior"
    for name in ("recognised_share", "copied_share", "explained"):
        assert row.metrics[f"server.{name}"] == case["server"]["methods"]["prior"][name]
        assert row.metrics[f"server.methods.prior.{name}"] == case["server"]["methods"]["prior"][name]
    assert row.metrics["release.linkage.auc"] == case["release"]["linkage"]["auc"]


def test_a_cell_of_audit_is_what_airmix_audit_gives(tmp_path: Path) -> None:
    settings = AuditSettings(adversaries=("server",), trials=200)
    found = swept(grid={"privacy.epsilon": [5]}, command="audit", audit=settings, out=tmp_path / "swept")
    (row,) = found.rows
    alone = audit(scenario_at(IRIS, row.point), settings, out=tmp_path / "alone").to_dict()
    for name in ("epsilon_lower", "epsilon_claimed", "caught", "confidence"):
        assert row.metrics[name] == alone[name]
    assert row.metrics["server.epsilon_lower"] == alone["audits"][0]["epsilon_lower"]
    assert any("holds for each cell" in note for note in found.notes)


@pytest.mark.long  # tests/audit injects every fault
def test_an_injected_fault_is_caught_in_every_cell(tmp_path: Path) -> None:
    from airmixml.audit import fault_named

    settings = AuditSettings(adversaries=("server",), trials=2000, fault=fault_named("half-noise"))
    found = swept(grid={"privacy.epsilon": [1, 5]}, command="audit", audit=settings, out=tmp_path)
    assert [row.metrics["caught"] for row in found.rows] == [True] * 2


# --- Whatever runs them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_how_cells_are_cut_changes_no_outcome(jobs: int, tmp_path: Path) -> None:
    grid = Grid.of({**EPSILONS, "learner.shrinkage": [0, 1]})
    scenarios = [scenario_at(IRIS, point).with_seed(seed) for seed in (0, 1) for point in grid.points]
    cut = cut_into_batches(scenarios, RunCells(), jobs=jobs)
    assert sorted(map(hash, scenarios)) == sorted(hash(part.scenarios[0]) for batch in cut for part in batch)
    assert (max(map(len, cut)) > 1) == (jobs in (1, 2))
    parts = {part.digest for batch in cut for part in batch}
    assert parts == {part.digest for (part,) in cut_into_batches(scenarios, RunCells(), jobs=0)}
    if jobs:
        outcomes = run_sweep(cut, tmp_path).outcomes
        for scenario in scenarios[:2]:
            ((_, (alone,)),) = RunCells().run((Part(kind=RunCells(), scenarios=(scenario,)),), Place())
            together = outcomes["run", scenario]
            for name, value in alone.items():
                assert name in TIMES or together[name] == value


def test_networks_of_an_unknown_size_are_not_sent_at_once() -> None:
    scenarios = [NETWORK.with_overrides("workers.dataset=own.csv", f"privacy.epsilon={each}") for each in (5, 6, 7, 8)]
    assert [len(batch) for batch in cut_into_batches(scenarios, RunCells(), jobs=1)] == [1] * 4
    named = [each.with_overrides("workers.dataset=iris") for each in scenarios]
    assert [len(batch) for batch in cut_into_batches(named, RunCells(), jobs=1)] == [4]
    assert [len(batch) for batch in cut_into_batches(named, RunCells(), jobs=2)] == [1] * 4


@pytest.mark.long
def test_processes_give_what_this_process_gives(tmp_path: Path) -> None:
    grid = {"privacy.epsilon": [3, 10, 1e3], "mixing.alpha": [1, 10]}  # ln(1 / delta) = 4.6 is the least of paper-loose
    alone = swept(NETWORK, grid, seeds=2, out=tmp_path / "alone")
    both = swept(NETWORK, grid, seeds=2, out=tmp_path / "both", jobs=2)
    assert numbers(alone) == numbers(both)
    assert sum(bool(row.error) for row in both.rows) == 4
    again = swept(NETWORK, grid, seeds=2, out=tmp_path / "both", jobs=2)
    assert again.kept == 12
    assert again.long_rows() == both.long_rows()


@pytest.mark.long
def test_a_killed_process_costs_no_cell_but_the_one_that_kills_it(tmp_path: Path) -> None:
    """Of cells that are sent at once, those that it left undone are run by another process, each by itself."""
    slow, killed = NETWORK.with_overrides("learner.epochs=60"), list[int]()

    def kill(_stage: str, done: int, _total: int) -> None:
        children = multiprocessing.active_children()
        if done and children and not killed:  # some cell is under way, or finished
            killed.append(children[0].pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    grid = {"privacy.epsilon": [5, 10, 20, 40, 80, 160]}
    found = swept(slow, grid, seeds=2, out=tmp_path / "out", jobs=2, progress=kill)
    assert len(killed) == 1
    assert [row.error for row in found.rows] == [""] * 12
    assert numbers(found) == numbers(swept(slow, grid, seeds=2, out=tmp_path / "whole"))
    assert multiprocessing.active_children() == []


# --- What is finished is kept -----------------------------------------------------------------------------------------


def test_an_interrupted_sweep_loses_at_most_the_cell_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also within cells that are sent at once."""
    whole = swept(seeds=2, out=tmp_path / "whole")
    solved: list[float] = []
    solve = training.solve_and_score

    def third_time_never(*arguments: Any) -> Any:
        solved.append(arguments[0].scenario.privacy.epsilon)
        if len(solved) == 3:
            raise KeyboardInterrupt
        return solve(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "solve_and_score", third_time_never)
        with pytest.raises(KeyboardInterrupt):
            swept(seeds=2, out=tmp_path / "out")
    assert len(list((tmp_path / "out" / "cells").glob("*.json"))) == 2
    resumed = swept(seeds=2, out=tmp_path / "out")
    assert resumed.kept == 2
    assert numbers(resumed) == numbers(whole)


def test_more_values_and_seeds_add_to_a_sweep(tmp_path: Path) -> None:
    swept(out=tmp_path)
    more = swept(grid={"privacy.epsilon": [1, 5, 7]}, seeds=2, out=tmp_path)
    assert more.kept == 2
    other_key = swept(grid={"privacy.epsilon": [1, 5], "learner.shrinkage": [1, 2]}, out=tmp_path)
    assert other_key.kept == 2
    with pytest.raises(RunFolderError, match="holds a study with other settings"):
        swept(IRIS.with_overrides("privacy.delta=0.001"), out=tmp_path)
    with pytest.raises(RunFolderError, match="holds a study with other settings"):
        swept(command="audit", out=tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    replaced = swept(IRIS.with_overrides("privacy.delta=0.001"), out=tmp_path, force=True)
    assert replaced.kept == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_other_data_in_the_same_file_are_other_cells(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)

    def write() -> None:
        rows = "".join(f"{x:.3f},{y:.3f},{'ab'[int(x > y)]}\n" for x, y in rng.random((40, 2)))
        (tmp_path / "own.csv").write_text("x,y,label\n" + rows)

    own = IRIS.with_overrides(
        f"workers.dataset={tmp_path}/own.csv",
        "workers.train_samples=20",
        "workers.input_lower=0",
        "workers.input_upper=1",
        "workers.count=20",
        "radio.scheduled=20",
    )
    write()
    first = swept(own, out=tmp_path / "one")
    assert swept(own, out=tmp_path / "one").kept == 3
    write()
    with pytest.raises(RunFolderError, match="other settings"):
        swept(own, out=tmp_path / "one")
    other = swept(own, out=tmp_path / "one", force=True)
    assert other.kept == 0
    assert numbers(other) != numbers(first)


def test_a_broken_file_counts_as_not_there(tmp_path: Path) -> None:
    whole = swept(out=tmp_path)
    first, *_ = sorted((tmp_path / "cells").glob("*.json"))
    first.write_bytes(b'{"values": {"outcomes": []}}')
    again = swept(out=tmp_path)
    assert again.kept == 2
    assert numbers(again) == numbers(whole)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_full_disk_costs_one_line_and_nothing_that_is_kept(
    writes: int, tmp_path: Path, disk_full_after: Callable[[int], AbstractContextManager[None]]
) -> None:
    with disk_full_after(writes), pytest.raises(RunFolderError, match="No space left on device") as problem:
        swept(out=tmp_path / "out")
    assert "\n" not in str(problem.value)
    assert swept(out=tmp_path / "out").kept == max(0, writes - 1)  # the first is what the folder belongs to


# --- One that fails costs no other ------------------------------------------------------------------------------------


def test_a_cell_that_is_refused_says_why_and_costs_no_other(tmp_path: Path) -> None:
    grid = {"privacy.epsilon": [1, 5], "radio.scheduled": [200, 300], "privacy.accountant": ["gdp", "paper-loose"]}
    found = swept(grid=grid, out=tmp_path)
    whys = [row.error for row in found.rows]
    assert [bool(why) for why in whys] == [False, True, True, True, False, False, True, True]
    assert whys[1].startswith("privacy.epsilon = 1: paper-loose certifies only epsilon above")
    assert whys[2].startswith("radio.scheduled = 300: must be at most workers.count = 200")
    assert not any("\n" in why for why in whys)
    again = swept(grid=grid, out=tmp_path)
    assert numbers(again) == numbers(found)


def test_a_cell_that_breaks_costs_no_other_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = swept(out=tmp_path / "whole")
    solve = training.solve_and_score

    def sometimes(sent: Any, *given: Any) -> Any:
        if sent.scenario.privacy.epsilon == 0.5:
            raise MemoryError("no\nroom")
        return solve(sent, *given)

    with monkeypatch.context() as patch:
        patch.setattr(training, "solve_and_score", sometimes)
        found = swept(out=tmp_path / "out")
    assert [row.error for row in found.rows] == ["MemoryError: no room", "", ""]
    assert numbers(found)[1:] == numbers(whole)[1:]
    again = swept(out=tmp_path / "out")
    assert again.kept == 2
    assert numbers(again) == numbers(whole)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"seeds": 0}, "seeds = 0: must be at least 1"),
        ({"command": "plan"}, "--command = 'plan': must be one of run, attack, audit"),
        ({"engine": "spark"}, "--engine = 'spark': must be local or ray"),
        ({"jobs": -1}, "--jobs = -1"),
        ({"attacks": ["prior"]}, "--attacks: belongs to --command attack"),
        ({"command": "attack", "attacks": ["prio"]}, "--attacks 'prio'"),
        ({"audit": AuditSettings()}, "--audit: belongs to --command audit"),
        ({"grid": {"radio.scheduled": [3000, 4000]}}, "radio.scheduled = 4000: must be at most workers.count"),
        (
            {"grid": {key: range(1, 401) for key in ("radio.slots", "learner.epochs")}},
            "are 160,000 runs: must be at most",
        ),
        ({"seeds": 33_334}, "3 cells with 33,334 seeds are 100,002 runs"),
        ({"out": "here.partial"}, "choose an --out that does not end in .partial"),
    ],
)
def test_mistakes_cost_one_line_and_write_nothing(
    options: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AirMixError) as refusal:
        swept(**options)
    assert line in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_metric_that_no_cell_has_is_refused_and_no_cell_is_lost(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"--metric acuracy\.final: airmix run has none of that name; did you mean"):
        swept(metrics=["acuracy.final"], out=tmp_path / "out")
    with pytest.raises(ScenarioError, match=r"--metric foo: .*; it has for example accuracy\.final"):
        swept(metrics=["foo"], out=tmp_path / "out")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ScenarioError, match=r"--metric accuracy\.fnal: airmix run has none of that name; did you mean"):
        swept(metrics=["accuracy.fnal"], out=tmp_path / "out")
    assert len(list((tmp_path / "out" / "cells").glob("*.json"))) == 1  # refused as soon as names are known
    with pytest.raises(ScenarioError, match=r"--metric scores\.r2: airmix run has none of that name"):
        swept(metrics=["scores.r2"], out=tmp_path / "out")
    assert swept(metrics=["accuracy.final"], out=tmp_path / "out").kept == 3
    assert swept(metrics=["accuracy.final"], out=tmp_path / "new").kept == 0


def test_data_that_are_not_there_are_refused_before_anything_is_run(tmp_path: Path) -> None:
    gone = IRIS.with_overrides("workers.dataset=gone.csv", "workers.input_lower=0", "workers.input_upper=1")
    with pytest.raises(AirMixError, match=r"gone\.csv"):
        swept(gone, out=tmp_path / "out")
    found = swept(gone, {"workers.dataset": ["gone.csv", "iris"]}, out=tmp_path / "two")
    assert "gone.csv" in found.rows[0].error


def test_data_that_come_later_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not of the cell's making is not kept as its outcome."""
    from airmixml.messages import DataError
    from airmixml.sweeps import cells

    def gone(*_arguments: Any, **_options: Any) -> Any:
        raise DataError("the files are out of reach")

    with monkeypatch.context() as patch:
        patch.setattr(cells, "load_dataset", gone)
        broken = swept(IRIS.with_seed(77), out=tmp_path)
    assert [row.error for row in broken.rows] == ["the files are out of reach"] * 3
    assert [row.error for row in swept(IRIS.with_seed(77), out=tmp_path).rows] == [""] * 3


def test_a_regression_shows_its_own_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.random((60, 2))
    rows = "".join(f"{a:.3f},{b:.3f},{a + b / 2:.3f}\n" for a, b in x)
    (tmp_path / "own.csv").write_text("a,b,label\n" + rows)
    own = Scenario.preset("private-table").with_overrides(
        f"workers.dataset={tmp_path}/own.csv",
        "workers.task=regression",
        "workers.input_lower=0",
        "workers.input_upper=1",
        "workers.target_lower=0",
        "workers.target_upper=2",
        "learner.model=ridge",
        "workers.norm=clip",
    )
    found = swept(own, {"privacy.epsilon": [5, 1e6]}, metrics=("scores.r2",), out=tmp_path / "out")
    assert [row.error for row in found.rows] == ["", ""]
    alone = airmixml.run(scenario_at(own, found.rows[1].point), out=tmp_path / "alone", pictures=False).to_dict()
    assert found.rows[1].metrics["scores.r2"] == alone["scores"]["r2"] > 0.9
    default = swept(own, {"privacy.epsilon": [5, 1e6]}, out=tmp_path / "out")
    assert default.metrics[:2] == ("scores.r2", "scores.rmse")
    assert default.kept == 2


# --- Python -----------------------------------------------------------------------------------------------------------


def test_a_frame_has_one_row_per_cell_and_seed(tmp_path: Path) -> None:
    frame = airmixml.sweep(
        IRIS, {"privacy.epsilon": [0.5, 5], "learner.shrinkage": [0, 1]}, seeds=3, jobs=1, out=tmp_path
    )
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 12
    assert list(frame["seed"]) == [0, 1, 2] * 4
    assert list(frame["privacy.epsilon"]) == [0.5] * 6 + [5.0] * 6
    assert (frame["mode"] == "simulation").all()
    assert (frame["error"] == "").all()
    np.testing.assert_allclose(frame["epsilon"], frame["privacy.epsilon"])
    by_cell = frame.groupby(["privacy.epsilon", "learner.shrinkage"])["accuracy.final"].mean()
    assert by_cell.shape == (4,)
    stored = json.loads((tmp_path / "sweep.json").read_text())
    means = [cell["metrics"]["accuracy.final"]["mean"] for cell in stored["cells"]]
    np.testing.assert_allclose(by_cell.to_numpy(), means, rtol=1e-12)


def test_outcomes_of_a_batch_in_parts_are_reported_one_by_one(tmp_path: Path) -> None:
    """And the share that is done grows from nothing to all."""
    told: list[int] = []
    swept(seeds=2, out=tmp_path, progress=lambda _stage, done, _total: told.append(done))
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0, 1000)
    assert {166, 333, 500, 666, 833} <= set(told)


def test_a_cell_that_is_refused_costs_none_that_shares_its_draws(tmp_path: Path) -> None:
    scenarios = [
        IRIS.with_overrides(*each)
        for each in (("privacy.epsilon=1",), ("privacy.accountant=paper-loose", "privacy.epsilon=2"))
    ]
    batch = tuple(Part(kind=RunCells(), scenarios=(each,)) for each in scenarios)
    outcomes = run_sweep([batch], tmp_path).outcomes
    assert ["error" in outcomes["run", each] for each in scenarios] == [False, True]


def test_a_grid_of_one_cell_is_a_sweep_too(tmp_path: Path) -> None:
    assert len(swept(grid={"privacy.epsilon": [1]}, out=tmp_path).rows) == 1
    with pytest.raises(ScenarioError, match="at least one key"):
        Grid.of({})
