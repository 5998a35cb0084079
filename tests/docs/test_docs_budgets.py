"""The commands of docs/budgets.md, in their order and in one folder, and its Python block."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "budgets.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_commands_do_what_is_shown(airmix: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    (block,) = re.findall(r"^```console\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    lines = block.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("$ airmix "):
            done = airmix(*shlex.split(line)[2:])
            shown = after if after.startswith("airmix: error:") else ""
            assert (done.returncode, done.stderr.strip()) == (2 if shown else 0, shown), line


def test_two_runs_at_epsilon_1_cost_what_is_said() -> None:
    from airmixml.privacy import gaussian_epsilon
    from airmixml.privacy.gaussian import gaussian_mu

    assert round(gaussian_epsilon(2**0.5 * gaussian_mu(1.0, 1e-4), 1e-4), 1) == 1.5
    assert "two runs at epsilon 1 cost 1.5" in DOCUMENT


def test_the_python_block(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    with chdir(tmp_path):
        exec(compile(block, "block", "exec"), {})
    assert os.listdir(tmp_path) == ["own.sqlite"]


@pytest.mark.long
def test_integers_count_as_much_as_is_said() -> None:
    """Theorem 2 by hand, with the tails that a ledger cuts: eta = 1e-9 delta / (1 + e^200) over all numbers."""
    import mpmath

    from airmixml import Scenario
    from airmixml.privacy import gaussian_epsilon
    from airmixml.radio.system import System
    from airmixml.runs.spending import planned_losses

    said = re.search(
        r"with 20 rounds\ncounts as ([\d.]+), and with 17, 16 or 14 bits as ([\d.]+), ([\d.]+) or ([\d.]+)\.", DOCUMENT
    )
    assert said is not None
    for bits, told in zip((0, 17, 16, 14), said.groups(), strict=True):
        changes = ("learner.rounds=20", f"privacy.modulus_bits={bits}")
        scenario = Scenario.preset("trustless-digits-digital").with_overrides(*changes)
        delta, system, squares = scenario.privacy.delta, System.of(scenario, 64, 10), 0.0
        kinds = [(count, each.integers) for count, each in ((1, system), (20, system.of_rounds)) if each.integers]
        numbers = sum(count * each.noise.code.numbers for count, each in kinds)
        with mpmath.workdps(40):
            eta = mpmath.mpf(1e-9) * delta / numbers / (1 + mpmath.exp(200))
            deviations = mpmath.findroot(lambda x, eta=eta: mpmath.log(mpmath.ncdf(-x) / eta), 20.0)
            for count, each in kinds:
                variance = each.carriers * each.noise.variance_per_worker
                m = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.exp(-variance) * mpmath.besseli(0, variance))
                exponent = m * (m + deviations)
                step = mpmath.sqrt(system.sensitivity.removal) / each.noise.code.step * m
                squares += count * float(step * mpmath.expm1(exponent) / exponent) ** 2
        spent = planned_losses(scenario, 64, 10)["server"]
        assert spent is not None
        assert float(spent.squared_mu.max()) == pytest.approx(squares, rel=1e-9)
        assert f"{gaussian_epsilon(squares**0.5, delta * (1 - 1e-9)):.4g}" == told
