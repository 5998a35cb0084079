"""Where gain errors leave much of masks, run, account and plan say so in one line; elsewhere they do not."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

LINE = 'use integers over a digital link (radio.link = "digital")'
FEW = ("--preset", "trustless-iris", "--set", "workers.count=400", "--set", "radio.scheduled=400")
# 1 + sqrt(400) g: with 10 % of complex error, of which 7.1 % are in phase, 2.4 times; with 1 % 1.14 times.
MUCH, LITTLE = "air.reciprocity_nmse_db=-20", "air.reciprocity_nmse_db=-40"


@pytest.mark.parametrize(
    "command", [("run", "--no-pictures"), ("account", "--no-picture", "--brief"), ("plan", "--no-alternatives")]
)
@pytest.mark.parametrize(("error", "much"), [(MUCH, True), (LITTLE, False)])
def test_advice(airmix: Callable[..., CompletedProcess[str]], command: tuple[str, ...], error: str, much: bool) -> None:
    done = airmix(command[0], *FEW, "--set", error, *command[1:])
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert (LINE in said) is much
    assert ("times the noise of exact gains in the sum of 400 masked workers" in said) is much
