"""What is no regular file is refused in one line wherever a file is read: a pipe never ends, nor does /dev/zero."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")

Refused = Callable[..., str]
HANGS_AFTER_SECONDS = 60  # a refusal takes a moment; this only ends a test that would never end


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """Fail a test that waits for a pipe."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail("waits for a pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANGS_AFTER_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as heard, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # the name of a socket is at most 108 bytes long
        heard.bind(path.name)


KINDS = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "socket": a_socket,
}


@pytest.fixture(params=KINDS)
def put(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """Put something there that is no file, whatever was there."""

    def put(path: Path) -> Path:
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        KINDS[request.param](path)
        return path

    return put


@pytest.fixture
def run_folder(small_run: tuple[object, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run[1] / "runs" / "paper-iris-seed7", tmp_path / "run"))


Put = Callable[[Path], Path]


@pytest.mark.parametrize("name", ["data.csv", "data.npz"])
def test_data(name: str, put: Put, tmp_path: Path, run_folder: Path, refused: Refused) -> None:
    path = put(tmp_path / name)
    for command in (
        ("predict", run_folder, path),
        ("run", "--preset", "private-table", "--set", f"workers.dataset={path}"),
        ("plan", "--preset", "private-table", "--set", f"workers.dataset={path}"),
    ):
        assert f"{name}: cannot be read (" in refused(*command)
    init = "data.csv: cannot be read (" if name == "data.csv" else "data.npz: must be a .csv or .tsv file"
    assert init in refused("init", path)


def test_scenarios_and_bounds(put: Put, tmp_path: Path, refused: Refused) -> None:
    path = put(tmp_path / "mine.toml")
    assert "mine.toml: cannot be read (" in refused("run", path)
    assert "mine.toml: cannot be read (" in refused("account", "--preset", "private-table", "--bounds", path)


def test_encoders(put: Put, tmp_path: Path, refused: Refused) -> None:
    put(tmp_path / "net.onnx")
    assert "cannot be read (" in refused("run", "--preset", "private-iris", "--set", "workers.encoder=onnx:net.onnx")


@pytest.mark.parametrize("name", ["metrics.json", "scenario.toml", "model.npz"])
def test_the_files_that_a_model_is_made_of(
    name: str, put: Put, run_folder: Path, tmp_path: Path, refused: Refused
) -> None:
    put(run_folder / name)
    (tmp_path / "rows.csv").write_text("a,b,c,d\n1,2,3,4\n", encoding="utf-8")
    assert name in refused("predict", run_folder, "rows.csv")
    assert name in refused("export", run_folder)


@pytest.mark.parametrize("name", ["metrics.json", "scenario.toml", "learning_curve.csv"])
def test_the_files_that_a_report_is_made_of(name: str, put: Put, run_folder: Path, refused: Refused) -> None:
    put(run_folder / name)
    assert name in refused("report", run_folder)


def test_a_report_that_is_no_file_is_not_replaced(put: Put, run_folder: Path, refused: Refused) -> None:
    path = put(run_folder / "report.html")
    assert "report.html" in refused("report", run_folder)
    assert not path.is_file()
