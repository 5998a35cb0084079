"""``airmix demo`` made small: two seeds, two epochs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from airmixml import Scenario
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu

Airmix = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.long  # tests/docs runs the whole of it
def test_a_small_demo(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix("demo", "--seeds", "2", "--epochs", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    paper, private = shown["paper-iris"], shown["private-iris"]
    for side in (paper, private):
        assert len(side["runs"]) == 2
        folder = tmp_path / side["run_dir"]
        assert json.loads((folder / "metrics.json").read_text())["energy_joules"] == side["energy_joules"]
        target = Scenario.load(folder / "scenario.toml").privacy
        assert (target.epsilon, target.delta, target.adjacency) == (5.0, 0.01, "replace-one")
    assert [side["privacy"][0]["adversary"] for side in (paper, private)] == ["release", "server"]
    assert private["smallest_epsilons"]["server"] == pytest.approx(5.0)
    # All workers send in the only slot: of seed 0 those with one flower are together as loud as their number.
    copies, mu = private["runs"][0]["row_copies"], gaussian_mu(5.0, 0.01)
    assert private["flower_epsilons"]["server"] == pytest.approx(gaussian_epsilon(copies * mu, 0.01), rel=1e-6)
    assert paper["flower_epsilons"]["release"] > 100 * paper["smallest_epsilons"]["release"]
    with Image.open(tmp_path / shown["picture"]) as picture:
        assert min(picture.size) > 400


def test_seeds_that_give_no_spread(refused: Callable[..., str]) -> None:
    assert "--seeds = 1: must be a whole number of at least 2" in refused("demo", "--seeds", "1")


def test_a_folder_that_cannot_be_written_is_left_without_an_option_that_there_is_not(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("where a folder should be")
    line = refused("demo", "--seeds", "2", "--epochs", "2")
    assert "change to another directory" in line
    assert "--" not in line


def test_a_mistake_in_the_epochs(refused: Callable[..., str]) -> None:
    assert "learner.epochs = 0" in refused("demo", "--epochs", "0")
