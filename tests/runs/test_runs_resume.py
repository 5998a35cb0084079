"""Checkpoints: a run that is stopped and resumed ends where an uninterrupted one does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import airmixml
from airmixml import RunFolderError, Scenario, Speed, load_network
from airmixml.files import ResultStore
from airmixml.progress import Progress
from airmixml.runs.model_files import FileCheckpoint

run = partial(airmixml.run, pictures=False, checkpoint_seconds=0.0)  # a small run takes a fraction of a second

StopAt = Callable[[int], Progress]


def curve(folder: Path) -> bytes:
    return (folder / "learning_curve.csv").read_bytes()


def same_model(one: Path, other: Path) -> bool:
    first, second = (load_network(folder).state_dict() for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("preset", ["paper-iris", "digits"])
def test_a_run_stopped_twice_ends_like_one_never_stopped(
    preset: str, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    scenario = Scenario.preset(preset).with_overrides("radio.slots=100", "learner.epochs=6", "learner.batch_size=30")
    run(scenario, out=tmp_path / "whole")
    for epoch in (2, 5):
        with pytest.raises(stopped):
            run(scenario, out=tmp_path / "cut", progress=stop_at(epoch))
        assert not (tmp_path / "cut").exists()
    metrics = run(scenario, out=tmp_path / "cut", speed=Speed(block_slots=7))
    assert metrics.resumed_from_epoch == 5
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert same_model(tmp_path / "cut", tmp_path / "whole")
    assert not (tmp_path / "cut.partial").exists()


def test_a_run_stopped_after_its_last_epoch_trains_no_more(
    small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    run(small, out=tmp_path / "whole")
    with pytest.raises(stopped):
        run(small, out=tmp_path / "cut", progress=stop_at(6))
    assert run(small, out=tmp_path / "cut").resumed_from_epoch == 6
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")


def damage(kind: str, good: bytes) -> bytes:
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 0x10  # one bit, inside a weight
    return {
        "empty": b"",
        "cut": good[: len(good) // 2],
        "random": random.Random(0).randbytes(1000),
        "text": b"not a checkpoint",
        "flipped": bytes(flipped),
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "cut", "random", "text", "flipped"])
def test_a_damaged_checkpoint_only_costs_its_epochs(
    kind: str, small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    run(small, out=tmp_path / "whole")
    with pytest.raises(stopped):
        run(small, out=tmp_path / "cut", progress=stop_at(4))
    path = tmp_path / "cut.partial" / "checkpoint.npz"
    path.write_bytes(damage(kind, path.read_bytes()))
    assert run(small, out=tmp_path / "cut").resumed_from_epoch == 0
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert same_model(tmp_path / "cut", tmp_path / "whole")


def state_of(epoch: int, values: int = 50) -> dict[str, Any]:
    """The state of a training of one network, as if of twelve epochs."""
    weight = torch.arange(float(values))
    moments = [{"step": torch.tensor(float(epoch)), "exp_avg": weight / 2}]
    return {
        "epoch": epoch,
        "epochs": 12,
        "epoch_steps": 1,
        "model": {"weight": weight},
        "moments": moments,
        "loss": [[1.0 / done] for done in range(1, epoch + 1)],
        "test_accuracy": [[0.5]] * epoch,
    }


def test_values_that_numpy_has_no_type_for_are_kept(tmp_path: Path) -> None:
    thirds = torch.arange(5, dtype=torch.bfloat16) / 3
    FileCheckpoint(tmp_path, every_seconds=0).save(state_of(3) | {"model": {"weight": thirds}})
    loaded = FileCheckpoint(tmp_path).load(state_of(0) | {"model": {"weight": torch.zeros_like(thirds)}})
    assert loaded is not None
    assert torch.equal(loaded["model"]["weight"].bfloat16(), thirds)


def test_a_flipped_bit_in_a_checkpoint_is_noticed_or_harmless(tmp_path: Path) -> None:
    FileCheckpoint(tmp_path, every_seconds=0).save(state_of(3))
    path = tmp_path / "checkpoint.npz"
    good = path.read_bytes()
    noticed, places = 0, range(0, len(good), 23)
    for place in places:
        flipped = bytearray(good)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        loaded = FileCheckpoint(tmp_path).load(state_of(0))
        noticed += loaded is None
        if loaded is not None:  # the bit belongs to a date or the like
            assert loaded["epoch"] == 3
            assert torch.equal(loaded["model"]["weight"], torch.arange(50.0))
            assert torch.equal(loaded["moments"][0]["exp_avg"], torch.arange(50.0) / 2)
            assert loaded["loss"] == state_of(3)["loss"]
    assert noticed > 0.7 * len(places)


Content = tuple[Any, dict[str, NDArray[Any]]]
ODD: dict[str, Callable[[Any, dict[str, NDArray[Any]]], Content]] = {
    "no values": lambda _, arrays: (None, arrays),
    "an epoch in words": lambda values, arrays: ({**values, "epoch": "four"}, arrays),
    "an epoch beyond the last": lambda values, arrays: ({**values, "epoch": 7}, arrays),
    "of a longer training": lambda values, arrays: ({**values, "epochs": 500}, arrays),
    "no arrays": lambda values, _: (values, {}),
    "one array more": lambda values, arrays: (values, {**arrays, "more": np.zeros(3)}),
    "another shape": lambda values, arrays: (values, {**arrays, "model/0_weight": np.zeros((3, 5), np.float32)}),
    "another type": lambda values, arrays: (values, {name: each.astype(np.float64) for name, each in arrays.items()}),
    "text": lambda values, arrays: (values, {**arrays, "model/0.bias": np.array("text")}),
    "too short a curve": lambda values, arrays: (values, {**arrays, "loss": arrays["loss"][:2]}),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_checkpoint_with_a_right_checksum_is_told_and_never_resumed_from(
    kind: str, small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(stopped):
        run(small, out=tmp_path / "cut", progress=stop_at(4))
    store = ResultStore(tmp_path / "cut.partial", f"cpu torch {torch.__version__}")
    content: Content | None = store.load("checkpoint.npz", lambda values, arrays: (values, arrays))
    assert content is not None
    store.save("checkpoint.npz", *ODD[kind](*content))
    with pytest.raises(RunFolderError) as refusal:
        run(small, out=tmp_path / "cut")
    line = str(refusal.value)
    assert line.startswith(f"{tmp_path / 'cut.partial' / 'checkpoint.npz'}: does not hold what airmix wrote (")
    assert line.endswith("); delete it and give the same command again")
    assert "\n" not in line
    assert not any(word in line for word in ("object", "NoneType", "subscript", "dtype", "indices"))
    assert not (tmp_path / "cut").exists()
    (tmp_path / "cut.partial" / "checkpoint.npz").unlink()
    assert run(small, out=tmp_path / "cut").resumed_from_epoch == 0


def test_checkpoints_are_seconds_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    checkpoint = FileCheckpoint(tmp_path, every_seconds=5.0)
    kept = []
    for epoch in range(1, 13):
        now += 1.0
        checkpoint.save(state_of(epoch))
        state = FileCheckpoint(tmp_path).load(state_of(0))
        kept.append(0 if state is None else state["epoch"])
    assert kept == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]


def test_temporary_files_of_a_killed_run_do_not_reach_the_finished_folder(
    small: Scenario, stop_at: StopAt, stopped: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, replace = set(), Path.replace

    def spy(path: Path, target: Path) -> Path:
        temporary.add(path)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", spy)
        with pytest.raises(stopped):
            run(small, out=tmp_path / "cut", progress=stop_at(4))
    assert temporary
    for path in temporary:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")  # as if killed before the file got its name
    run(small, out=tmp_path / "cut")
    files = {"scenario.toml", "metrics.json", "learning_curve.csv", "ledger.npz", "model.npz"}
    assert {entry.name for entry in (tmp_path / "cut").iterdir()} == files


def write_csv(path: Path, columns: int, seed: int) -> None:
    values = np.random.default_rng(seed).random((60, columns))
    names = ",".join(f"c{number}" for number in range(columns))
    rows = [",".join(f"{value:.3f}" for value in row) + f",{place % 3}" for place, row in enumerate(values)]
    path.write_text("\n".join([f"{names},label", *rows]) + "\n")


@pytest.mark.parametrize("columns", [3, 4])
def test_a_data_file_that_changed_meanwhile_makes_it_another_run(
    columns: int, stop_at: StopAt, stopped: type[Exception], tmp_path: Path
) -> None:
    """Else one learning curve would tell of two data sets, or the checkpoint would not fit the network."""
    data = tmp_path / "data.csv"
    overrides: tuple[Any, ...] = (
        f"workers.dataset={data}",
        "workers.count=30",
        "workers.train_samples=40",
        "workers.input_lower=0",
        "workers.input_upper=1",
        "mixing.power=max",
        "radio.slots=50",
        "learner.epochs=6",
    )
    scenario = Scenario().with_overrides(*overrides)
    write_csv(data, 3, seed=0)
    with pytest.raises(stopped):
        run(scenario, out=tmp_path / "cut", progress=stop_at(4))
    write_csv(data, columns, seed=1)
    with pytest.raises(RunFolderError, match="interrupted run with other settings"):
        run(scenario, out=tmp_path / "cut")
    assert run(scenario, out=tmp_path / "cut", force=True).resumed_from_epoch == 0
