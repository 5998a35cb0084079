"""Encoders of one's own: objects in Python, torch modules, ONNX files, and rows that are features already."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import airmixml
from airmixml import RunFolderError, Scenario, ScenarioError, load_model, simulate
from airmixml.messages import PluginError
from airmixml.registries import ENCODERS
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import (
    Encoder,
    FeatureCost,
    Signal,
    TorchEncoder,
    declared_bounds,
    encode,
    encoded_dim,
    load_dataset,
    worker_cost,
)

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

PLAIN = ("privacy.sensitivity=encoder", "mixing.power=max", "learner.model=ridge", "radio.slots=200")
Save = Callable[..., Path]


def network(width: int = 64, features: int = 5) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 7), nn.ReLU(), nn.Linear(7, features)).eval()


def images(features: int = 5) -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, features))
    return nn.Sequential(*layers).eval()


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Save a module for inputs of a shape as ONNX, and return what ``workers.encoder`` is then."""
    monkeypatch.chdir(tmp_path)

    def write(module: nn.Module, *shape: int, batch: int = 0, training: bool = False) -> str:
        example = (torch.rand(batch or 2, *shape),)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
            axes = {} if batch else {"x": {0: "n"}, "y": {0: "n"}}
            names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
            torch.onnx.export(
                module, example, "features.onnx", dynamo=False, training=mode, do_constant_folding=not training, **names
            )
        return "onnx:features.onnx"

    return write


# --- Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "shape"), [(network, (64,)), (images, (1, 8, 8))])
def test_features_are_those_of_the_module(save: Save, make: Callable[[], nn.Module], shape: Any) -> None:
    """600 rows, so that there are several blocks; the norm is bounded to 1 and declared so."""
    module = make()
    workers = Workers(encoder=save(module, *shape))
    inputs = np.random.default_rng(1).random((600, 64), dtype=np.float32)
    sent, _ = encode(workers, inputs, image_shape=(8, 8))
    with torch.no_grad():
        expected = module(torch.from_numpy(inputs).reshape(-1, *shape)).numpy()
    lengths = np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1.0)
    np.testing.assert_allclose(sent, expected / lengths, atol=1e-5)
    assert encoded_dim(workers, 64) == 5
    assert declared_bounds(workers, 5) == (1.0, 4.0)
    assert np.linalg.norm(sent, axis=1).max() <= 1.0
    assert np.array_equal(sent, encode(workers, inputs, image_shape=(8, 8))[0])


def test_a_run_with_a_file(save: Save) -> None:
    scenario = Scenario.preset("digits").with_overrides(f"workers.encoder={save(images(), 1, 8, 8)}", *PLAIN)
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    result = airmixml.run(scenario, out="here", pictures=False)
    data = load_dataset(scenario.workers, Streams(scenario.seed))
    assert data.input_dim == 5
    raw = load_model("here")
    assert raw.n_features_in_ == 64
    from sklearn.datasets import load_digits

    inputs, labels = load_digits(return_X_y=True)
    test = Streams(scenario.seed).generator("data").permutation(len(labels))[data.train_samples :]
    assert raw.score(inputs[test], labels[test]) == pytest.approx(result.accuracy.final)


def test_another_file_is_refused(save: Save, stop_at: Callable[..., Any], stopped: type[Exception]) -> None:
    name = save(images(), 1, 8, 8)
    small = ("privacy.sensitivity=encoder", "mixing.power=max", "radio.slots=50", "learner.epochs=5")
    scenario = Scenario.preset("digits").with_overrides(f"workers.encoder={name}", *small, "learner.model=mlp")
    airmixml.run(scenario, out="done", pictures=False)
    with pytest.raises(stopped):
        airmixml.run(scenario, out="here", checkpoint_seconds=0.0, progress=stop_at(2))
    save(images(6), 1, 8, 8)
    with pytest.raises(RunFolderError, match="holds an interrupted run with other settings"):
        airmixml.run(scenario, out="here")
    with pytest.raises(RunFolderError, match="is another file than the one that the run used"):
        load_model("done")
    os.remove(name.partition(":")[2])
    with pytest.raises(RunFolderError, match="is not there; put the same file there again"):
        load_model("done")


def test_a_sweep_knows_another_file(save: Save) -> None:
    from airmixml.sweeps import cut_into_batches
    from airmixml.sweeps.cells import RunCells

    scenario = Scenario.preset("digits").with_overrides(f"workers.encoder={save(network(), 64)}", *PLAIN)
    ((first,),) = cut_into_batches([scenario], RunCells())
    assert cut_into_batches([scenario], RunCells()) == [(first,)]
    save(network(features=6), 64)
    ((second,),) = cut_into_batches([scenario], RunCells())
    assert second.digest != first.digest


