"""Run folders: whole or not there, never two writers, never somebody else's files."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import airmixml
from airmixml import RunFolderError, Scenario, ScenarioError, load_metrics
from airmixml.progress import Progress
from airmixml.storage import folders
from airmixml.storage.folders import claim, claim_folder

run = partial(airmixml.run, pictures=False, checkpoint_seconds=0.0)  # a small run takes a fraction of a second

StopAt = Callable[[int], Progress]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def during_training(action: Callable[[], object]) -> Progress:
    """Return a progress callable that calls the action once, in the midst of a run."""
    calls = []

    def progress(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("training", 3) and not calls:
            calls.append(1)
            action()

    return progress


def test_two_runs_at_once_write_two_folders(small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results: list[Any] = []
    results.append(run(small, progress=during_training(lambda: results.append(run(small)))))
    second, first = results
    assert (first.run_dir, second.run_dir) == ("runs/paper-iris-seed0", "runs/paper-iris-seed0-2")
    assert names(tmp_path / "runs") == ["paper-iris-seed0", "paper-iris-seed0-2"]
    curves = [(tmp_path / each.run_dir / "learning_curve.csv").read_bytes() for each in (first, second)]
    assert curves[0] == curves[1]


def test_two_runs_at_once_do_not_write_the_same_folder(small: Scenario, tmp_path: Path) -> None:
    def again() -> None:
        for force in (False, True):
            with pytest.raises(RunFolderError, match=r"here\.partial: another process is writing it"):
                run(small, out=tmp_path / "here", force=force)

    run(small, out=tmp_path / "here", progress=during_training(again))
    assert names(tmp_path) == ["here"]


def test_finished_runs_are_never_overwritten(small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = [run(small).run_dir for _ in range(3)] + [run(small, seeds=2).run_dir]
    expected = ["paper-iris-seed0", "paper-iris-seed0-2", "paper-iris-seed0-3", "paper-iris-seed0-x2"]
    assert places == [f"runs/{name}" for name in expected]
    assert names(tmp_path / "runs") == expected


def test_an_interrupted_run_of_another_scenario_is_refused(
    small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(stopped):
        run(small, out=tmp_path / "here", progress=stop_at(4))
    other = small.with_seed(1)
    with pytest.raises(RunFolderError) as caught:
        run(other, out=tmp_path / "here")
    assert "here.partial: holds an interrupted run with other settings" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(RunFolderError, match="interrupted run with other settings"):
        run(small, seeds=2, out=tmp_path / "here")
    assert run(other, out=tmp_path / "here", force=True).resumed_from_epoch == 0
    assert load_metrics(tmp_path / "here")["seed"] == 1


def test_an_interrupted_run_is_found_again_behind_a_finished_one(
    small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(small)
    with pytest.raises(stopped):
        run(small, progress=stop_at(4))
    metrics = run(small)
    assert (metrics.run_dir, metrics.resumed_from_epoch) == ("runs/paper-iris-seed0-2", 4)


def test_force_replaces_a_run_and_touches_nothing_beside_it(small: Scenario, tmp_path: Path) -> None:
    run(small, out=tmp_path / "here")
    for beside in ("here.old", "here.bak", "here.partial.old"):
        (tmp_path / beside).mkdir()
        (tmp_path / beside / "precious").write_text("mine")
    run(small.with_seed(1), out=tmp_path / "here", force=True)
    assert load_metrics(tmp_path / "here")["seed"] == 1
    assert names(tmp_path) == ["here", "here.bak", "here.old", "here.partial.old"]
    assert (tmp_path / "here.old" / "precious").read_text() == "mine"


def test_a_plain_run_touches_nothing_beside_it(small: Scenario, tmp_path: Path) -> None:
    (tmp_path / "here.old").mkdir()
    (tmp_path / "here.old" / "precious").write_text("mine")
    run(small, out=tmp_path / "here")
    assert (tmp_path / "here.old" / "precious").read_text() == "mine"


def test_the_old_run_stays_until_the_new_one_is_whole(
    small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    run(small, out=tmp_path / "here")
    with pytest.raises(stopped):
        run(small.with_seed(1), out=tmp_path / "here", force=True, progress=stop_at(4))
    assert load_metrics(tmp_path / "here")["seed"] == 0
    assert run(small.with_seed(1), out=tmp_path / "here", force=True).resumed_from_epoch == 4


def test_a_claim_that_begins_nothing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with claim_folder(tmp_path / "a" / "b" / "c", {"scenario": 1}) as folder:
        assert folder.work.is_dir()
    assert names(tmp_path) == []
    monkeypatch.setattr(folders, "RUNS_FOLDER", tmp_path / "runs")
    with claim(None, "name", {"scenario": 1}, force=False):
        pass
    assert names(tmp_path) == []


def test_a_claim_that_began_something_keeps_it_for_the_same_run_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "RUNS_FOLDER", tmp_path)
    identity = {"scenario": 1}
    with claim_folder(tmp_path / "here", identity) as folder:
        (folder.work / "begun.txt").write_text("x")
    with claim_folder(tmp_path / "here", identity) as folder:
        assert (folder.work / "begun.txt").read_text() == "x"
    with claim(None, "here", {"scenario": 2}, force=False) as folder:
        assert folder.final.name == "here-2"
    with pytest.raises(RunFolderError), claim_folder(tmp_path / "here", {"scenario": 2}):
        pass
    assert names(tmp_path) == ["here.partial"]


def test_a_run_killed_before_it_began_anything_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "here.partial").mkdir()
    (tmp_path / "here.partial" / "identity.json").write_text('{"scenario": 2}')
    with claim_folder(tmp_path / "here", {"scenario": 1}) as folder:
        (folder.work / "begun.txt").write_text("x")
        folder.publish()
    assert names(tmp_path / "here") == ["begun.txt"]


def test_the_lock_is_held_until_the_last_trace_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next process could claim the folder and have it deleted under its feet."""
    remove, tried = Path.unlink, []

    def claim_first(path: Path, missing_ok: bool = False) -> None:
        if not tried:
            tried.append(path.name)
            again = claim_folder(tmp_path / "here", {"scenario": 1})
            with pytest.raises(RunFolderError, match="another process"), again:
                pass
        remove(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", claim_first)
    with claim_folder(tmp_path / "here", {"scenario": 1}):
        pass
    assert tried == ["identity.json"]
    assert names(tmp_path) == []


def test_a_run_that_cannot_get_its_name_is_found_again(
    small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: Path, _target: Path) -> Path:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(RunFolderError, match="Input/output error"):
            run(small, out=tmp_path / "here")
    assert names(tmp_path) == ["here.partial"]
    assert run(small, out=tmp_path / "here").resumed_from_epoch == 6


@pytest.mark.parametrize("damaged", [b"\xff\xfe", b"", b"{", b"[]"])
def test_a_folder_with_a_damaged_identity_is_nobodys_to_remove(tmp_path: Path, damaged: bytes) -> None:
    with claim_folder(tmp_path / "here", {"scenario": 1}) as folder:
        (folder.work / "begun.txt").write_text("x")
    (tmp_path / "here.partial" / "identity.json").write_bytes(damaged)
    for force in (False, True):
        again = claim_folder(tmp_path / "here", {"scenario": 1}, force=force)
        with pytest.raises(RunFolderError, match="not made by airmix"), again:
            pass
    assert names(tmp_path / "here.partial") == ["begun.txt", "identity.json"]


def test_paths_may_be_plain_text(small: Scenario, tmp_path: Path) -> None:
    metrics = run(small, out=str(tmp_path / "here")).to_dict()
    assert load_metrics(str(tmp_path / "here")) == metrics == json.loads((tmp_path / "here/metrics.json").read_text())


def test_what_airmix_did_not_make_is_never_deleted(small: Scenario, tmp_path: Path) -> None:
    (tmp_path / "here.partial").mkdir()
    (tmp_path / "here.partial" / "mine").write_text("x")
    for force in (False, True):
        with pytest.raises(RunFolderError, match="not made by airmix"):
            run(small, out=tmp_path / "here", force=force)
    assert names(tmp_path / "here.partial") == ["mine"]


def test_a_dangling_link_is_in_the_way(small: Scenario, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match="exists and is not a run folder"):
        run(small, out=tmp_path / "here")
    assert names(tmp_path) == ["here"]


def test_what_the_air_refuses_is_refused_before_data_are_read(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    digital = Scenario.preset("trustless-mnist-digital")
    where = {"out": tmp_path / "run", "data_dir": tmp_path / "none"}  # no file is there, which would be said
    for private in (False, True):
        with pytest.raises(ScenarioError, match=r"privacy\.most_absent = 0\.06.* must be at least 0\.11"):
            run(digital.on_air("low-cost"), private=private, **where)
    assert not (tmp_path / "run").exists()
