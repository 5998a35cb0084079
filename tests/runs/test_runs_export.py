"""The model of a run as an ONNX graph, compared with ``predict_proba`` by onnxruntime."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import airmixml
from airmixml import Scenario, export_onnx, load_model
from airmixml.messages import PluginError
from airmixml.registries import ENCODERS
from airmixml.workers import Encoder, FeatureCost, TorchEncoder

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

run = partial(airmixml.run, pictures=False)
LINEAR = ("privacy.sensitivity=encoder", "mixing.power=max", "learner.model=ridge", "radio.slots=300")
NETWORK = ("learner.model=mlp", "privacy.sensitivity=encoder", "mixing.power=max", "radio.slots=60", "learner.epochs=2")
IRIS: dict[str, tuple[str, ...]] = {
    "scale, mlp": ("mixing.power=max", "radio.slots=60", "learner.epochs=2"),
    "clip, private": (
        *("workers.encoder=clip", "workers.centre=private", "workers.constant=0.2", "privacy.epsilon=20"),
        *("privacy.sensitivity=encoder", "learner.model=lda"),
    ),
    "clip, refined": (
        *("workers.encoder=clip", "workers.centre=refined", "workers.norm=unit", "workers.constant=0.2"),
        *("privacy.sensitivity=encoder", "privacy.epsilon=20", "learner.model=lda"),
    ),
    "mixed, refined": (
        *("workers.encoder=mixed", "workers.features=9", "workers.centre=refined", "workers.norm=unit"),
        *("privacy.sensitivity=encoder", "privacy.epsilon=20", "learner.model=ridge"),
    ),
    "mixed, public": (*LINEAR, "workers.encoder=mixed", "workers.features=6", "workers.centre=public"),
    "projection, unit": (*LINEAR, "workers.encoder=projection", "workers.features=9", "workers.norm=unit"),
    "dct, own": (*LINEAR, "workers.encoder=dct", "workers.centre=own", "workers.clip_norm=0.5"),
}
IMAGES: dict[str, tuple[str, ...]] = {
    "scale, cnn": ("mixing.power=max", "radio.slots=40", "learner.epochs=1", "learner.model=cnn", "learner.filters=3,4",
                   "learner.kernel_size=2"),
    "convolution": (*LINEAR, "workers.encoder=convolution", "workers.features=40", "workers.centre=own"),
    "gradients, mixed": (*LINEAR, "workers.encoder=gradients", "workers.features=200", "workers.centre=own"),
    "cells": (*LINEAR, "workers.encoder=cells", "workers.features=100", "workers.centre=own"),
    "gradients, mlp": (*NETWORK, "workers.encoder=gradients", "workers.centre=own", "workers.constant=0.1"),
}  # fmt: skip
DIGITS = {name: ("digits", changes) for name, changes in IMAGES.items()}
ROUNDS = {"rounds": ("private-iris", ("learner.rounds=3",))}
CASES = {**{name: ("paper-iris", changes) for name, changes in IRIS.items()}, **DIGITS, **ROUNDS}


def answers(path: Path | str, rows: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """What onnxruntime makes of rows."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["rows"]
    assert [each.name for each in session.get_outputs()] == ["label", "probabilities"]
    label, likely = session.run(None, {"rows": rows})
    return label, likely


def test_every_encoder_of_ours_is_exported_here() -> None:
    named = {part.removeprefix("workers.encoder=") for _, changes in CASES.values() for part in changes}
    assert set(ENCODERS.own) <= named | {"scale", "embeddings", "windows"}


SIMILAR = ("clip, private", "mixed, refined", "gradients, mixed")


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.long) if name in SIMILAR else name for name in CASES]
)
def test_the_graph_computes_what_predict_does(case: str, tmp_path: Path) -> None:
    """Also outside the bounds, for one row, and for more rows than the encoders take at once."""
    preset, changes = CASES[case]
    run(Scenario.preset(preset).with_overrides(*changes).with_seed(5), out=tmp_path / "here")
    exported = export_onnx(tmp_path / "here", tmp_path / "model.onnx")
    model = load_model(tmp_path / "here")
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(700, model.n_features_in_)) * 6 + 5).astype(np.float32)
    label, likely = answers(tmp_path / "model.onnx", rows)
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(likely, expected, atol=2e-5)
    sure = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 1e-4
    assert sure.mean() > 0.5
    assert (label[sure] == model.predict(rows)[sure]).all()
    np.testing.assert_allclose(answers(tmp_path / "model.onnx", rows[:1])[1], expected[:1], atol=2e-5)
    assert (exported.bytes, exported.inputs) == ((tmp_path / "model.onnx").stat().st_size, model.n_features_in_)
    onnx.checker.check_model(onnx.load(tmp_path / "model.onnx"), full_check=True)


