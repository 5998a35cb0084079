"""The presets beyond the paper as processes of their own, made small; and what their keys refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

Finished = CompletedProcess[str]
Refused = Callable[..., str]
IRIS = ("run", "--preset", "private-iris")
SMALL_DIGITS = tuple(
    part
    for change in ("workers.dataset=digits", "workers.count=1200", "workers.train_samples=1200")
    for part in ("--set", change)
)


def metrics_of(done: Finished) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def iris_run(
    airmix_in: Callable[..., Finished], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("private")
    return metrics_of(airmix_in(*IRIS, "--json", cwd=folder)), folder


def test_private_iris_as_it_is(iris_run: tuple[dict[str, Any], Path]) -> None:
    """15 + 15 symbols in one slot, at a rate of 794 000 a second; 5 numbers and their products on the worker."""
    metrics, folder = iris_run
    assert metrics["accuracy"]["final"] > 0.8
    assert metrics["accuracy"]["best_epoch"] == 1
    assert (metrics["slots"], metrics["symbols_per_slot"]) == (1, 30)
    assert metrics["air_seconds"] == pytest.approx(30 / 794_000, rel=1e-9)
    # 2 x 4 to scale, 2 x 4 to centre, 2 x 4 + 20 for the norm, 15 products and 5 weighted numbers.
    assert metrics["worker_cost"] == {
        "multiply_accumulates": 8 + 8 + 28 + 15 + 5,
        "constant_bytes": 16,
        "working_bytes": 32,
        "symbols": 30,
    }
    assert metrics["power_limited_slots"] == 0
    run = folder / metrics["run_dir"]
    assert sorted(each.name for each in run.iterdir()) == [
        "figures",
        "finished.json",
        "learning_curve.csv",
        "ledger.npz",
        "metrics.json",
        "model.npz",
        "report.html",
        "scenario.toml",
    ]
    lines = (run / "learning_curve.csv").read_text().splitlines()
    assert lines[0] == "epoch,test_accuracy"
    assert lines[1:] == [f"1,{metrics['accuracy']['final']}"]


def test_both_kinds_of_neighbours_are_in_the_metrics(iris_run: tuple[dict[str, Any], Path]) -> None:
    statements = iris_run[0]["privacy"]
    own = statements[0]
    assert (own["adversary"], own["accountant"], own["adjacency"]) == ("server", "gdp", "remove-one")
    assert own["epsilon"] == pytest.approx(5.0, rel=1e-6)
    assert own["epsilon"] <= own["target_epsilon"] == 5.0
    other = [each for each in statements if each["adjacency"] == "replace-one"]
    assert [(each["adversary"], each["accountant"]) for each in other] == [("server", "gdp")]
    assert other[0]["epsilon"] > own["epsilon"]
    assert other[0]["target_epsilon"] is None
    release = [each["epsilon"] for each in statements if (each["adversary"], each["accountant"]) == ("release", "gdp")]
    assert release == [own["epsilon"]]


def test_a_saved_model_is_the_one_that_was_scored(iris_run: tuple[dict[str, Any], Path]) -> None:
    import torch

    from airmixml import Scenario
    from airmixml.runs import load_network
    from airmixml.streams import Streams
    from airmixml.workers import load_dataset

    metrics, folder = iris_run
    run = folder / metrics["run_dir"]
    dataset = load_dataset(Scenario.load(run / "scenario.toml").workers, Streams(0))
    right = load_network(run)(torch.from_numpy(dataset.test_inputs)).argmax(dim=1).numpy() == dataset.test_labels
    assert np.mean(right) == pytest.approx(metrics["accuracy"]["final"])


def test_private_mnist_made_small(airmix: Callable[..., Finished]) -> None:
    """Digits instead of MNIST: all workers in one slot."""
    whole = metrics_of(
        airmix(
            *("run", "--preset", "private-mnist", *SMALL_DIGITS, "--json"),
            *("--set", "workers.features=60", "--set", "radio.scheduled=1200", "--set", "privacy.epsilon=100"),
        )
    )
    assert whole["symbols_per_slot"] == 60 * 61 // 2 + 600
    assert whole["accuracy"]["final"] > 0.7
    assert whole["privacy"][0]["epsilon"] == pytest.approx(100.0, rel=1e-6)
    assert whole["worker_cost"]["constant_bytes"] == 2 * 128 // 8


@pytest.mark.long
def test_private_mnist_release_made_small(airmix: Callable[..., Finished]) -> None:
    """Digits instead of MNIST: coins and mixtures; the table says what was sent."""
    table = airmix(
        *("run", "--preset", "private-mnist-release", *SMALL_DIGITS),
        *("--set", "workers.features=40", "--set", "radio.scheduled=30", "--set", "radio.slots=130"),
    )
    assert table.returncode == 0, table.stderr
    for said in ("samples of gradients, centre own", "30 at a time on average in 130 slots", "ridge, closed form"):
        assert said in table.stdout
    for said in ("50 symbols per slot", "multiply-accumulates", "remove-one"):
        assert said in table.stdout


def test_the_account_of_a_preset_agrees_with_its_run(
    airmix: Callable[..., Finished], iris_run: tuple[dict[str, Any], Path]
) -> None:
    account = metrics_of(airmix("account", "--preset", "private-iris", "--json"))
    told = {(each["adversary"], each["accountant"]): each["epsilon"] for each in account["statements"]}
    ran = {
        (each["adversary"], each["accountant"]): each["epsilon"]
        for each in iris_run[0]["privacy"]
        if each["adjacency"] == "remove-one"
    }
    for pair in (("server", "gdp"), ("server", "pld"), ("release", "gdp")):
        assert told[pair] == pytest.approx(ran[pair], rel=1e-6)


def changed(*changes: str) -> tuple[str, ...]:
    return tuple(part for change in changes for part in ("--set", change))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (("learner.model=mlp",), 'learner.model = "mlp": must be one of ridge, lda'),
        (("radio.schedule=poisson", "mixing.policy=dirmix"), 'radio.schedule = "poisson": needs mixing.policy'),
        (("workers.encoder=gradients", "workers.clip_norm=2"), "workers.clip_norm = 2: must be at most 1"),
        (("workers.encoder=scale",), "needs an encoder that bounds the norm"),
        (("privacy.sensitivity=paper",), 'privacy.sensitivity = "paper": d_X + d_Y bounds samples in [0, 1]'),
        (("workers.encoder=gradients",), 'workers.encoder = "gradients": needs images'),
        (("workers.holding=dealt",), "workers.count = 2000: must be at most the 100 samples of the pool"),
        (("workers.centre=private", "radio.fading=rician"), 'radio.fading = "rician": must be "none"'),
        (("workers.centre=private", "air.amplitude_error_db=1"), 'workers.centre = "private": needs the ideal air'),
        (("workers.centre=refined", "air.antennas=2"), 'workers.centre = "refined": needs the ideal air'),
        (("workers.centre=refined", "air.noise_uncertainty_db=1"), 'workers.centre = "refined": needs the ideal air'),
        (
            ("workers.dataset=digits", "workers.input_upper=16"),
            'workers.centre = "public": its constants are means of scikit-learn',
        ),
    ],
)
def test_mistakes_in_one_line(refused: Refused, changes: tuple[str, ...], line: str) -> None:
    assert line in refused(*IRIS, *changed(*changes))


def test_features_are_not_centred_without_an_encoder(refused: Refused) -> None:
    line = refused("run", "--preset", "paper-iris", *changed("workers.centre=own"))
    assert 'workers.centre = "own": needs an encoder that bounds the norm of what is sent' in line


def test_a_refused_private_run_leaves_its_name_free(
    airmix: Callable[..., Finished], refused: Refused, tmp_path: Path
) -> None:
    few = (*IRIS, "--private", "--set", "workers.count=40", "--set", "radio.scheduled=40", "--out", "here")
    assert "above it no worker can send" in refused(*few, "--set", "air.min_power_dbm=30")
    assert "so nobody could send" in refused(*few, "--set", "air.min_power_dbm=-20")
    assert list(tmp_path.iterdir()) == []
    done = airmix(*few)
    assert (done.returncode, "earlier release" in done.stderr) == (0, False)
