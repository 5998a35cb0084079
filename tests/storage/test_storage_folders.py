"""Folders: nothing of a user's is removed, emptied or overwritten, and a killed --force is put right."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import airmixml
from airmixml import RunFolderError, Scenario, arrays
from airmixml.compare import Method, Outcome, Work, compare_methods, load_methods
from airmixml.files import locked, write_text, write_together, writing_to
from airmixml.messages import PrivacyError
from airmixml.runs import run
from airmixml.storage import folders
from airmixml.storage.folders import claim, claim_folder
from airmixml.sweeps import run_sweep

IDENTITY = {"scenario": 1}
IRIS = Scenario.preset("private-iris")


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every entry with its content, links and folders without."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "files",
    [
        ("thesis.tmp",),
        ("thesis.tmp", ".lock"),
        (".lock",),
        ("identity.json", "thesis.tmp"),
        (".model.npz.0123abcd.tmp", ".lock"),
    ],
    ids=" ".join,
)
def test_a_refused_folder_is_not_touched(files: tuple[str, ...], force: bool, tmp_path: Path) -> None:
    for folder in ("o.partial", "compared"):
        (tmp_path / folder).mkdir()
        for name in files:
            (tmp_path / folder / name).write_text("years of work")
    before = tree(tmp_path)
    again = claim_folder(tmp_path / "o", IDENTITY, force=force)
    with pytest.raises(RunFolderError, match="not made by airmix"), again:
        pass
    with pytest.raises(RunFolderError, match="not made by airmix"):
        compare_methods(IRIS, load_methods("raw"), out=tmp_path / "compared", force=force)
    assert tree(tmp_path) == before


def test_a_comparison_removes_only_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare_methods(IRIS, load_methods("raw"), out=out)
    mine = {"thesis.tmp", "notes.md", "results.txt"}
    for name in mine:
        (out / name).write_text("mine")
    (out / "results" / "thesis.tmp").write_text("mine")
    half = out / "results" / ".raw-seed0.json.0123abcd.airmix-unfinished"
    half.write_text("{")
    compare_methods(IRIS, load_methods("raw"), out=out)
    assert not half.exists()
    assert (out / "results" / "thesis.tmp").read_text() == "mine"
    (out / "results" / "thesis.tmp").unlink()
    compare_methods(IRIS.with_overrides("privacy.epsilon=1"), load_methods("local-dp"), out=out, force=True)
    assert {path.name for path in out.iterdir()} == {*mine, "identity.json", "results"}
    assert [path.name for path in (out / "results").iterdir()] == ["local-dp-seed0.json"]


def test_a_comparison_keeps_out_of_interrupted_runs(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "here", IDENTITY) as folder:
        (folder.work / "begun").write_text("x")
    before = tree(tmp_path)
    with pytest.raises(RunFolderError, match=r"does not end in \.partial"):
        compare_methods(IRIS, load_methods("raw"), out=tmp_path / "here.partial", force=True)
    assert tree(tmp_path) == before


class Refuses(Method):
    about = "refuses"

    def run(self, work: Work) -> Outcome:
        raise PrivacyError("privacy.epsilon = 5: too much to ask")


def test_a_refused_comparison_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="too much"):
        compare_methods(IRIS, {"refuses": Refuses()}, out=tmp_path / "a" / "b", may_fail=False)
    assert tree(tmp_path) == {}
    (tmp_path / "mine").mkdir()
    with pytest.raises(PrivacyError, match="too much"):
        compare_methods(IRIS, {"refuses": Refuses()}, out=tmp_path / "mine", may_fail=False)
    assert tree(tmp_path) == {"mine": None}


def test_a_link_in_the_place_of_the_lock_is_neither_followed_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for name, target in (("o.partial", "thesis.tex"), ("swept", "thesis.tex"), ("new.partial", "nowhere")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".lock").symlink_to(tmp_path / target)
    before = tree(tmp_path)
    for name in ("o", "new"):
        with pytest.raises(RunFolderError, match=r"\.lock: must be a plain file"), claim_folder(tmp_path / name, {}):
            pass
    with pytest.raises(RunFolderError, match=r"\.lock: must be a plain file"):
        run_sweep([], tmp_path / "swept")
    assert tree(tmp_path) == before


def test_a_lock_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("mine")
    with locked(tmp_path), pytest.raises(RunFolderError, match="another process is writing it"), locked(tmp_path):
        pass
    assert tree(tmp_path) == {".lock": b"mine"}


def replace_and_die(final: Path, calls: int) -> int:
    """Replace a run folder in a process that dies after so many of the calls that change something."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = iter(range(calls))

    def dies_after(real: Any) -> Any:
        return lambda *arguments, **options: os._exit(9) if next(left, None) is None else real(*arguments, **options)

    try:
        with claim_folder(final, {"scenario": "new"}, force=True) as folder:
            for name in ("metrics.json", "scenario.toml", "model"):
                (folder.work / name).write_text("new")
            for name in ("mkdir", "rename", "unlink", "rmdir"):
                setattr(os, name, dies_after(getattr(os, name)))
            folder.publish(replace=True, leave_out=("model",))
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("calls", range(10))
def test_a_kill_inside_the_replacing_of_a_run_is_put_right(calls: int, tmp_path: Path) -> None:
    """The next command on the folder finds the old run whole or the new one, and nothing beside it."""
    final = tmp_path / "o"
    with claim_folder(final, IDENTITY) as folder:
        (folder.work / "metrics.json").write_text("old")
        (folder.work / "scenario.toml").write_text("old")
        folder.publish()
    assert replace_and_die(final, calls) in (0, 9)
    with pytest.raises(RunFolderError, match=r"o: exists already"), claim_folder(final, {"scenario": "new"}):
        pass
    assert {path.name for path in tmp_path.iterdir()} <= {"o", "o.partial"}
    metrics = (final / "metrics.json").read_text()
    if metrics == "old":
        assert {path.name for path in final.iterdir()} == {"metrics.json", "scenario.toml"}
        with claim_folder(final, {"scenario": "new"}, force=True) as folder:
            assert (folder.work / "metrics.json").read_text() == "new"  # what was made is still there
            folder.publish(replace=True)
    assert (final / "metrics.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


@pytest.mark.parametrize("force", [False, True])
def test_metrics_alone_make_no_run_folder(force: bool, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "metrics.json").write_text("of another program")
    again = claim_folder(tmp_path / "o", IDENTITY, force=force)
    with pytest.raises(RunFolderError, match="exists and is not a run folder"), again:
        pass
    assert tree(tmp_path) == {"o": None, "o/metrics.json": b"of another program"}


def test_the_target_of_a_link_that_is_replaced_stays_whole(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "run", IDENTITY) as folder:
        for name in ("metrics.json", "scenario.toml"):
            (folder.work / name).write_text("old")
        folder.publish()
    (tmp_path / "o").symlink_to(tmp_path / "run")
    with claim_folder(tmp_path / "o", IDENTITY, force=True) as folder:
        (folder.work / "begun").write_text("new")
        folder.publish(replace=True)
    assert not (tmp_path / "o").is_symlink()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"metrics.json", "scenario.toml"}