class Own(nn.Module):
    """A small network for images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.filters, self.last = nn.Conv2d(1, 3, 3), nn.Linear(3, 6)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return batch x 6."""
        last: torch.Tensor = self.last(self.filters(images).relu().mean(dim=(2, 3)))
        return last


@pytest.mark.filterwarnings("ignore")
def test_the_graph_of_a_file_is_no_part_of_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    axes = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    torch.onnx.export(Own().eval(), (torch.zeros(2, 1, 8, 8),), "f.onnx", dynamo=False, **axes)
    run(Scenario.preset("digits").with_overrides(*LINEAR, "workers.encoder=onnx:f.onnx"), out="there")
    with pytest.raises(PluginError, match=r'workers\.encoder = "onnx:f\.onnx": cannot be exported'):
        export_onnx("there", "model.onnx")


def test_a_torch_module_is_part_of_the_graph(tmp_path: Path) -> None:
    scenario = Scenario.preset("digits").with_overrides(*LINEAR, f"workers.encoder={ENCODERS.add(Own())}")
    run(scenario, out=tmp_path / "here")
    model = load_model(tmp_path / "here", encoder=TorchEncoder(Own()))
    export_onnx(model, tmp_path / "model.onnx")
    rows = np.random.default_rng(0).integers(0, 17, (300, 64)).astype(np.float32)
    np.testing.assert_allclose(answers(tmp_path / "model.onnx", rows)[1], model.predict_proba(rows), atol=2e-5)


def test_embeddings_are_exported_without_scaling(tmp_path: Path) -> None:
    inputs, labels = np.random.default_rng(0).normal(size=(60, 5)) * 30, np.array(["no", "yes"])[np.arange(60) % 2]
    np.savez(tmp_path / "rows.npz", inputs=inputs, labels=labels)
    changes = ("workers.encoder=embeddings", f"workers.dataset={tmp_path / 'rows.npz'}", "workers.centre=private")
    run(Scenario.preset("private-table").with_overrides(*changes), out=tmp_path / "here")
    exported = export_onnx(tmp_path / "here", tmp_path / "model.onnx")
    label, likely = answers(tmp_path / "model.onnx", inputs.astype(np.float32))
    model = load_model(tmp_path / "here")
    np.testing.assert_allclose(likely, model.predict_proba(inputs.astype(np.float32)), atol=2e-5)
    assert set(label) <= {"no", "yes"}
    assert exported.label_type == "string"


def test_colours_are_exported_and_windows_are_not(tmp_path: Path) -> None:
    rng, labels = np.random.default_rng(0), np.arange(60) % 2
    series = np.sin(np.arange(16) * (1 + labels[:, None, None])) + rng.normal(size=(60, 3, 16))
    np.savez(tmp_path / "series.npz", inputs=series, labels=labels, layout="channels x time")
    np.savez(tmp_path / "colours.npz", inputs=rng.random((60, 3, 9, 9)), labels=labels)
    for name, encoder in (("series", "windows"), ("colours", "cells")):
        changes = (f"workers.encoder={encoder}", f"workers.dataset={tmp_path / name}.npz", "workers.features=30")
        bounds = ("workers.input_lower=-5", "workers.input_upper=5", "workers.centre=none")
        run(Scenario.preset("private-table").with_overrides(*changes, *bounds), out=tmp_path / name, pictures=False)
    with pytest.raises(PluginError, match=r'workers\.encoder = "windows": cannot be exported'):
        export_onnx(tmp_path / "series", tmp_path / "series.onnx")
    export_onnx(tmp_path / "colours", tmp_path / "colours.onnx")
    model = load_model(tmp_path / "colours")
    rows = rng.normal(size=(50, model.n_features_in_)).astype(np.float32)
    likely = answers(tmp_path / "colours.onnx", rows)[1]
    np.testing.assert_allclose(likely, model.predict_proba(rows), atol=2e-5)


