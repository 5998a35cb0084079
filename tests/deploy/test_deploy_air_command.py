"""``airmix air``: trials that print what they found, and mistakes in one line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from airmixml import Scenario, settle
from airmixml.deploy.analog import for_workers
from airmixml.deploy.planned import planned_contract
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset

Airmix = Callable[..., subprocess.CompletedProcess[str]]
TRIAL = ("air", "--preset", "private-table", "--workers", "16", "--set", "workers.centre=public")
LOUD = ("--set", "privacy.epsilon=1000", "--set", "learner.rounds=1")


@pytest.mark.long
def test_a_trial_is_recorded_and_replayed_to_the_same_model(airmix: Airmix, tmp_path: Path) -> None:
    first = airmix(*TRIAL, *LOUD, "--record", tmp_path / "sums", "--json")
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert told["workers"] == 16
    assert told["scores"]["through the air"] > 0.8
    meta = json.loads((tmp_path / "sums.sigmf-meta").read_text())
    assert [each["core:sample_count"] for each in meta["annotations"]] == [558, 62]  # 31 numbers, 2 classes
    assert meta["annotations"][0]["airmixml:present"] == list(range(16))
    again = airmix(*TRIAL, *LOUD, "--replay", tmp_path / "sums")
    assert again.returncode == 0, again.stderr
    assert f"{100 * told['scores']['through the air']:.1f} %" in again.stdout
    assert "nobody is protected" in again.stdout
    short = airmix(*TRIAL, *LOUD, "--set", "learner.rounds=2", "--replay", tmp_path / "sums")
    assert short.returncode == 2
    assert short.stderr.splitlines()[-1].startswith("airmix: error: recording: has no sum of slot")


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    scenario = settle(for_workers(Scenario.preset("private-table"), 2))
    dataset = load_dataset(scenario.workers, Streams(0))
    population = deploy(scenario.workers, dataset, Streams(0))
    public = {0: b"a" * 32, 1: b"b" * 32}
    made = planned_contract(scenario, dataset, population, public, b"s" * 32, b"")
    (tmp_path / "contract.json").write_bytes(made.to_json())
    (tmp_path / "bad.key").write_text("xyz")
    (tmp_path / "air.key").write_text("ab" * 32)
    return tmp_path / "contract.json"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((*TRIAL, "--runtime", "radio"), "--runtime radio: must be one of adder, gnuradio"),
        ((*TRIAL, "--taps", "1,0.1j"), "--frequency-offset, --taps: need --runtime gnuradio"),
        ((*TRIAL, "--runtime", "gnuradio", "--taps", "1,x"), "--taps 1,x: must be complex numbers"),
        ((*TRIAL, "--set", "air.preset=lab"), 'air.preset = lab: must be "ideal"'),
        ((*TRIAL, "--set", "workers.centre=refined"), 'workers.centre = "refined": must be "none"'),
        ((*TRIAL, "--replay", "nothing"), "nothing.sigmf-meta: cannot be read"),
        (("air", "nothing.json"), "nothing.json: cannot be read"),
        (("air", "."), ".: is no deployment with an air"),
        (("air",), "give either a scenario file or --preset"),
    ],
)
def test_mistakes_give_one_line(airmix: Airmix, arguments: tuple[str, ...], line: str) -> None:
    done = airmix(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"airmix: error: {line}")


ANALOG = (
    *("deploy", "init", "--preset", "trustless-wine", "--workers", "4", "--out", "here"),
    *("--set", "radio.link=analog", "--set", "privacy.arithmetic=real", "--set", "privacy.most_absent=0", "--set"),
)


def test_a_deployment_has_an_air_where_frames_are_analog(airmix: Airmix, tmp_path: Path) -> None:
    refused = airmix(*ANALOG, "privacy.noise=receiver", "--set", "privacy.adversary=server")
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert "hub hears every frame by itself" in refused.stderr
    assert not (tmp_path / "here").exists()
    done = airmix(*ANALOG, "privacy.noise=workers")
    assert done.returncode == 0, done.stderr
    assert "airmix air here" in done.stdout
    (tmp_path / "here" / "air" / "air.json").unlink()
    lost = airmix("air", "here")
    assert (lost.returncode, len(lost.stderr.splitlines())) == (2, 1)
    assert "air.json: cannot be read" in lost.stderr


def test_a_contract_needs_a_key_and_addresses_on_this_machine(airmix: Airmix, contract: Path) -> None:
    key, folder = contract.with_name("air.key"), contract.parent
    there = f"ipc://{folder}/sums"
    for arguments, line in (
        ((), "--key and --sums: both are needed"),
        (("--key", folder / "bad.key", "--sums", there), f"{folder / 'bad.key'}: must hold one signing key"),
        (("--key", folder / "no.key", "--sums", there), f"{folder / 'no.key'}: cannot be read"),
        (("--key", key, "--sums", there, "--listen", "tcp://0.0.0.0:0"), "tcp://0.0.0.0:0: must be tcp://127.0.0.1"),
        (("--key", key, "--sums", "tcp://example.org:1"), "tcp://example.org:1: must be tcp://127.0.0.1"),
        (("--key", key, "--sums", "tcp://127.0.0.1:none"), "tcp://127.0.0.1:none: cannot be used"),
        (
            ("--key", key, "--sums", there, "--listen", f"ipc://{folder}/no/such"),
            f"ipc://{folder}/no/such: cannot be used",
        ),
    ):
        done = airmix("air", contract, *arguments)
        assert done.returncode == 2, done
        assert done.stderr.splitlines()[-1].startswith(f"airmix: error: {line}"), done.stderr
