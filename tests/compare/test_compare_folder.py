"""The folder of a comparison: what is finished stays, other settings are refused."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.compare import Method, Outcome, Work, compare_methods, load_methods
from airmixml.compare.comparison_page import write_comparison
from airmixml.messages import PluginError, PrivacyError, RunFolderError

IRIS = Scenario.preset("private-iris")


class Noted(Method):
    """A method of the package that writes down with which seeds it is run."""

    def __init__(self, name: str, runs: list[tuple[str, int]]) -> None:
        (self._method,) = load_methods(name).values()
        self.about, self._name, self._runs = self._method.about, name, runs

    def run(self, work: Work) -> Outcome:
        self._runs.append((self._name, work.scenario.seed))
        return self._method.run(work)


def noted(runs: list[tuple[str, int]], *names: str) -> dict[str, Method]:
    return {name: Noted(name, runs) for name in names}


def test_a_deleted_result_alone_is_run_again(tmp_path: Path) -> None:
    out, runs = tmp_path / "out", list[tuple[str, int]]()
    methods = noted(runs, "airmix", "raw")
    first = compare_methods(IRIS, methods, seeds=2, out=out)
    assert len(runs) == 4
    (out / "results" / "raw-seed1.json").unlink()
    (out / "results" / "airmix-seed0.json").write_text('{"accuracy": 0.')  # as a broken disk leaves it
    (out / "results" / "raw-seed0.json").write_text('{"accuracy": 0.5}')  # as somebody leaves it
    runs.clear()
    again = compare_methods(IRIS, methods, seeds=2, out=out)
    assert sorted(runs) == [("airmix", 0), ("raw", 0), ("raw", 1)]
    assert again.kept == 1
    for before, after in zip(first.rows, again.rows, strict=True):
        assert before.accuracies == after.accuracies


def test_more_methods_and_seeds_add_to_it(tmp_path: Path) -> None:
    runs = list[tuple[str, int]]()
    compare_methods(IRIS, noted([], "raw"), out=tmp_path / "out")
    compare_methods(IRIS, noted(runs, "raw", "local-dp"), seeds=2, out=tmp_path / "out")
    assert sorted(runs) == [("local-dp", 0), ("local-dp", 1), ("raw", 1)]


def test_other_settings_need_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare_methods(IRIS, load_methods("raw", "local-dp"), out=out)
    other = IRIS.with_overrides("privacy.epsilon=1")
    with pytest.raises(RunFolderError, match=r"other settings.*--force"):
        compare_methods(other, load_methods("raw"), out=out)
    assert (out / "results" / "local-dp-seed0.json").exists()
    compare_methods(other, load_methods("raw"), out=out, force=True)
    assert not (out / "results" / "local-dp-seed0.json").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="not made by airmix"):
        compare_methods(IRIS, load_methods("raw"), out=tmp_path, force=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


class Refusing(Method):
    about = "cannot keep any target"

    def run(self, work: Work) -> Outcome:
        raise PrivacyError("privacy.epsilon = 5: too much to ask")


def test_if_a_method_cannot_keep_the_target_the_others_still_run(tmp_path: Path) -> None:
    methods = {"mine": Refusing(), **load_methods("raw")}
    found = compare_methods(IRIS, methods, out=tmp_path / "a")
    assert [row.name for row in found.rows] == ["raw"]
    assert found.left_out == {"mine": "privacy.epsilon = 5: too much to ask"}
    with pytest.raises(PrivacyError, match="too much"):
        compare_methods(IRIS, methods, out=tmp_path / "b", may_fail=False)


class Careless(Method):
    about = "gives an accuracy alone"

    def run(self, work: Work) -> Outcome:
        return 0.5  # type: ignore[return-value]


def test_a_method_of_another_package_that_gives_no_outcome(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"method mine: gave 0\.5: must be an airmixml\.compare\.Outcome"):
        compare_methods(IRIS, {"mine": Careless()}, out=tmp_path / "out", may_fail=False)


def test_an_outcome_without_a_guarantee_or_with_percent_is_refused() -> None:
    outcome = load_methods("raw")["raw"].run(Work(scenario=IRIS))
    for accuracy in (0.5, 50.0):
        with pytest.raises(ValueError, match="accuracy between 0 and 1 and at least one privacy statement"):
            replace(outcome, accuracy=accuracy, privacy=())


def test_files_hold_what_the_rows_say(tmp_path: Path) -> None:
    found = compare_methods(
        IRIS, load_methods("airmix", "raw"), left_out={"dp-sgd": "not there"}, seeds=2, out=tmp_path / "out"
    )
    files = {path.name for path in write_comparison(found.to_dict(), IRIS, found.out)}
    assert files == {f"compare.{suffix}" for suffix in ("md", "csv", "json", "png", "svg")}
    assert all((tmp_path / "out" / name).stat().st_size for name in files)
    rows = json.loads((tmp_path / "out" / "compare.json").read_text())["rows"]
    with (tmp_path / "out" / "compare.csv").open() as file:
        lines = list(csv.DictReader(file))
    for row, line in zip(rows, lines, strict=True):
        assert row["method"] == line["method"]
        assert float(line["accuracy.mean"]) == sum(row["accuracy"]["by_seed"]) / 2
        assert float(line["privacy.epsilon"]) == row["privacy"][0]["epsilon"]
        assert float(line["energy_joules"]) == row["energy_joules"]
    text = (tmp_path / "out" / "compare.md").read_text()
    assert "left out: dp-sgd (not there)" in text
    assert "Epsilon against each adversary" in text
    assert f"{100 * rows[0]['accuracy']['mean']:.2f} ±" in text


def test_a_scenario_that_no_method_can_run_is_refused_in_one_line(
    airmix: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    wrong = ("--set", "workers.input_lower=[0, 0]", "--set", "workers.input_upper=[1, 1]")
    done = airmix("compare", "--preset", "private-iris", *wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("airmix: error: workers.input_lower has 2 values")
    assert list(tmp_path.iterdir()) == []