@pytest.mark.parametrize("task", ["regression", "multi-label"])
def test_other_tasks(task: str, tmp_path: Path) -> None:
    """Targets 3 x0 - 2 in their own units and within their bounds; labels that say which inputs are large."""
    rng = np.random.default_rng(0)
    inputs = rng.random((400, 3))
    labels = inputs[:, :1] * 3.0 - 2.0 if task == "regression" else (inputs > 0.5).astype(int)
    np.savez(tmp_path / "rows.npz", inputs=inputs, labels=labels)
    changes = (f"workers.task={task}", f"workers.dataset={tmp_path / 'rows.npz'}", "privacy.epsilon=1000")
    bounds = ["workers.input_lower=0", "workers.input_upper=1"]
    bounds += ["workers.target_lower=-2", "workers.target_upper=1"] if task == "regression" else []
    run(Scenario.preset("private-table").with_overrides("workers.norm=clip", *changes, *bounds), out=tmp_path / "here")
    model = load_model(tmp_path / "here")
    exported = export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(None, {"rows": inputs.astype(np.float32)})
    if task == "regression":
        assert model.score(inputs, labels[:, 0]) > 0.95
        assert (np.abs(model.predict(inputs * 9.0) + 0.5) <= 1.5).all()
        np.testing.assert_allclose(found[0][:, 0], model.predict(inputs.astype(np.float32)), atol=2e-5)
        assert exported.label_type == ""
    else:
        assert (model.predict(inputs) == labels).mean() > 0.9
        np.testing.assert_allclose(found[1], model.predict_proba(inputs.astype(np.float32)), atol=2e-5)
        assert (found[0] == (found[1] > 0.5)).all()


class Silent(Encoder):
    """Half of each input; it has no graph."""

    about = "half of each input"
    wrong = False
    takes_features = False

    def feature_count(self, workers: Any, input_dim: int) -> int:
        """Return one each."""
        return input_dim

    def features(self, workers: Any, unit_inputs: Any, image_shape: Any, rng: Any) -> Any:
        """Return the halves."""
        return unit_inputs / 2

    def cost(self, workers: Any, input_dim: int) -> FeatureCost:
        """Return one product each."""
        return FeatureCost(multiply_accumulates=input_dim)


class Wrong(Silent):
    """It has a graph, of something else."""

    def graph(self, workers: Any, input_dim: int, image_shape: Any, rng: Any) -> Any:
        """Return what changes the inputs in another way."""
        return nn.Sequential(nn.Flatten(), nn.Softmax(dim=1))


@pytest.mark.parametrize(("encoder", "said"), [(Silent(), "has no graph; see docs/ext"), (Wrong(), "off the model on")])
def test_what_cannot_be_exported(encoder: Encoder, said: str, tmp_path: Path) -> None:
    name = ENCODERS.add(encoder)
    run(Scenario.preset("paper-iris").with_overrides(*LINEAR, f"workers.encoder={name}"), out=tmp_path / "here")
    with pytest.raises(PluginError, match=said):
        export_onnx(tmp_path / "here", tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_the_command(airmix: Callable[..., subprocess.CompletedProcess[str]], small: Scenario, tmp_path: Path) -> None:
    run(small, out=tmp_path / "here")
    done = airmix("export", "here", "--out", "iris.onnx")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows, float32, N x 4" in done.stdout
    again = airmix("export", "here", "--out", "iris.onnx")
    assert again.stderr == (
        "airmix: error: iris.onnx: exists already; choose another --out, or --force to replace it\n"
    )
    done = airmix("export", "here", "--out", "iris.onnx", "--force", "--json")
    assert json.loads(done.stdout) == {
        "path": "iris.onnx",
        "bytes": (tmp_path / "iris.onnx").stat().st_size,
        "inputs": 4,
        "outputs": ["setosa", "versicolor", "virginica"],
        "label_type": "string",
        "opset": 17,
    }
    assert "cannot be written" in airmix("export", "here", "--out", "no/such/folder.onnx").stderr
    assert "not a run folder" in airmix("export", "nowhere").stderr
    done = airmix("export", "here")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "here.onnx").exists()  # beside the run, wherever the command is given
    assert not (tmp_path / "model.onnx").exists()


def test_without_the_extra(small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    run(small, out=tmp_path / "here")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        PluginError, match=r"export to ONNX: needs onnx and onnxruntime; pip install 'airmixml\[onnx\]'"
    ):
        export_onnx(tmp_path / "here", tmp_path / "model.onnx")
