"""Reading run folders back."""

from __future__ import annotations

import json
import math
import shutil
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import airmixml
from airmixml import RunFolderError, Scenario, ScenarioError, load_metrics, load_network
from airmixml.edge.learners import build_model
from airmixml.registries import LEARNERS
from airmixml.runs import SeedsResult
from airmixml.runs.model_files import read_stored, save_deployed
from airmixml.streams import Streams
from airmixml.workers import load_dataset

SMALL = Scenario.preset("paper-iris").with_overrides("radio.slots=100", "learner.epochs=6")
run = partial(airmixml.run, pictures=False, checkpoint_seconds=0.0)  # a small run takes a fraction of a second


@pytest.mark.parametrize("preset", ["paper-iris", "digits"])
def test_the_stored_model_scores_what_the_metrics_say(preset: str, tmp_path: Path) -> None:
    easy = ("radio.slots=300", "radio.scheduled=4", "mixing.alpha=1", "mixing.power=max")
    scenario = Scenario.preset(preset).with_overrides(*easy, "learner.epochs=4", "learner.learning_rate=0.01")
    metrics = run(scenario, out=tmp_path / "here").to_dict()
    model = load_network(tmp_path / "here")
    data = load_dataset(scenario.workers, Streams(scenario.seed))
    with torch.no_grad():
        classes = model(torch.from_numpy(data.test_inputs)).argmax(dim=1).numpy()
    assert (classes == data.test_labels).mean() == pytest.approx(metrics["accuracy"]["final"], abs=1e-12)
    assert len(set(classes.tolist())) > 1  # a model, not a constant
    assert load_metrics(tmp_path / "here") == metrics


class OddMlp(LEARNERS.load("mlp")):  # type: ignore[misc]
    """Another package's learner: its values are called as other arrays of the file, or words of ``savez``."""

    def build(self, *arguments: Any) -> nn.Sequential:
        model: nn.Sequential = super().build(*arguments)
        for name in ("lower", "private_mean", "file", "about"):
            model.register_parameter(name, nn.Parameter(torch.zeros(2, dtype=torch.bfloat16)))
        return model


def test_values_of_any_name_and_type_load_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="odd", value=f"{__name__}:OddMlp", group=LEARNERS.group)
    monkeypatch.setitem(vars(LEARNERS), "plugins", {"odd": point})
    scenario = SMALL.with_overrides("learner.model=odd")
    dataset = load_dataset(scenario.workers, Streams(0))
    model = build_model(scenario.learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    for number, value in enumerate(model.parameters()):
        nn.init.constant_(value, number / 3)
    save_deployed(model, dataset, tmp_path, scenario, {})
    stored = read_stored(tmp_path)
    found = stored.network.state_dict()
    assert {name: value.dtype for name, value in found.items()}["file"] == torch.bfloat16
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
    assert stored.encoder.private_mean is None
    assert dataset.row_format is not None
    assert np.array_equal(stored.encoder.row_format.lower, dataset.row_format.lower)


def test_partial_folders_are_refused_even_with_metrics_in_them(
    small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(small, out=tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "here.partial")
    with pytest.raises(RunFolderError, match="an interrupted run"):
        load_metrics(tmp_path / "here.partial")
    with pytest.raises(RunFolderError, match="an interrupted run"):
        load_network(tmp_path / "here.partial")
    monkeypatch.chdir(tmp_path / "here.partial")
    with pytest.raises(RunFolderError, match="an interrupted run"):
        load_metrics(Path("."))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"a": 1}}'])
def test_damaged_metrics_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.json").write_bytes(content)
    with pytest.raises(RunFolderError, match=r"metrics\.json: .*delete the folder .* and run the command that made it"):
        load_metrics(tmp_path)


