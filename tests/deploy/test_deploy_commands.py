"""The commands of a deployment: what they refuse in one line, and what a worker's process takes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from runs_for_tests import WORKERS, deploy, write_rows

from airmixml.cli.light import answer_light

Airmix = Callable[..., subprocess.CompletedProcess[str]]
INIT = ("deploy", "init", "--preset", "trustless-digits-digital", "--out", "here")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands") / "deployment"
    deploy(folder)
    return folder


def test_init_writes_a_folder_for_each_worker(airmix: Airmix, tmp_path: Path) -> None:
    settings = ("--set", "privacy.epsilon=20", "--set", "privacy.most_absent=0.25", "--set", "privacy.colluders=1")
    done = airmix(*INIT, *settings, "--workers", "8", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["workers"], told["gateways"]) == (8, 0)
    contract = json.loads((tmp_path / "here" / "contract.json").read_text())
    assert [each["name"] for each in contract["members"]] == [f"worker-{number}" for number in range(8)]
    assert sorted(path.name for path in (tmp_path / "here" / "devices").iterdir()) == [
        each["name"] for each in contract["members"]
    ]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--workers", "-1"), "--workers = -1"),
        (("--gateways", "-1"), "--gateways = -1"),
        (("--workers", "4", "--gateways", "5"), "--gateways = 5"),
        (("--spare", "-1"), "--spare = -1"),
        (("--epsilon", "-1"), "--epsilon = -1"),
        (("--workers", "16", "--port", "70000"), "--port = 70000"),
        (("--set", "privacy.arithmetic=real"), "privacy.arithmetic"),
        (("--workers", "2"), "privacy.most_absent"),
    ],
)
def test_init_refuses_in_one_line(airmix: Airmix, tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    done = airmix(*INIT, *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert named in done.stderr
    assert not list(tmp_path.iterdir())


def test_init_never_replaces_a_folder(airmix: Airmix, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done = airmix(*INIT, "--workers", "16")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "here: exists" in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--id", "worker-99"), "worker-99"),
        (("--id", "../worker-1"), "../worker-1"),
        (("--id", "server"), "server"),
        (("--folder", "nowhere"), "nowhere"),
        (("--data", "nothing.csv"), "nothing.csv"),
        (("--patience", "0"), "--patience = 0"),
        (("--patience", "soon"), "--patience"),
        (("--patience", "nan"), "--patience = nan"),
        (("--speed", "9"), "--speed"),
    ],
)
@pytest.mark.parametrize("command", ["worker", "gateway"])
def test_a_worker_refuses_in_one_line(
    airmix: Airmix, deployment: Path, tmp_path: Path, command: str, words: tuple[str, ...], named: str
) -> None:
    given = {"--folder": str(deployment), "--id": "worker-1", "--data": "row.npz"}
    write_rows(tmp_path / "row.npz", range(1))
    given.update({words[0]: words[1]})
    done = airmix(command, *(word for pair in given.items() for word in pair))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert named in done.stderr


def test_a_worker_tells_no_value_of_its_rows(airmix: Airmix, deployment: Path, tmp_path: Path) -> None:
    (tmp_path / "row.csv").write_text(
        ",".join(f"x{place}" for place in range(64)) + ",label\n" + "7," * 64 + "secret\n"
    )
    words = ("worker", "--folder", deployment, "--id", "worker-1", "--data", "row.csv")
    hidden, shown = airmix(*words), airmix(*words, "--show-values")
    for done in (hidden, shown):
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "secret" not in hidden.stderr
    assert "secret" in shown.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("nowhere",), "nowhere"),
        (("nowhere.toml",), "nowhere.toml"),
        ((".",), "endpoint.json"),
        (("FOLDER", "--deadline", "0"), "--deadline = 0"),
        (("FOLDER", "--workers", "3"), "--workers"),
    ],
)
def test_a_server_refuses_in_one_line(airmix: Airmix, deployment: Path, words: tuple[str, ...], named: str) -> None:
    done = airmix("server", *(str(deployment) if word == "FOLDER" else word for word in words))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert named in done.stderr


def test_what_is_not_simple_is_left_to_the_full_command() -> None:
    for words in ((), ("run",), ("worker",), ("worker", "--help"), ("worker", "--id"), ("worker", "--id", "a")):
        assert answer_light(words) is None, words
    for words in (("--id", "a", "--id", "b", "--data", "c"), ("--id", "a", "--data", "c", "--patience", "x")):
        assert answer_light(("worker", *words)) is None, words


FOOTPRINT = """
import json, resource, sys
from pathlib import Path
def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
def measure():  # work like that of an import, which takes 0.1 s where nothing else runs
    before = seconds()
    for _ in range(20):
        text = "class A:\\n" + "".join(f"    def f{n}(self, a, b={n}): return a + b\\n" for n in range(200))
        exec(compile(text, "measured", "exec"), {})
    return seconds() - before
measured = measure()
before = seconds()
from airmixml.cli.main import main
from airmixml.cli.light import answer_light
from airmixml.deploy import worker_process
took = seconds() - before
measured += measure()
folder, data = map(Path, sys.stdin.read().split())
workers = worker_process.open_workers(folder, data, print)
contract = worker_process.load_contract(folder)
contract.kinds[0].code.noisy(worker_process.vectors(contract, data, 1)(0)(0, None), bytes(32), 0)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
heavy = ("torch", "scipy", "typer", "rich", "pandas", "matplotlib", "sklearn")
print(json.dumps({"seconds": min(took, 0.2 * took / measured), "kilobytes": int(status["VmHWM"].split()[0]),
                  "heavy": [name for name in heavy if name in sys.modules]}))
"""


def test_a_worker_takes_little_memory_and_starts_at_once(
    deployment: Path, tmp_path: Path, start_python: Callable[..., subprocess.Popen[str]]
) -> None:
    """On a busy machine all work takes longer: seconds are those of one on which other work takes what it should."""
    data = write_rows(tmp_path / "row.npz", range(1))
    found = []
    for number in range(4):  # the first may compile
        child = start_python("-c", FOOTPRINT, stdin=subprocess.PIPE)
        out, err = child.communicate(f"{deployment}/devices/worker-{WORKERS - 1 - number} {data}", timeout=600)
        assert child.returncode == 0, err
        found.append(json.loads(out))
    assert all(each["heavy"] == [] for each in found)
    assert min(each["kilobytes"] for each in found) * 1024 < 60e6, found
    assert min(each["seconds"] for each in found) < 0.5, found
