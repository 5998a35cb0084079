"""What protected runs leave behind: nothing of their rows, not even a digest. Folders appear with all their files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airmixml import Scenario, run
from airmixml.messages import LedgerError, LeftoverWarning
from airmixml.scenario.scenario import identity_of
from airmixml.storage.folders import RunFolder

Finished = subprocess.CompletedProcess[str]
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FILES = {"metrics.json", "scenario.toml", "model.npz", "figures", "report.html", "finished.json"}


@pytest.fixture
def private(tmp_path: Path) -> Scenario:
    """Twelve rows in a file."""
    data = tmp_path / "rows.csv"
    rows = [f"{0.01 * place:.2f},{place % 5 / 5},{place % 2}" for place in range(12)]
    data.write_text("\n".join(["a,b,label", *rows]) + "\n")
    changes = ("workers.classes=0,1", "workers.input_lower=[0]", "workers.input_upper=[1]", "privacy.delta=1e-3")
    return Scenario.preset("private-table").with_overrides(f'workers.dataset="{data}"', *changes)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seeds", [1, 2])
def test_no_digest_is_written_while_a_protected_run_works(private: Scenario, seeds: int, tmp_path: Path) -> None:
    content = Path(private.workers.dataset).read_bytes()
    digests = [hashlib.new(name, content).hexdigest().encode() for name in ("md5", "sha1", "sha256", "sha512")]
    seen: dict[str, bytes] = {}

    def look(*_stage: object) -> None:
        seen.update(files_below(tmp_path / "runs"))

    run(private, private=True, seeds=seeds, out=tmp_path / "runs" / "here", progress=look, pictures=False)
    assert f"here.partial{'/seed-1.partial' * (seeds > 1)}/identity.json" in seen
    assert [name for name, held in seen.items() if any(digest in held for digest in digests)] == []
    # A simulation's folder must not be released: there the same search finds it.
    run(private, seeds=seeds, out=tmp_path / "runs" / "there", progress=look, pictures=False)
    assert [name for name, held in seen.items() if digests[2] in held]


def test_interrupted_releases_begin_again(private: Scenario, tmp_path: Path) -> None:
    """Without a digest nothing tells whether the first release was of the same rows."""

    def stop(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("seeds", 1):
            raise KeyboardInterrupt

    out = tmp_path / "here"
    with pytest.raises(KeyboardInterrupt):
        run(private, private=True, seeds=2, out=out, progress=stop, pictures=False)
    first = (tmp_path / "here.partial" / "seed-0" / "model.npz").read_bytes()
    (tmp_path / "here.partial" / "notes.txt").write_text("mine")
    with pytest.warns(LeftoverWarning, match="an earlier release was begun here and did not finish"):
        result = run(private, private=True, seeds=2, out=out, pictures=False)
    assert (result.releases, result.killed) == (2, 1)
    assert (out / "seed-0" / "model.npz").read_bytes() != first
    assert (out / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "here.partial").exists()


def test_simulations_with_a_ledger_of_protection_leave_nothing(
    private: Scenario, airmix: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "rows.toml").write_text(private.to_toml())
    assert airmix("ledger", "create", "b.sqlite", "--epsilon", "5", "--delta", "1e-3").returncode == 0
    before = files_below(tmp_path)
    done = airmix("run", "rows.toml", "--ledger", "b.sqlite")
    assert (done.returncode, done.stdout) == (2, "")
    assert "keeps what protection spends, and this is simulation" in done.stderr
    assert files_below(tmp_path) == before
    with pytest.raises(LedgerError, match="keeps what protection spends"):
        run(private, ledger=tmp_path / "b.sqlite", out=tmp_path / "here")
    assert files_below(tmp_path) == before


def test_a_protected_identity_tells_nothing_of_the_files(private: Scenario) -> None:
    simulated, protected = identity_of(private), identity_of(private, protected=True)
    assert len(simulated["data"]) == 64
    assert set(protected) == {"scenario", "airmixml", "mode"}


# --- Folders appear with all their files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "files"),
    [
        pytest.param(
            ("run", "--preset", "private-iris"), FILES | {"learning_curve.csv", "ledger.npz"}, marks=pytest.mark.long
        ),
        (("run", "--preset", "private-iris", "--private"), FILES),
        pytest.param(
            ("plan", "--preset", "private-iris", "--no-picture"),
            {"metrics.json", "scenario.toml", "plan.md", "report.html"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            (
                "audit",
                "--preset",
                "private-iris",
                "--trials",
                "200",
            ),
            {"metrics.json", "report.html"},
            marks=pytest.mark.long,
        ),
        (("attack", "--preset", "private-iris", "--attacks", "least-squares"), {"metrics.json", "report.html"}),
    ],
    ids=lambda value: " ".join(value[:1] + value[3:4]) if isinstance(value, tuple) else "",
)
def test_the_report_is_there_before_the_folder_has_its_name(
    command: tuple[str, ...],
    files: set[str],
    airmix: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A process that is killed between the two would leave a folder that the same command refuses."""
    renamed: dict[str, set[str]] = {}
    rename = os.rename

    def watched(source: Any, target: Any, **options: Any) -> None:
        if str(source).endswith(".partial"):
            renamed[Path(target).name] = set(os.listdir(source))
        rename(source, target, **options)

    monkeypatch.setattr(os, "rename", watched)
    done = airmix(*command, "--out", "here", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert files <= renamed["here"]
    assert json.loads(done.stdout)["report"] == str(Path("here") / "report.html")
    assert set(os.listdir(tmp_path / "here")) == renamed["here"] - {
        "identity.json",
        "attempts.json",
        ".lock",
        "trials.npz",
        "noise.json",
    }


def test_what_ends_a_run_before_it_is_published_leaves_its_name_free(
    small: Scenario, stopped: type[Exception], tmp_path: Path
) -> None:
    def stop(folder: RunFolder) -> None:
        assert {"metrics.json", "scenario.toml", "model.npz"} <= set(os.listdir(folder.work))
        raise stopped

    with pytest.raises(stopped):
        run(small, out=tmp_path / "here", finish=stop, pictures=False)
    assert not (tmp_path / "here").exists()
    run(small, out=tmp_path / "here", pictures=False, finish=lambda folder: (folder.work / "last").touch())
    assert (tmp_path / "here" / "last").exists()


def test_a_folder_killed_while_it_was_published_can_be_replaced(small: Scenario, tmp_path: Path) -> None:
    run(small, out=tmp_path / "here", pictures=False)
    for name in ("identity.json", ".lock"):  # what is removed after the renaming
        (tmp_path / "here" / name).write_text("")
    run(small, out=tmp_path / "here", force=True, pictures=False)
    assert not (tmp_path / "here" / "identity.json").exists()


# --- Killed anywhere --------------------------------------------------------------------------------------------------


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    from importlib import import_module

    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("leftovers_kit")


def test_the_search_finds_what_it_is_for(kit: ModuleType, tmp_path: Path) -> None:
    """Or finding nothing would mean nothing."""
    import base64
    import gzip
    import io
    import struct
    import zipfile
    import zlib

    import numpy as np

    rows = [f"{0.123456789 + place:.9f},{7.00000001 * place + 3.25:.9f},{place % 2}" for place in range(5)]
    content = ("\n".join(["a,b,label", *rows]) + "\n").encode()
    (tmp_path / "rows.csv").write_bytes(content)
    search = kit.Search.of_file(tmp_path / "rows.csv")
    sha, line = hashlib.sha256(content), rows[3].encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", b"x" * 99 + sha.digest())
    number = float(rows[2].split(",")[0])
    planted = {
        "hex": sha.hexdigest().encode(),
        "short": b'"%s"' % sha.hexdigest()[:24].encode(),
        "upper": sha.hexdigest().upper().encode(),
        "raw": b"abc" + sha.digest(),
        "little": sha.digest()[::-1],
        "base64": base64.b64encode(sha.digest()),
        "number": str(int.from_bytes(sha.digest(), "little")).encode(),
        "row": hashlib.blake2s(line).hexdigest().encode(),
        "row md5": hashlib.md5(line + b"\n").digest(),
        "crc": b"checksum: %d" % zlib.crc32(content),
        "crc raw": b"ab" + struct.pack("<I", zlib.crc32(content)),
        "adler": b"0x %08x" % zlib.adler32(line),
        "cell": b"the worst is " + rows[4].split(",")[1].encode(),
        "float64": b"z" + struct.pack(">d", number),
        "float32": np.array([list(map(float, rows[1].split(",")[:2]))], np.float32).tobytes(),
        "zip": packed.getvalue(),
        "picture": b'<img src="data:image/png;base64,' + base64.b64encode(b"p" * 50 + sha.digest() * 2) + b'">',
        "any hex": b"key 0123456789abcdef01",
    }
    left = tmp_path / "left"
    left.mkdir()
    for name, each in planted.items():
        (left / name).write_bytes(each)
    (left / sha.hexdigest()[:16]).touch()
    (left / "harmless").write_bytes(gzip.compress(b"other") + b'{"epsilon": 1.25, "crc": 4294967295}')
    assert set(search.found_below(left)) == {*planted, sha.hexdigest()[:16]}


@pytest.mark.long
def test_killed_protected_commands_leave_nothing_of_the_rows(
    run_python: Callable[..., Finished], tmp_path: Path
) -> None:
    script, out = BENCHMARKS / "search_leftovers.py", tmp_path / "found.json"
    done = run_python(script, "--kills", "15", "--out", out)
    assert done.returncode == 0, done.stderr
    for found in json.loads(out.read_text())["results"].values():
        assert found["found"] == {}
        assert found["left a named folder that is not whole"] == 0
        assert found.get("done again and failed", 0) == 0


@pytest.mark.record
def test_two_hundred_kills_left_nothing_of_the_rows() -> None:
    plain = json.loads((BENCHMARKS / "results" / "leftovers.json").read_text())
    assert sum(found["kills"] - found["came too late"] for found in plain["results"].values()) >= 200
    assert set(plain["results"]) == {"run", "run --seeds", "estimator"}
    for found in plain["results"].values():
        assert found["found"] == {}
        assert found["left something of the rows"] == found["left a named folder that is not whole"] == 0
        assert found.get("done again and failed", 0) == 0
