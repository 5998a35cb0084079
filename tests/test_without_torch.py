"""What works where torch is not installed: real processes in which no finder finds it."""

from __future__ import annotations

import csv
import io
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


def numbers(text: str) -> list[list[float]]:
    return [[float(each) for each in row[1:]] for row in list(csv.reader(io.StringIO(text)))[1:]]


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


@pytest.mark.long
@pytest.mark.parametrize("copies", [1, 400], ids=["a few rows", "1,200 rows, in blocks"])
def test_a_linear_model_predicts_the_same(finished: Path, copies: int) -> None:
    header, *rows = (finished / "rows.csv").read_text().splitlines()
    (finished / "many.csv").write_text("\n".join([header, *rows * copies, ""]))
    words = ("predict", "iris", "many.csv", "--probabilities")
    there = without_torch(finished, *words, start=THERE)
    absent = without_torch(finished, *words)
    assert (there.returncode, absent.returncode) == (0, 0), absent.stderr
    assert len(numbers(absent.stdout)) == 3 * copies
    assert numbers(absent.stdout) == [pytest.approx(row, rel=1e-9) for row in numbers(there.stdout)]
    assert [line.split(",")[0] for line in absent.stdout.split()] == [
        line.split(",")[0] for line in there.stdout.split()
    ]


@pytest.mark.long
def test_predicted_targets_are_scored_the_same(finished: Path) -> None:
    rows = "".join(f"{x / 50},{x % 7},{2 * x / 50 + 1}\n" for x in range(250))
    (finished / "houses.csv").write_text(f"size,rooms,price\n{rows}")
    init = "init houses.csv --label price --task regression --out houses.toml"
    bounds = {"input_lower": "[0,0]", "input_upper": "[5,6]", "target_lower": "[0]", "target_upper": "[12]"}
    keys = " ".join(f"--set workers.{name}={value}" for name, value in bounds.items())
    for command in (init, f"run houses.toml {keys} --out houses"):
        done = without_torch(finished, *command.split(), start=THERE)
        assert done.returncode == 0, done.stderr
    words = ("predict", "houses", "houses.csv", "--score")
    there, absent = without_torch(finished, *words, start=THERE), without_torch(finished, *words)
    assert (there.returncode, absent.returncode) == (0, 0), absent.stderr
    assert "R^2" in absent.stderr
    assert absent.stderr == there.stderr


@pytest.mark.parametrize("command", ["run --preset private-iris"])
def test_other_commands_say_in_one_line_what_they_need(finished: Path, command: str) -> None:
    done = without_torch(finished, *command.split())
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"airmix {command.split(maxsplit=1)[0]} needs PyTorch" in line
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in line
    assert not (finished / "runs").exists()


@pytest.mark.long
def test_a_network_says_that_it_needs_torch(finished: Path) -> None:
    small = ("radio.slots=20", "learner.epochs=1")
    run(Scenario.preset("paper-iris").with_overrides(*small), out=finished / "network", pictures=False)
    done = without_torch(finished, "predict", "network", "rows.csv")
    assert done.returncode == 2
    assert "a model that is not linear needs PyTorch" in done.stderr


@pytest.mark.parametrize("command", ["deploy init --preset trustless-wine", "deploy up"])
def test_deployments_without_their_extra_say_so_in_one_line(tmp_path: Path, command: str) -> None:
    without = ABSENT.replace('"torch"', '"cryptography"')
    done = without_torch(tmp_path, *command.split(), start=without)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("airmix deploy needs the package cryptography; pip install 'airmixml[deploy]'")
    assert not list(tmp_path.iterdir())
