"""``airmix air``: what it refuses in one line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Airmix = Callable[..., subprocess.CompletedProcess[str]]


def test_mistakes_give_one_line(airmix: Airmix) -> None:
    for words, line in (
        ((".", "--runtime", "radio"), '--runtime = \'radio\': must be one of "adder", "gnuradio"'),
        ((".",), ".: is no deployment with an air"),
    ):
        done = airmix("air", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"airmix: error: {line}" + done.stderr[len(line) + 15 :]


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