ODD: dict[str, dict[str, Any]] = {
    "another key": {"more": 1},
    "accuracy NaN": {"accuracy": {"final": math.nan, "best": 1.0, "best_epoch": 1}},
    "accuracy above one": {"accuracy": {"final": 1.5, "best": 1.5, "best_epoch": 1}},
    "best below final": {"accuracy": {"final": 0.5, "best": 0.4, "best_epoch": 1}},
    "a list": {"accuracy": [0.5, 0.5]},
    "no privacy": {"privacy": []},
    "privacy by name": {"privacy": {"epsilon": 5.0}},
    "a bare epsilon": {"privacy": [{"epsilon": 5.0}]},
    "a seed in words": {"seed": "0"},
    "no energy": {"energy_joules": None},
    "a truth": {"snr_db": True},
    "a ledger without the worst": {"ledger": {"median_epsilon": 1.0}},
    "another seed": {"seed": 3},
    "runs that are none": {"runs": [1, 2]},
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds that was stopped in the second."""
    folder = tmp_path_factory.mktemp("interrupted") / "here.partial"

    def progress(stage: str, done: int, _total: int) -> None:
        if (folder / "seed-0").exists() and (stage, done) == ("training", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SMALL, seeds=2, out=folder.with_suffix(""), progress=progress)
    return folder


@pytest.mark.parametrize("kind", ODD)
def test_odd_metrics_are_refused_and_never_taken_up(kind: str, interrupted: Path, tmp_path: Path) -> None:
    """Neither by those who read a folder, nor as one of several seeds."""
    shutil.copytree(interrupted, tmp_path / "here.partial")
    path = tmp_path / "here.partial" / "seed-0" / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **ODD[kind]}))
    if kind != "another seed":
        with pytest.raises(RunFolderError, match=rf"^{path}: does not hold what airmix wrote"):
            load_metrics(path.parent)
    with pytest.raises(
        RunFolderError, match=rf"^{path}: .*; delete the folder {path.parent} and run the command that made it again"
    ):
        run(SMALL, seeds=2, out=tmp_path / "here")


def test_a_deleted_seed_is_run_again(interrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(interrupted, tmp_path / "here.partial")
    shutil.rmtree(tmp_path / "here.partial" / "seed-0")
    assert isinstance(run(SMALL, seeds=2, out=tmp_path / "here"), SeedsResult)


def test_several_seeds_are_means_and_the_worst(small: Scenario, tmp_path: Path) -> None:
    result = run(small.with_overrides("mixing.power=max"), seeds=3, out=tmp_path / "here")
    assert isinstance(result, SeedsResult)
    assert load_metrics(tmp_path / "here") == result.to_dict()
    finals = [each.accuracy.final for each in result.runs]
    assert result.accuracy.final == pytest.approx(sum(finals) / 3)
    assert result.score_deviations["final"] == pytest.approx(np.std(finals, ddof=1))
    assert result.energy_joules == pytest.approx(np.mean([each.energy_joules for each in result.runs]))
    assert result.power_dbm.largest == max(each.power_dbm.largest for each in result.runs)
    assert result.ledger.worst_epsilon == max(each.ledger.worst_epsilon for each in result.runs)
    for place, statement in enumerate(result.privacy):
        assert statement.epsilon == max(each.privacy[place].epsilon for each in result.runs)


def test_folders_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(RunFolderError, match="not a run folder") as caught:
            load_metrics(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["missing", "junk", "cut", "other"])
def test_damaged_models_are_refused(small: Scenario, tmp_path: Path, damage: str) -> None:
    run(small, out=tmp_path / "here")
    path = tmp_path / "here" / "model.npz"
    if damage == "missing":
        path.unlink()
    elif damage == "junk":
        path.write_bytes(b"junk")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        np.savez(path, weight=np.zeros(3))
    with pytest.raises(RunFolderError, match=r"model\.npz"):
        load_network(tmp_path / "here")


def test_a_folder_of_several_seeds_has_a_model_per_seed(small: Scenario, tmp_path: Path) -> None:
    metrics = run(small, seeds=2, out=tmp_path / "both")
    with pytest.raises(RunFolderError, match="seed"):
        load_network(tmp_path / "both")
    for each in metrics.runs:
        assert isinstance(load_network(Path(each.run_dir)), torch.nn.Sequential)
        assert load_metrics(Path(each.run_dir)) == each.to_dict()


def test_the_number_of_seeds_is_checked(small: Scenario, tmp_path: Path) -> None:
    for seeds in (0, -1):
        with pytest.raises(ScenarioError, match="seeds"):
            run(small, seeds=seeds, out=tmp_path / "here")
    with pytest.raises(ScenarioError, match="9223372036854775808"):
        run(small.with_seed(2**63 - 1), seeds=2, out=tmp_path / "here")
    assert list(tmp_path.iterdir()) == []


def test_any_number_of_seeds_begins_at_once(
    small: Scenario, stop_at: Any, stopped: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, with_seed = [], Scenario.with_seed

    def count(scenario: Scenario, seed: int) -> Scenario:
        made.append(seed)
        assert len(made) < 100, "makes all scenarios before it runs the first"
        return with_seed(scenario, seed)

    monkeypatch.setattr(Scenario, "with_seed", count)
    with pytest.raises(stopped):
        run(small, seeds=10**5, out=tmp_path / "here", progress=stop_at(1))


def test_metrics_are_plain_json_without_nan(small: Scenario, tmp_path: Path) -> None:
    def no_constant(name: str) -> float:
        pytest.fail(f"metrics.json holds {name}")

    extreme = small.with_overrides("learner.learning_rate=1000", "learner.epochs=20", "mixing.power=max")
    run(extreme, out=tmp_path / "here")
    json.loads((tmp_path / "here" / "metrics.json").read_text(), parse_constant=no_constant)
