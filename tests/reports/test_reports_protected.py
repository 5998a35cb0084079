"""The report of a protected run: made from four files that its statements cover, and from nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders_for_tests import Finished

from airmixml.files import write_arrays
from airmixml.reports import write_report

COVERED = ("metrics.json", "scenario.toml", "learning_curve.csv", "figures/privacy.png", "model.npz")
FORBIDDEN = ("SNR", "energy", "clipped", "median worker", "power limit", "never saw noise")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


@pytest.mark.parametrize("kind", ["protected", "releases"])
def test_nothing_but_the_covered_files_is_read(kind: str, copy_of: Callable[..., Path]) -> None:
    folder = copy_of(kind)
    before = (folder / "report.html").read_bytes()
    # Whatever else lies there, such as what a simulation of the same data would leave.
    write_arrays(folder / "ledger.npz", {"epsilon": np.array([12345.678])})
    for name in ("overview", "mixtures", "power_and_snr", "learning_curve"):
        (folder / "figures" / f"{name}.md").write_text("secret 12345.678", encoding="utf-8")
    (folder / "audit.md").write_text("secret 12345.678", encoding="utf-8")
    for path in folder.rglob("model.npz"):
        path.unlink()
    assert write_report(folder).read_bytes() == before


def test_every_number_is_in_the_covered_files_or_follows_from_epsilon(
    copy_of: Callable[..., Path], read_page: Callable[[Path], Any]
) -> None:
    folder = copy_of("protected")
    known = "".join((folder / name).read_text(encoding="utf-8") for name in COVERED if name.endswith(("n", "l", "v")))
    values = {float(each) for each in _NUMBER.findall(known)}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    # What the words about an epsilon derive from it: e^epsilon, and the bound on guessing, rounded up.
    for each in [*metrics["privacy"], metrics["row_privacy"]]:
        if each["epsilon"] < 50.0:
            values |= {np.exp(each["epsilon"]), 100.0 / (1.0 + np.exp(-each["epsilon"]))}
    values |= {0.0, 1.0, 2.0, 10.0, 50.0, 100.0, 1.0 / metrics["privacy"][0]["sampling_rate"]}
    values |= {round(metrics["seconds"], 1), 1e3 * metrics["air_seconds"], 1e3 * metrics["seconds"]}
    values |= {each["epsilon"] / 1e6 for each in metrics["privacy"] if each["epsilon"]}  # "2.41 million"
    text = read_page(folder / "report.html").text.replace(",", "")
    strange = [
        each
        for each in _NUMBER.findall(text)
        if not any(abs(float(each) - value) <= 0.02 * abs(value) for value in values)
    ]
    assert strange == []


@pytest.mark.parametrize("kind", ["protected", "releases"])
def test_what_a_simulation_would_add_is_missing(
    kind: str, made: Callable[[str], tuple[Finished, Path]], read_page: Callable[[Path], Any]
) -> None:
    text = read_page(made(kind)[1] / "report.html").text
    assert [word for word in FORBIDDEN if word in text] == []
    assert "nothing but what the privacy statements below cover" in text
    assert all(word in read_page(made("run")[1] / "report.html").text for word in FORBIDDEN[:2])


def test_what_was_typed_is_not_told(airmix: Callable[..., Finished], tmp_path: Path) -> None:
    done = airmix("run", "--preset", "private-iris", "--private", "--data-dir", "Martha-Miller", "--out", "here")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "here" / "report.html").read_text(encoding="utf-8")
    assert "Martha" not in text
    assert "<code>airmix run --preset private-iris --private</code>" in text


def test_the_command_states_how_often_and_whether_tested(made: Callable[[str], tuple[Finished, Path]]) -> None:
    text = (made("releases")[1] / "report.html").read_text(encoding="utf-8")
    assert "airmix run --preset private-iris --private --public-test --seeds 2" in text