def test_kills_fall_before_and_after_the_new_run_is_in_place(tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    found = set()
    for calls in range(10):
        final = tmp_path / str(calls)
        with claim_folder(final, IDENTITY) as folder:
            (folder.work / "metrics.json").write_text("old")
            (folder.work / "scenario.toml").write_text("old")
            folder.publish()
        replace_and_die(final, calls)
        left = any(path.name.startswith(f".{calls}.replaced-") for path in tmp_path.iterdir())
        found.add((final.exists(), left))
    assert found == {(True, False), (True, True), (False, True)}


def test_the_free_name_of_a_run_that_was_being_replaced_is_not_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "RUNS_FOLDER", tmp_path)
    (tmp_path / ".o.replaced-abcd1234" / "o").mkdir(parents=True)
    (tmp_path / ".o.replaced-abcd1234" / "o" / "metrics.json").write_text("old")
    with claim(None, "o", IDENTITY, force=False) as folder:
        assert folder.final.name == "o-2"
    assert tree(tmp_path) == {"o": None, "o/metrics.json": b"old"}


@pytest.mark.parametrize("name", [".o.replaced-mine", ".other.replaced-abcd1234", ".o.replaced-abcd1234"])
def test_recovery_takes_nobody_elses_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").write_text("mine")
    with claim_folder(tmp_path / "o", IDENTITY):
        pass
    assert tree(tmp_path) == {name: None, f"{name}/thesis.tex": b"mine"}