def test_a_graph_for_batches_of_one_size_is_refused(save: Save) -> None:
    workers = Workers(encoder=save(network(), 64, batch=4), clip_norm=1e6)
    with pytest.raises(PluginError, match="is for batches of 4; export it with a dynamic first dimension"):
        encode(workers, np.zeros((7, 64), dtype=np.float32))


def test_the_cost_of_a_graph_by_hand(save: Save) -> None:
    """Conv: 4 maps of 8 x 8 with 9 products; 4 x 5 at the end. Stored are 4 x 9 + 4 and 5 x 4 + 5 numbers."""
    expected = FeatureCost(multiply_accumulates=256 * 9 + 20, constant_bytes=4 * 65, working_numbers=256)
    workers = Workers(encoder=save(images(), 1, 8, 8), dataset="digits")
    assert ENCODERS.load(workers.encoder).cost(workers, 64) == expected
    whole = worker_cost(workers, 64, Signal.of(workers, 5, 10))
    assert whole.multiply_accumulates == expected.multiply_accumulates + 2 * 64 + 2 * 5 + 20


def test_wrong_shapes_are_refused(save: Save) -> None:
    colour = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten())
    workers = Workers(encoder=save(colour, 3, 8, 8))
    with pytest.raises(ScenarioError, match=r"but the data give N x 1 x 8 x 8 or .*put resizing and channels into"):
        encode(workers, np.zeros((2, 64), dtype=np.float32), image_shape=(8, 8))
    workers = Workers(encoder=save(network(), 64))
    with pytest.raises(ScenarioError, match="but the data give N x 4; put resizing"):
        encode(workers, np.zeros((2, 4), dtype=np.float32))


class Wild(nn.Module):
    """Misbehaves in one way."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.layer = way, nn.Linear(64, 8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return features, or what should be some."""
        if self.way == "nan":
            return self.layer(inputs) / (0.0 * inputs[:, :8])
        if self.way == "dropout":
            return nn.functional.dropout(self.layer(inputs), 0.5, training=True)
        if self.way == "batch":
            return self.layer(inputs - inputs.mean(dim=0))
        return self.layer(inputs).sum(dim=0)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("nan", "gives features that are not finite"),
        ("dropout", "gives other features for the same inputs; export it in evaluation mode"),
        ("batch", "gives a row other features among other rows than alone"),
        ("sum", "one row each"),
    ],
)
def test_networks_that_no_bound_holds_for_are_refused(save: Save, way: str, said: str) -> None:
    workers = Workers(encoder=save(Wild(way), 64, training=way == "dropout"))
    with pytest.raises((PluginError, ScenarioError), match=said):
        encode(workers, np.zeros((2, 64), dtype=np.float32))


