"""What can no longer be said changes neither the work nor the exit code, which tells what became of the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airmixml.cli.main import take_streams

RUN = "run --preset paper-iris --set radio.slots=50 --set learner.epochs=2 --out here"
MISTAKE = "show nosuch"
LOST = ["2>&-", pytest.param("2>/dev/full", marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="none"))]


def shell(arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m airmixml {arguments}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


@pytest.mark.parametrize("lost", LOST)
def test_a_mistake_is_a_mistake_without_stderr(lost: str, tmp_path: Path) -> None:
    assert shell(f"{MISTAKE} {lost}", tmp_path).returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_remarks_are_lost_where_stderr_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        take_streams()
        sys.stderr.write("a line of progress\n")
        sys.stderr.flush()
        sys.stderr.write("another\n")
        assert sys.stderr is not full


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_a_run_is_done_without_stderr(tmp_path: Path) -> None:
    """A line of progress after each step has nowhere to go."""
    done = shell(f"{RUN} --json 2>/dev/full", tmp_path, AIRMIX_PROGRESS_SECONDS="1e-9")
    assert (done.returncode, json.loads(done.stdout)["run_dir"]) == (0, "here")


@pytest.mark.long
def test_a_reader_of_stderr_that_goes_away_ends_nothing(tmp_path: Path) -> None:
    done = shell(f"{RUN} --json 2> >(true)", tmp_path, AIRMIX_PROGRESS_SECONDS="1e-9")
    assert (done.returncode, json.loads(done.stdout)["run_dir"]) == (0, "here")


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """Else what a library writes to stdout or stderr would end up in it."""
    code = (
        "import os, sys; from airmixml.cli.main import take_streams; take_streams(); "
        "file = os.open('first', os.O_CREAT | os.O_WRONLY); sys.stdout.write('x'); sys.stderr.write('x'); "
        "sys.stdout.flush(); os.write(file, str(file).encode())"
    )
    subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" <&- >&- 2>&-'], check=True, cwd=tmp_path)
    assert int((tmp_path / "first").read_text()) > 2


@pytest.mark.long
def test_without_any_stream_the_folder_is_the_same(tmp_path: Path) -> None:
    assert shell(f"{RUN} <&- >&- 2>&-", tmp_path, AIRMIX_PROGRESS_SECONDS="1e-9").returncode == 0
    assert json.loads((tmp_path / "here" / "metrics.json").read_text(encoding="utf-8"))["run_dir"] == "here"


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_a_result_that_cannot_be_printed_is_told_and_kept(tmp_path: Path) -> None:
    done = shell(f"{RUN} >/dev/full", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (tmp_path / "here" / "metrics.json").is_file()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_only_a_failing_stdout_is_called_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    """And not a library that cannot be loaded, of which no space on a disk helps."""
    full = shell("--version >/dev/full", tmp_path)
    assert full.returncode == 2
    assert full.stderr.startswith("airmix: error: the output cannot be written (")
    (tmp_path / "torch.py").write_text('raise OSError("libcudnn.so.9: cannot open shared object file")\n')
    (tmp_path / "work").mkdir()
    broken = shell(f"{RUN}", tmp_path / "work", PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert broken.returncode == 2
    assert broken.stderr == "airmix: error: libcudnn.so.9: cannot open shared object file\n"


@pytest.mark.long
def test_a_terminal_that_does_not_know_its_width_gets_the_whole_text(tmp_path: Path) -> None:
    told = [shell("presets", tmp_path, COLUMNS=columns).stdout for columns in ("0", "80")]
    assert told[0] == told[1] != ""


def test_a_current_directory_that_is_gone_is_one_line(tmp_path: Path) -> None:
    """Libraries look for their parts from there, and end the process with a word of their own."""
    (tmp_path / "gone").mkdir()
    done = shell(f"--version && rmdir {tmp_path / 'gone'} && {sys.executable} -m airmixml {RUN}", tmp_path / "gone")
    assert done.returncode == 2
    assert done.stderr == "airmix: error: the current directory was removed; change to another one\n"
