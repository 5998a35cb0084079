"""GNU Radio in the middle: sums of 64 workers, exact without noise, slot after slot."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.processes import SYSTEM_PYTHON, GnuRadio
from airmixml.messages import ProtocolError


def has_gnu_radio() -> bool:
    found = SYSTEM_PYTHON.exists() and subprocess.run(
        [SYSTEM_PYTHON, "-c", "from gnuradio import zeromq"], check=False, capture_output=True
    )
    return bool(found) and found.returncode == 0


pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(not has_gnu_radio(), reason="GNU Radio is not installed: apt-get install gnuradio"),
]


def on_a_grid(rng: np.random.Generator, workers: int, samples: int) -> np.ndarray:
    both = rng.integers(-(2**16), 2**16, (2, workers, samples))
    return (both[0] + 1j * both[1]).astype(np.complex64)


@pytest.fixture(scope="module")
def runtime() -> Iterator[GnuRadio]:
    made = GnuRadio(64)
    yield made
    made.close()


@pytest.mark.parametrize("samples", [1, 100, 40_000, 524_800])
def test_the_sum_of_64_workers_is_exact(runtime: GnuRadio, samples: int) -> None:
    frames = on_a_grid(np.random.default_rng(samples), 64, samples)
    for absent in ((), (3, 63)):
        runtime.begin(samples, 64)
        present = [seat for seat in range(64) if seat not in absent]
        for seat in present:
            runtime.add(seat, frames[seat])
        assert np.array_equal(runtime.finish(), frames[present].astype(np.complex128).sum(axis=0))


def test_a_slot_that_was_given_up_leaves_nothing_in_the_next(runtime: GnuRadio) -> None:
    frames = on_a_grid(np.random.default_rng(5), 2, 500)
    runtime.begin(500, 64)
    runtime.add(0, frames[0])
    runtime.begin(500, 64)
    runtime.add(1, frames[1])
    assert np.array_equal(runtime.finish(), frames[1])


def test_more_workers_than_inputs_are_refused(runtime: GnuRadio) -> None:
    with pytest.raises(ProtocolError, match="slot of 65 workers: this air has 64 inputs"):
        runtime.begin(10, 65)


def test_a_python_without_gnu_radio_gives_one_line(tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'gnuradio'\" >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(DeployError, match=r"GNU Radio does not start: .*gnuradio.*; apt-get install gnuradio"):
        GnuRadio(2, python=fake)
    with pytest.raises(DeployError, match="there is no such file"):
        GnuRadio(2, python=tmp_path / "nothing")


def test_a_flowgraph_that_dies_is_noticed() -> None:
    runtime = GnuRadio(1)
    try:
        runtime._child.kill()
        runtime._child.wait()  # its connection is gone sooner or later than the frame is sent
        runtime.begin(10, 1)
        with pytest.raises(DeployError, match="gives no more samples"):
            runtime.finish()
    finally:
        runtime.close()
