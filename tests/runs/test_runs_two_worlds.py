"""A protected run of two tables that differ in one row: what it writes is the same but for what noise hides."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario, run, streams

NOISY = {"seconds", "run_dir"}  # of the training on noisy sums; and where it was written


def table(path: Path, row: str) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{a:.4f},{b:.4f},{'ny'[n % 2]}" for n, (a, b) in enumerate(rng.random((40, 2)))]
    path.write_text("\n".join(["a,b,label", *rows, row, ""]))


def described(path: Path) -> Any:
    """Return what a model file holds but for the weights, which are learnt from noisy sums."""
    with np.load(path) as stored:
        about = json.loads(str(stored["about"]))["values"]
        return about, {name: stored[name].shape for name in stored.files}


@pytest.mark.parametrize("ordinary", ["0.5,0.5,y"])
@pytest.mark.parametrize("odd", ["1e12,-1e12,y", "0,1e-320,n", "0.5,0.5,HIV-positive"])
def test_files_do_not_tell_which_row_was_there(
    ordinary: str, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "secrets", SimpleNamespace(token_bytes=bytes))
    found = []
    for world, row in (("one", ordinary), ("two", odd)):
        monkeypatch.chdir(tmp_path)
        table(tmp_path / "people.csv", row)
        keys = ("workers.dataset=people.csv", "workers.input_lower=[0]", "workers.input_upper=[1]")
        classes = ('workers.classes=["n", "y"]', "workers.unknown_labels=absent")
        scenario = Scenario.preset("private-table").with_overrides(*keys, *classes)
        result = run(scenario, private=True, out=world)
        metrics = json.loads((tmp_path / world / "metrics.json").read_text())
        assert metrics == result.to_dict()
        files = {str(path.relative_to(world)) for path in Path(world).rglob("*") if path.is_file()}
        found.append(
            (
                files,
                {name: value for name, value in metrics.items() if name not in NOISY},
                (tmp_path / world / "scenario.toml").read_text(),
                (tmp_path / world / "figures" / "privacy.png").read_bytes(),
                described(tmp_path / world / "model.npz"),
            )
        )
        assert "HIV" not in "".join(path.read_bytes().decode("latin-1") for path in Path(world).rglob("*.*"))
    assert found[0] == found[1]
