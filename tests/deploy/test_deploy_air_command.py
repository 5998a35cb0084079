"""``airmix air``: trials that print what they found, and mistakes in one line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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
    fewer = airmix(*TRIAL, *LOUD, "--workers", "15", "--replay", tmp_path / "sums")
    assert fewer.returncode == 2
    assert fewer.stderr.splitlines()[-1].startswith("airmix: error: recording: slot 0 has 558 samples of 16 workers")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((*TRIAL, "--runtime", "radio"), "--runtime radio: must be one of adder, gnuradio"),
        ((*TRIAL, "--taps", "1,0.1j"), "--frequency-offset, --taps: need --runtime gnuradio"),
        ((*TRIAL, "--runtime", "gnuradio", "--taps", "1,x"), "--taps 1,x: must be complex numbers"),
        ((*TRIAL, "--set", "air.preset=lab"), 'air.preset = lab: must be "ideal"'),
        ((*TRIAL, "--set", "workers.centre=refined"), 'workers.centre = "refined": must be "none"'),
        ((*TRIAL, "--replay", "nothing"), "nothing.sigmf-meta: cannot be read"),
        ((*TRIAL, "--replay", "x", "--record", "x"), "--record, --replay: a replay has no air to record"),
        (("air", "--preset", "trustless-wine"), 'radio.link = "digital": needs no air'),
        (("air", "nothing.toml"), "nothing.toml: "),
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
    where = tmp_path / "here" / "air" / "endpoint.json"
    for address in ("tcp://0.0.0.0:0", "tcp://example.org:1", "tcp://127.0.0.1:none"):
        where.write_text(json.dumps({**json.loads(where.read_text()), "frames": address, "sums": address}))
        refused = airmix("air", "here")
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"airmix: error: {address}: "), refused.stderr
    where.unlink()
    lost = airmix("air", "here")
    assert (lost.returncode, len(lost.stderr.splitlines())) == (2, 1)
    assert "endpoint.json: cannot be read" in lost.stderr
