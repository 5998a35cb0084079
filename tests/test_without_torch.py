"""What works where torch is not installed: real processes in which no finder finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airmixml import Scenario, run

ABSENT = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def without(cls, name, *rest):
    return None if name.split(".")[0] == "torch" else found(name, *rest)
PathFinder.find_spec = classmethod(without)
from airmixml.cli.main import main
sys.argv[0] = "airmix"
main()
"""
THERE = "from airmixml.cli.main import main; main()"
HEADER = "sepal length (cm),sepal width (cm),petal length (cm),petal width (cm)"


def without_torch(folder: Path, *words: str, start: str = ABSENT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", start, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run(Scenario.preset("private-iris"), out=folder / "iris", pictures=False)
    (folder / "rows.csv").write_text(f"{HEADER}\n5,3,1.4,0.2\n6.5,3,5.5,2\n5.9,2.8,4.5,1.4\n")
    return folder


COMMANDS = (
    "account --workers 2000 --scheduled 8 --slots 100 --noise-multiplier 2 --no-picture",
    "show private-iris",
    "presets",
    "airs",
    "data list",
    "plugins",
    "init rows.csv --out first.toml",
    "report iris",
    "ledger create people.sqlite --workers 10 --people sensors --epsilon 1 --delta 1e-5",
    "ledger --help",
)


def test_commands_that_need_no_torch(finished: Path) -> None:
    one_by_one = (
        "lines, sys.argv[1:] = sys.argv[1:], []\n"
        "for line in lines:\n"
        "    sys.argv[1:] = line.split()\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as ended:\n"
        "        assert not ended.code, (line, ended.code)\n"
        "    print('=== done')\n"
    )
    done = without_torch(finished, *COMMANDS, start=ABSENT.replace("\nmain()\n", f"\n{one_by_one}"))
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("=== done\n")
    assert len(printed) == len(COMMANDS) + 1
    assert all(printed[:-1])


@pytest.mark.parametrize("command", ["run --preset private-iris", "predict iris rows.csv"])
def test_other_commands_say_in_one_line_what_they_need(finished: Path, command: str) -> None:
    done = without_torch(finished, *command.split())
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"airmix {command.split(maxsplit=1)[0]} needs PyTorch" in line
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in line
    assert not (finished / "runs").exists()


@pytest.mark.parametrize(
    ("command", "lacks", "extra"),
    [
        ("deploy init --preset trustless-wine", "cryptography", "deploy"),
        ("deploy up", "cryptography", "deploy"),
        ("worker --data rows.csv --id worker-0", "paho", "deploy"),
        ("air deployment", "zmq", "deploy"),
        ("explore --no-browser", "starlette", "explore"),
        ("explore --no-browser", "uvicorn", "explore"),
    ],
)
def test_commands_without_their_extra_say_so_in_one_line(tmp_path: Path, command: str, lacks: str, extra: str) -> None:
    done = without_torch(tmp_path, *command.split(), start=ABSENT.replace('"torch"', f'"{lacks}"'))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    name = command.split(maxsplit=1)[0]
    assert line.endswith(f"airmix {name} needs the package {lacks}; pip install 'airmixml[{extra}]'")
    assert not list(tmp_path.iterdir())
