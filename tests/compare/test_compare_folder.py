"""The folder of a comparison: what is finished stays, other settings are refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.compare import compare_methods, comparison, read_values, vary_key
from airmixml.compare.methods import METHODS
from airmixml.compare.work import Outcome, Work
from airmixml.compare.writing import write_comparison
from airmixml.errors import PrivacyError, RunFolderError

IRIS = Scenario.preset("private-iris")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which methods were run with which seed, in order."""
    made: list[tuple[str, int]] = []
    plain = comparison._timed

    def noted(work: Work, run: object) -> dict[str, object]:
        name = next((name for name, method in METHODS.items() if method.run is run), "itself")
        made.append((name, work.scenario.seed))
        return plain(work, run)  # type: ignore[arg-type]

    monkeypatch.setattr(comparison, "_timed", noted)
    return made


def test_a_deleted_result_alone_is_run_again(tmp_path: Path, runs: list[tuple[str, int]]) -> None:
    out = tmp_path / "out"
    first = compare_methods(IRIS, ["airmix", "raw"], seeds=2, out=out)
    assert len(runs) == 4
    (out / "results" / "raw-seed1.json").unlink()
    (out / "results" / "airmix-seed0.json").write_text('{"accuracy": 0.')  # as a broken disk leaves it
    (out / "results" / "raw-seed0.json").write_text('{"accuracy": 0.5}')  # as somebody leaves it
    runs.clear()
    again = compare_methods(IRIS, ["airmix", "raw"], seeds=2, out=out)
    assert sorted(runs) == [("airmix", 0), ("raw", 0), ("raw", 1)]
    assert again.kept == 1
    for before, after in zip(first.rows, again.rows, strict=True):
        assert before["accuracy"] == after["accuracy"]


def test_more_methods_and_seeds_add_to_it(tmp_path: Path, runs: list[tuple[str, int]]) -> None:
    compare_methods(IRIS, ["raw"], out=tmp_path / "out")
    runs.clear()
    compare_methods(IRIS, ["raw", "local-dp"], seeds=2, out=tmp_path / "out")
    assert sorted(runs) == [("local-dp", 0), ("local-dp", 1), ("raw", 1)]


def test_other_settings_need_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare_methods(IRIS, ["raw", "local-dp"], out=out)
    other = IRIS.with_overrides("privacy.epsilon=1")
    with pytest.raises(RunFolderError, match=r"other settings.*--force"):
        compare_methods(other, ["raw"], out=out)
    assert (out / "results" / "local-dp-seed0.json").exists()
    compare_methods(other, ["raw"], out=out, force=True)
    assert not (out / "results" / "local-dp-seed0.json").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="not made by airmix"):
        compare_methods(IRIS, ["raw"], out=tmp_path, force=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_method_that_cannot_keep_the_target_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_work: Work) -> Outcome:
        raise PrivacyError("privacy.epsilon = 5: too much to ask")

    monkeypatch.setitem(METHODS, "paper", type(METHODS["paper"])(about="", run=refuse))
    found = compare_methods(IRIS, ["paper", "raw"], out=tmp_path / "a")
    assert [row["method"] for row in found.rows] == ["raw"]
    assert found.left_out == {"paper": "privacy.epsilon = 5: too much to ask"}
    with pytest.raises(PrivacyError, match="too much"):
        compare_methods(IRIS, ["paper", "raw"], out=tmp_path / "b", may_fail=False)


def test_files_hold_what_the_rows_say(tmp_path: Path) -> None:
    found = compare_methods(IRIS, ["airmix", "raw"], left_out={"dp-sgd": "not there"}, seeds=2, out=tmp_path / "out")
    files = {path.name for path in write_comparison(found)}
    assert files == {f"compare.{suffix}" for suffix in ("md", "csv", "tex", "json", "png", "svg")}
    assert all((tmp_path / "out" / name).stat().st_size for name in files)
    rows = json.loads((tmp_path / "out" / "compare.json").read_text())["rows"]
    with (tmp_path / "out" / "compare.csv").open() as file:
        lines = list(csv.DictReader(file))
    for row, line in zip(rows, lines, strict=True):
        assert row["method"] == line["method"]
        assert float(line["accuracy"]) == sum(row["accuracy"]["by_seed"]) / 2
        assert float(line["epsilon"]) == row["privacy"][0]["epsilon"]
        assert float(line["energy_joules"]) == row["energy_joules"]
    text = (tmp_path / "out" / "compare.md").read_text()
    assert "left out: dp-sgd (not there)" in text
    assert f"{100 * rows[0]['accuracy']['mean']:.2f} ±" in text


def test_values_of_a_key_with_analog_last(tmp_path: Path) -> None:
    key, scenarios = read_values("workers.bits=0,2,6", IRIS)
    assert list(scenarios) == ["2", "6", "0"]
    assert [each.workers.bits for each in scenarios.values()] == [2, 6, 0]
    found = vary_key(IRIS, key, scenarios, out=tmp_path / "out")
    assert [row["shown"] for row in found.rows] == ["2", "6", "analog"]
    write_comparison(found)
    assert "| analog |" in (tmp_path / "out" / "compare.md").read_text()
    more = vary_key(IRIS, *read_values("workers.bits=2,3,0", IRIS), out=tmp_path / "out")
    assert more.kept == 2


def test_epsilon_follows_its_values(tmp_path: Path) -> None:
    found = vary_key(IRIS, *read_values("privacy.epsilon=0.5,2", IRIS), out=tmp_path / "out")
    assert [row["privacy"][0]["epsilon"] for row in found.rows] == pytest.approx([0.5, 2.0], rel=1e-6)
    energies = [row["energy_joules"] for row in found.rows]
    assert energies[0] < energies[1]