def test_broken_files(save: Save) -> None:
    name = save(network(), 64)
    path = Path(name.partition(":")[2])
    whole = path.read_bytes()
    inputs = np.zeros((2, 64), dtype=np.float32)
    for content in (whole[: len(whole) // 2], b"", b"junk"):
        path.write_bytes(content)
        with pytest.raises(PluginError, match=f"{path}: not a whole"):
            encode(Workers(encoder=name), inputs)
    path.unlink()
    with pytest.raises(ScenarioError, match=r"cannot be read \(No such file or directory\); paths are relative"):
        encode(Workers(encoder=name), inputs)
    path.write_bytes(whole)
    assert encode(Workers(encoder=name), inputs)[0].shape == (2, 5)


def test_names_of_files() -> None:
    with pytest.raises(ScenarioError, match=r'"onnx:FILE"; did you mean "gradients"'):
        Workers(encoder="gradient")
    with pytest.raises(ScenarioError, match="names no file; write onnx:FILE with the path of one"):
        Workers(encoder="onnx:")
    assert "| onnx:FILE)" in Scenario().to_toml(comments=True)
    with pytest.raises(ScenarioError, match=r"workers\.features = 3: must be 0"):
        Scenario().with_overrides("workers.encoder=onnx:a.onnx", "workers.features=3", "privacy.sensitivity=encoder")


def test_without_the_extra(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    name = save(network(features=9), 64)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PluginError, match=r"needs onnx and onnxruntime; pip install 'airmixml\[onnx\]'"):
        encode(Workers(encoder=name), np.zeros((2, 64), dtype=np.float32))


# --- Objects ----------------------------------------------------------------------------------------------------------


class Doubled(Encoder):
    """Every input twice, the second time with a factor."""

    about = "every input twice"
    takes_features = False

    def __init__(self, factor: float = 0.5) -> None:
        self.factor = factor

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return two for each input."""
        return 2 * input_dim

    def features(self, workers: Workers, unit_inputs: Any, image_shape: Any, rng: Any) -> Any:
        """Return both."""
        return np.hstack([unit_inputs, self.factor * unit_inputs])

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Return one product each."""
        return FeatureCost(multiply_accumulates=input_dim)


@pytest.mark.parametrize("given", [[1.0] * 30, [[1.0], [1.0, 2.0]], [[1.0]], None])
def test_features_that_are_no_table_are_refused_in_one_line(given: Any) -> None:
    class Listing(Doubled):
        def features(self, workers: Workers, unit_inputs: Any, image_shape: Any, rng: Any) -> Any:
            """Return a list."""
            return given

    with pytest.raises(PluginError, match=r"^workers\.encoder = .*: gives something other than an array of samples x"):
        encode(Workers(encoder=Listing()), np.zeros((30, 4), dtype=np.float32))


@pytest.mark.parametrize("shape", [(30, 8, 1), (30, 7), (30,)])
def test_mixed_features_that_are_no_table_of_that_width_are_refused(shape: tuple[int, ...]) -> None:
    class Mixing(Doubled):
        def after_centring(self, workers: Workers, rng: Any) -> Any:
            """Return what does not give as many features as ``feature_count`` says."""
            return lambda rows: np.zeros(shape, dtype=np.float32)

    with pytest.raises(PluginError, match="features, not as many as feature_count says"):
        encode(Workers(encoder=Mixing()), np.zeros((30, 4), dtype=np.float32))


def test_an_object_is_an_encoder(tmp_path: Path) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides(*PLAIN, "workers.encoder=clip")
    scenario = Scenario(**{**vars(scenario), "workers": Workers(encoder=Doubled())})
    assert scenario.workers.encoder.startswith("object:Doubled-")
    assert simulate(scenario).inputs.shape == (200, 8)
    airmixml.run(scenario, out=tmp_path / "here", pictures=False)
    model = load_model(tmp_path / "here", encoder=Doubled())
    rows = np.array([[5.0, 3.0, 2.0, 1.0]])
    assert model.predict(rows).shape == (1,)
    ENCODERS.loaded.pop(scenario.workers.encoder)  # as in another process
    with pytest.raises(ScenarioError, match=r"an object that was given in Python.*load_model takes it as encoder="):
        load_model(tmp_path / "here")
    with pytest.raises(ScenarioError, match="an object that was given in Python"):
        load_model(tmp_path / "here", encoder=Doubled(0.25))  # another one


def test_names_of_objects() -> None:
    name = ENCODERS.add(Doubled())
    assert ENCODERS.add(Doubled) == ENCODERS.add(pickle.loads(pickle.dumps(Doubled()))) == name
    assert ENCODERS.add(Doubled(0.25)) != name
    assert name not in ENCODERS.names
    assert Workers(encoder=name) == Workers(encoder=Doubled())

    class Half:
        about = "half an encoder"

    with pytest.raises(PluginError, match="has no feature_count, features, cost"):
        Workers(encoder=Half())
    with pytest.raises(ScenarioError, match=r"^workers\.encoder = 3: must be one of"):
        Workers(encoder=3)


def test_objects_and_embeddings_in_the_estimator() -> None:
    from sklearn.base import clone
    from sklearn.datasets import load_iris

    inputs, classes = load_iris(return_X_y=True)
    settings: dict[str, Any] = {"epsilon": 50.0, "random_state": 0, "mode": "simulation"}
    model = airmixml.AirMixClassifier(encoder=Doubled(), input_bounds=(0, 10), **settings)
    expected = model.fit(inputs, classes).predict_proba(inputs)
    assert (clone(model).fit(inputs, classes).predict_proba(inputs) == expected).all()
    sent = pickle.dumps(model)
    ENCODERS.loaded.pop(model.encoder_.encoder)  # as in another process
    assert (pickle.loads(sent).predict_proba(inputs) == expected).all()
    raw = airmixml.AirMixClassifier(encoder="embeddings", norm="unit", **settings)
    assert raw.fit(inputs - 3.0, classes).score(inputs - 3.0, classes) > 0.6
    with pytest.raises(ScenarioError, match="input_bounds = None: must be"):
        airmixml.AirMixClassifier(encoder=Doubled(), classes=(0, 1, 2)).fit(inputs, classes)


def test_a_torch_module_is_an_encoder() -> None:
    """It is copied as it is, in evaluation mode: what becomes of it afterwards changes no features."""
    torch.manual_seed(3)
    module = nn.Sequential(nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 6))
    inputs = np.random.default_rng(1).random((9, 64), dtype=np.float32)
    workers = Workers(encoder=module, clip_norm=1e6)
    assert module.training
    sent, _ = encode(workers, inputs)
    with torch.no_grad():
        np.testing.assert_allclose(sent, module.eval()(torch.from_numpy(inputs)).numpy(), atol=1e-6)
    name = ENCODERS.add(pickle.loads(pickle.dumps(TorchEncoder(module))))
    assert name == workers.encoder
    module[2].bias.data += 1.0
    assert Workers(encoder=module).encoder != workers.encoder
    assert np.array_equal(encode(workers, inputs)[0], sent)


def test_a_torch_module_costs_what_its_graph_costs_and_is_refused_alike() -> None:
    workers = Workers(encoder=images(), dataset="digits")
    expected = FeatureCost(multiply_accumulates=256 * 9 + 20, constant_bytes=4 * 65, working_numbers=256)
    assert ENCODERS.load(workers.encoder).cost(workers, 64) == expected
    for module, refusal in ((network(), "cannot be multiplied"), (Summed(), "not one tensor with a row for each")):
        said = rf'"TorchEncoder\(.*{refusal}.*, but the data give N x 4; put resizing'
        with pytest.raises(ScenarioError, match=said):
            encode(Workers(encoder=module), np.zeros((2, 4), dtype=np.float32))


class Summed(nn.Module):
    """One number for all rows."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return their sum."""
        return rows.sum()


# --- Rows that are features already -----------------------------------------------------------------------------------


def test_embeddings_need_no_bounds_and_have_their_norm_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    inputs = rng.normal(size=(300, 6)) + 40.0 * np.eye(6)[labels]
    np.savez(tmp_path / "rows.npz", inputs=inputs, labels=labels)
    changes = ("workers.encoder=embeddings", f"workers.dataset={tmp_path / 'rows.npz'}", "workers.centre=none")
    scenario = Scenario.preset("private-table").with_overrides(*changes, "workers.norm=unit", "privacy.epsilon=50")
    scenario = airmixml.settle(scenario)
    airmixml.run(scenario, out=tmp_path / "here", pictures=False)
    data = load_dataset(scenario.workers, Streams(0))
    np.testing.assert_allclose(np.linalg.norm(data.train_inputs, axis=1), 1.0, atol=1e-5)
    assert data.clipped_values == 0
    assert declared_bounds(scenario.workers, 7) == (1.0, 4.0)
    model = load_model(tmp_path / "here")
    assert model.score(inputs, labels) == 1.0
    with pytest.raises(
        ScenarioError, match=r'workers\.centre = "public": must be .*, whose inputs have no declared bounds'
    ):
        scenario.with_overrides("workers.centre=public")
    with pytest.raises(ScenarioError, match=r"workers\.input_lower = \[0\.0\]: must be empty"):
        scenario.with_overrides("workers.input_lower=0")
    cost = worker_cost(scenario.workers, 6, Signal.of(scenario.workers, 7, 3))
    assert cost.multiply_accumulates == 2 * 6 + 20 + 7 * 8 // 2 + 7  # norm, products, products with the label


# --- Networks that look at other rows ---------------------------------------------------------------------------------


class Peeking(Doubled):
    """Half of the difference to the mean of the batch, beside a constant that is large."""

    def features(self, workers: Workers, unit_inputs: Any, image_shape: Any, rng: Any) -> Any:
        """Return both."""
        return np.hstack([np.full_like(unit_inputs, 1e3), 0.5 * (unit_inputs - unit_inputs.mean(axis=0))])


def test_a_large_constant_does_not_hide_a_look_at_other_rows() -> None:
    with pytest.raises(PluginError, match="other features among other rows than alone"):
        airmixml.AirMixClassifier(encoder=Peeking(), input_bounds=(0.0, 1.0), classes=(0, 1)).fit(
            np.random.default_rng(0).random((40, 3)), np.arange(40) % 2
        )
