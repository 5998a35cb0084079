"""What works where torch is not installed: real processes in which no finder finds it."""

from __future__ import annotations

import json
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


WITH_NUMPY_TENSORS = (
    "account --preset private-iris --no-picture",
    "account --preset private-iris --no-picture --json",
    "account --preset paper-iris --no-picture --ledger",
)
WITHOUT_TENSORS = (
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


@pytest.mark.parametrize("commands", [WITH_NUMPY_TENSORS, WITHOUT_TENSORS])
def test_commands_that_need_no_torch(finished: Path, commands: tuple[str, ...]) -> None:
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
    done = without_torch(finished, *commands, start=ABSENT.replace("\nmain()\n", f"\n{one_by_one}"))
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("=== done\n")
    assert len(printed) == len(commands) + 1
    assert all(printed[:-1])


@pytest.mark.long
def test_every_command_of_ledgers_needs_no_torch(finished: Path) -> None:
    for command in (
        "create all.sqlite --workers 150 --people sensors --adversary release --epsilon 20 --delta 0.05",
        "spend all.sqlite --about survey --mu 0.1",
        "history all.sqlite",
        "show all.sqlite",
        "export all.sqlite --out all.csv",
        "create runs.sqlite --simulation --epsilon 20 --delta 0.05",
        "check runs.sqlite --preset private-table",
        "check runs.sqlite --preset private-table --air lab",
    ):
        done = without_torch(finished, "ledger", *command.split())
        assert done.returncode == 0, (command, done.stderr)


@pytest.mark.long
def test_a_ledger_refuses_the_same_without_torch(finished: Path) -> None:
    create = "ledger create small.sqlite --simulation --epsilon 0.1 --delta 1e-4"
    assert without_torch(finished, *create.split()).returncode == 0
    check = ["ledger", "check", "small.sqlite", "--preset", "private-iris"]
    absent, there = without_torch(finished, *check), without_torch(finished, *check, start=THERE)
    assert (absent.returncode, absent.stderr) == (there.returncode, there.stderr)
    assert absent.returncode == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "--rows 300 --input-dim 6 --label-dim 2",
        "--rows 300 --input-dim 6 --label-dim 2 --accuracy 0.8",
        "--preset private-iris --set workers.dataset=rows.csv --set workers.label_column=kind --bounds bounds.toml",
        "--preset paper-iris --air campus",
        "--preset private-images --air low-cost",
        "--preset trustless-digits --air low-cost",
        "--preset trustless-digits-digital --air campus",
        "--preset trustless-digits-rounds",
    ],
)
def test_a_plan_is_the_same_without_torch(tmp_path: Path, command: str) -> None:
    rows = "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(200))
    (tmp_path / "rows.csv").write_text(f"one,two,kind\n{rows}")
    (tmp_path / "bounds.toml").write_text("one = [0, 10]\ntwo = [0, 10]\n")
    words = ("plan", "--json", "--no-picture", *command.split())
    absent, there = (without_torch(tmp_path, *words, start=start) for start in (ABSENT, THERE))
    assert (absent.returncode, there.returncode) == (0, 0), absent.stderr
    assert alike(json.loads(absent.stdout), json.loads(there.stdout))


def alike(one: object, other: object) -> bool:
    """Whether all numbers agree up to rounding, but for times that were taken."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one if name != "seconds")
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == (pytest.approx(other, rel=1e-4) if isinstance(other, float) else other)


@pytest.mark.parametrize("command", ["run --preset private-iris", "predict iris rows.csv", "demo"])
def test_other_commands_say_in_one_line_what_they_need(finished: Path, command: str) -> None:
    done = without_torch(finished, *command.split())
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"airmix {command.split(maxsplit=1)[0]} needs PyTorch" in line
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in line
    assert not (finished / "runs").exists()


@pytest.mark.parametrize("command", ["deploy init --preset trustless-wine", "deploy up"])
def test_deployments_without_their_extra_say_so_in_one_line(tmp_path: Path, command: str) -> None:
    without = ABSENT.replace('"torch"', '"cryptography"')
    done = without_torch(tmp_path, *command.split(), start=without)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("airmix deploy needs the package cryptography; pip install 'airmixml[deploy]'")
    assert not list(tmp_path.iterdir())
