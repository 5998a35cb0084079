"""The commands of a deployment: what they refuse in one line, and what a worker's process takes."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from runs_for_tests import WORKERS, deploy, write_rows

from airmixml.cli.main import answer_light
from airmixml.deploy.endpoint import DeployError, Endpoint
from airmixml.deploy.worker_process import open_workers

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


SMALL = ("--workers", "8", "--set", "privacy.epsilon=20", "--set", "privacy.most_absent=0.25")


def test_a_gateway_that_colludes_brings_all_its_workers(airmix: Airmix, tmp_path: Path) -> None:
    """Of 8 workers behind 3 gateways 3 are behind one."""
    words = (*INIT, *SMALL, "--gateways", "3", "--set")
    done = airmix(*words, "privacy.colluders=2")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "privacy.colluders = 2" in done.stderr
    assert "at least 3" in done.stderr
    assert not list(tmp_path.iterdir())
    done = airmix(*words, "privacy.colluders=3", "--set", "privacy.most_absent=0.125")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_colluders_gateways_are_said_to_be_honest(airmix: Airmix) -> None:
    done = airmix(*INIT, *SMALL, "--set", "privacy.colluders=0", "--gateways", "3", "--json")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "privacy.colluders = 0" in done.stderr
    assert "honest" in done.stderr
    assert json.loads(done.stdout)["gateways"] == 3


WORKERS_8 = [f"worker-{number}" for number in range(8)]


@pytest.fixture
def enrolled(airmix: Airmix, tmp_path: Path) -> Path:
    """Public keys of devices, each of which keeps its own key in a folder of its own."""
    (tmp_path / "public").mkdir()
    for name in WORKERS_8:
        done = airmix("deploy", "key", "--id", name, "--out", f"at/{name}")
        assert (done.returncode, done.stderr) == (0, "")
        assert name in done.stdout
        shutil.copy(tmp_path / "at" / name / f"{name}.pub", tmp_path / "public")
    return tmp_path / "public"


def enrolling(airmix: Airmix, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return airmix(*INIT, *SMALL, "--set", "privacy.colluders=0", "--enrolled", "public", *words)


def test_a_device_makes_its_key_and_shows_the_public_half(enrolled: Path, tmp_path: Path) -> None:
    secret = tmp_path / "at" / "worker-3" / "worker-3.key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret.read_text()))
    assert (enrolled / "worker-3.pub").read_text() == key.public_key().public_bytes_raw().hex() + "\n"


def test_a_key_is_never_replaced(airmix: Airmix, enrolled: Path, tmp_path: Path) -> None:
    before = (tmp_path / "at" / "worker-3" / "worker-3.key").read_bytes()
    done = airmix("deploy", "key", "--id", "worker-4", "--id", "worker-3", "--out", "at/worker-3")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "worker-3.key: exists" in done.stderr
    assert sorted(path.name for path in (tmp_path / "at" / "worker-3").iterdir()) == ["worker-3.key", "worker-3.pub"]
    assert (tmp_path / "at" / "worker-3" / "worker-3.key").read_bytes() == before
    assert enrolled.is_dir()


@pytest.mark.parametrize("name", ["server", "gateway-1", "../worker-1", "worker-", ""])
def test_a_key_is_for_a_worker(airmix: Airmix, tmp_path: Path, name: str) -> None:
    done = airmix("deploy", "key", "--id", name, "--out", "here")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"--id {name!r}" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("gateways", [0, 2])
def test_where_devices_are_enrolled_init_holds_no_signing_key(
    airmix: Airmix, enrolled: Path, tmp_path: Path, gateways: int
) -> None:
    done = enrolling(airmix, "--gateways", str(gateways))
    assert done.returncode == 0, done.stderr
    assert [path.parent.name for path in (tmp_path / "here").rglob("signing.key")] == ["server"]
    kept = [(tmp_path / "at" / name / f"{name}.key").read_text().strip() for name in WORKERS_8]
    for path in (tmp_path / "here").rglob("*"):
        assert path.is_dir() or not any(key.encode() in path.read_bytes() for key in kept), path
    members = json.loads((tmp_path / "here" / "contract.json").read_text())["members"]
    assert [each["verifying_key"] for each in members] == [
        (enrolled / f"{name}.pub").read_text().strip() for name in WORKERS_8
    ]


def test_a_worker_finds_its_key_beside_the_folder_that_it_is_given(
    airmix: Airmix, enrolled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert enrolled.is_dir()
    assert enrolling(airmix).returncode == 0
    rows = write_rows(tmp_path / "row.npz", range(1))
    device = tmp_path / "at" / "worker-3"
    shutil.move(tmp_path / "here" / "devices" / "worker-3", device / "given")
    opened = open_workers(device / "given", rows, print)
    key = bytes.fromhex((device / "worker-3.key").read_text())
    assert opened.hello() == opened.hello().signed_with(key)
    monkeypatch.chdir(device / "given")
    (device / "worker-3.key").write_bytes((tmp_path / "at" / "worker-4" / "worker-4.key").read_bytes())
    with pytest.raises(DeployError, match=r"worker-3: .*signing key.*contract"):
        open_workers(Path(), rows, print)
    (device / "worker-3.key").unlink()
    with pytest.raises(DeployError, match=r"worker-3\.key: .*airmix deploy key"):
        open_workers(Path(), rows, print)


def test_a_gateway_finds_the_keys_of_its_workers(airmix: Airmix, enrolled: Path, tmp_path: Path) -> None:
    assert enrolled.is_dir()
    assert enrolling(airmix, "--gateways", "2").returncode == 0
    for name in WORKERS_8[4:]:
        shutil.move(tmp_path / "at" / name / f"{name}.key", tmp_path / "here" / "gateways")
    rows = write_rows(tmp_path / "rows.npz", range(4))
    open_workers(tmp_path / "here" / "gateways" / "gateway-1", rows, print)
    with pytest.raises(DeployError, match=r"worker-0\.key"):
        open_workers(tmp_path / "here" / "gateways" / "gateway-0", rows, print)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda public: (public / "worker-3.pub").unlink(), "worker-3.pub"),
        (lambda public: (public / "worker-03.pub").write_text("0" * 64), "worker-03.pub"),
        (lambda public: (public / "worker-8.pub").write_text("0" * 64), "worker-8.pub"),
        (lambda public: (public / "worker-3.pub").write_text("0" * 63), "worker-3.pub"),
        (lambda public: shutil.copy(public / "worker-2.pub", public / "worker-3.pub"), "worker-3.pub"),
        (shutil.rmtree, "--enrolled public"),
    ],
)
def test_public_keys_must_be_those_of_the_workers(
    airmix: Airmix, enrolled: Path, tmp_path: Path, spoil: Callable[[Path], object], named: str
) -> None:
    spoil(enrolled)
    done = enrolling(airmix)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert named in done.stderr
    assert not (tmp_path / "here").exists()


def served(airmix: Airmix, folder: Path) -> list[str]:
    """Return what a server says that cannot start its broker."""
    with socket.create_server(("127.0.0.1", Endpoint.read(folder / "server").port)):
        done = airmix("server", folder, "--with-broker")
    assert done.returncode == 2
    *said, problem = done.stderr.splitlines()
    assert problem.startswith("airmix: error: ")
    return said


def test_a_server_says_that_its_machine_holds_the_keys_of_workers(
    airmix: Airmix, deployment: Path, tmp_path: Path
) -> None:
    alone = shutil.copytree(deployment, tmp_path / "alone", ignore=shutil.ignore_patterns("ledger*"))
    (line,) = served(airmix, alone)
    assert "holds the signing keys of 8 workers" in line
    assert "not for protection" in line
    for path in (alone / "devices").rglob("signing.key"):
        path.unlink()
    assert served(airmix, alone) == []
    (alone / "devices" / "worker-1.key").write_text("0" * 64 + "\n")
    (line,) = served(airmix, alone)
    assert "holds the signing keys of 1 worker," in line
    shutil.rmtree(alone / "devices")
    assert served(airmix, alone) == []


def test_init_prints_the_worker_that_starts_from_its_own_folder_alone(airmix: Airmix, tmp_path: Path) -> None:
    settings = ("--set", "privacy.epsilon=20", "--set", "privacy.most_absent=0.25")
    *_, line = airmix(*INIT, *settings, "--workers", "8").stdout.splitlines()
    assert line == f"  airmix worker --folder {Path('here/devices/worker-0')} --id worker-0 --data FILE"
    (tmp_path / "here" / "devices" / "worker-0").rename(tmp_path / "moved")
    words = line.replace(str(Path("here/devices/worker-0")), "moved").split()[1:]
    assert "FILE: must be a file of rows" in airmix(*words).stderr


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


def test_a_worker_says_how_many_columns_it_needs(airmix: Airmix, deployment: Path, tmp_path: Path) -> None:
    (tmp_path / "row.csv").write_text("a,b,c,label\n1,2,3,0\n")
    said = airmix("worker", "--folder", deployment, "--id", "worker-1", "--data", "row.csv").stderr
    assert "row.csv: has 3 columns of inputs: must have 64, besides the label" in said
    assert "model" not in said


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
        ((".",), "endpoint.json"),
        (("FOLDER", "--deadline", "0"), "--deadline = 0"),
        (("FOLDER", "--record", "sums"), "no analog frames"),
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
from airmixml.cli.main import answer_light, main
from airmixml.deploy import worker_process
took = seconds() - before
measured += measure()
folder, data = map(Path, sys.stdin.read().split())
workers = worker_process.open_workers(folder, data, print)
contract = worker_process.load_contract(folder)
contract.kinds[0].noisy(worker_process.vectors(contract, data, 1)(0)(0, None), bytes(32), 0)
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