def test_a_process_that_is_replacing_is_not_recovered_from(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "o", IDENTITY):
        (tmp_path / ".o.replaced-abcd1234" / "o").mkdir(parents=True)
        (tmp_path / ".o.replaced-abcd1234" / "o" / "metrics.json").write_text("old")
        with pytest.raises(RunFolderError, match="another process is writing it"), claim_folder(tmp_path / "o", {}):
            pass
        assert not (tmp_path / "o").exists()


def test_a_file_where_a_folder_should_be(small: Scenario, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "o.partial").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(RunFolderError, match=r"file/below.*: is a file or lies in one"):
        run(small, out=tmp_path / "file" / "below" / "o")
    with pytest.raises(RunFolderError, match="file: is not a folder"):
        compare_methods(IRIS, load_methods("raw"), out=tmp_path / "file")
    with pytest.raises(RunFolderError, match=r"o\.partial: is not a folder"):
        run(small, out=tmp_path / "o")
    assert tree(tmp_path) == before


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(small: Scenario, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(RunFolderError, match=r"locked.*: cannot be written \(Permission denied\)"):
        run(small, out=tmp_path / "locked" / "a" / "o")
    assert tree(tmp_path) == {"locked": None}


def test_a_file_that_does_not_fit_leaves_the_old_one(disk_full_after: object, tmp_path: Path) -> None:
    write_text(tmp_path / "table.md", "old")
    with (
        disk_full_after(0),  # type: ignore[operator]
        pytest.raises(
            RunFolderError, match=r"cannot be written \(No space left on device\); free space or .* --picture"
        ),
        writing_to(tmp_path, option="--picture"),
    ):
        write_text(tmp_path / "table.md", "new")
    assert tree(tmp_path) == {"table.md": b"old"}


def test_files_that_belong_together_are_all_written_or_none(disk_full_after: object, tmp_path: Path) -> None:
    contents = {tmp_path / name: b"new" for name in ("sweep.md", "sweep.json", "sweep.png")}
    write_text(tmp_path / "sweep.md", "old")
    with disk_full_after(2), pytest.raises(OSError, match="No space left"):  # type: ignore[operator]
        write_together(contents)
    assert tree(tmp_path) == {"sweep.md": b"old"}
    write_together(contents)
    assert set(tree(tmp_path).values()) == {b"new"}


def test_nothing_that_windows_lacks_is_imported() -> None:
    lacking = re.compile(r"^\s*(import|from) (fcntl|resource|pwd|grp|termios)\b", re.MULTILINE)
    for file in Path(airmixml.__file__).parent.rglob("*.py"):
        assert not lacking.search(file.read_text(encoding="utf-8")), file


def test_a_system_that_does_not_tell_its_memory_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arrays.physical_memory_bytes() > 100_000_000
    monkeypatch.delattr(os, "sysconf")
    assert arrays.physical_memory_bytes() > 10**15


def test_a_file_of_the_user_in_a_run_folder_is_never_replaced(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-iris")
    run(scenario, out=tmp_path / "here", pictures=False)
    (tmp_path / "here" / "notes.txt").write_text("mine")
    with pytest.raises(
        RunFolderError, match=r"here: holds notes\.txt, which is not airmix's; move it or choose another"
    ):
        run(scenario, out=tmp_path / "here", force=True, pictures=False)
    assert (tmp_path / "here" / "notes.txt").read_text() == "mine"
    (tmp_path / "here" / "notes.txt").unlink()
    run(scenario, out=tmp_path / "here", force=True, pictures=False)
