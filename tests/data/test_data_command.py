from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_mnist import CONTENT, TRAIN_LABELS, mirror, write_files
from typer.testing import CliRunner

from airmixml.cli.listings import app
from airmixml.data.mnist import MNIST_FILES
from airmixml.messages import AirMixError
from airmixml.progress import silent
from airmixml.registries import DATASETS

pytestmark = pytest.mark.usefixtures("tiny")


def run(*arguments: str) -> str:
    """Return what the command printed on stdout; let the errors through that the main program turns into a line."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_tells_the_public_facts_as_json(cache: Path) -> None:
    listed = {entry["name"]: entry for entry in json.loads(run("list", "--json"))["data_sets"]}
    iris, digits, mnist = listed["iris"], listed["digits"], listed["mnist"]
    assert (iris["train_samples"], iris["input_dim"], iris["label_dim"]) == (150, 4, 3)
    assert iris["input_lower"] == [4.3, 2.0, 1.0, 0.1]
    assert iris["input_upper"] == [7.9, 4.4, 6.9, 2.5]
    assert (digits["train_samples"], digits["input_dim"], digits["image_shape"]) == (1797, 64, [8, 8])
    assert (mnist["train_samples"], mnist["own_test_samples"], mnist["input_dim"]) == (60_000, 10_000, 784)
    assert (mnist["input_lower"], mnist["input_upper"]) == ([0.0], [255.0])
    assert (mnist["state"], mnist["folder"]) == ("missing", str(cache))
    fashion = listed["fashion-mnist"]
    assert (fashion["train_samples"], fashion["image_shape"], fashion["state"]) == (60_000, [28, 28], "missing")
    assert fashion["folder"] == str(cache.parent / "fashion-mnist")


@pytest.mark.parametrize(
    ("name", "facts"), [("breast-cancer", (569, 30, 2)), ("wine", (178, 13, 3)), ("diabetes", (442, 10, 1))]
)
def test_tables_have_round_bounds_that_hold_every_row(name: str, facts: tuple[int, int, int]) -> None:
    entry = next(each for each in json.loads(run("list", "--json"))["data_sets"] if each["name"] == name)
    assert (entry["train_samples"], entry["input_dim"], entry["label_dim"]) == facts
    raw = DATASETS.load(name).read(None, silent)
    lower, upper = np.array(raw.lower), np.array(raw.upper)
    assert (raw.inputs >= lower).all()
    assert (raw.inputs <= upper).all()
    # Two digits say no row's value; a measured extreme such as 28.11 has more.
    assert all(float(f"{bound:.2g}") == bound for bound in (*raw.lower, *raw.upper))
    unit = (raw.inputs - lower) / (upper - lower)
    known = DATASETS.load(name)
    if known.task == "classification":
        assert entry["label_dim"] == len(set(raw.labels.tolist()))
    else:
        assert (raw.labels >= raw.target_lower).all()
        assert (raw.labels <= raw.target_upper).all()
    assert known.scaled_mean == pytest.approx(np.sqrt((unit.mean(axis=0) ** 2).mean()), abs=5e-4)
    assert known.scaled_deviation == pytest.approx(np.sqrt(unit.var(axis=0).mean()), abs=5e-4)


def test_the_list_tells_whether_the_files_are_there(cache: Path) -> None:
    write_files(cache)
    assert json.loads(run("list", "--json"))["data_sets"][2]["state"] == "ready"
    (cache / TRAIN_LABELS).write_bytes(b"broken")
    assert json.loads(run("list", "--json"))["data_sets"][2]["state"] == "broken"
    assert (cache / TRAIN_LABELS).read_bytes() == b"broken"


def test_the_list_for_people_names_all_data_sets_and_the_folder(cache: Path) -> None:
    printed = run("list")
    assert all(name in printed for name in ("iris", "digits", "mnist", "4.3..7.9", "0..255"))
    assert str(cache) in printed.replace("\n", "")


def test_fetching_fills_the_cache_once(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    with mirror() as (address, asked):
        monkeypatch.setattr(MNIST_FILES, "mirrors", (address,))
        first = json.loads(run("fetch", "mnist", "--json"))
        second = json.loads(run("fetch", "mnist", "--json"))
        assert len(asked) == 4
    assert (first["folder"], first["fetched_files"], second["fetched_files"]) == (str(cache), 4, 0)
    assert {file["source"] for file in first["files"]} == {address}
    assert [file["bytes"] for file in second["files"]] == [len(content) for content in CONTENT.values()]
    assert "nothing to fetch" in run("fetch", "mnist")


def test_fetching_into_a_folder_leaves_the_cache_alone(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    with mirror() as (address, _):
        monkeypatch.setattr(MNIST_FILES, "mirrors", (address,))
        printed = run("fetch", "mnist", "--data-dir", str(tmp_path / "mine"))
    assert {path.name for path in (tmp_path / "mine").iterdir()} == set(CONTENT)
    assert not cache.exists()
    assert address in printed.replace("\n", "")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("minst", "'minst': no data set of that name; did you mean mnist"), ("iris", "iris: comes with scikit-learn")],
)
def test_only_published_data_sets_are_fetched(name: str, complaint: str) -> None:
    with pytest.raises(AirMixError, match=complaint):
        run("fetch", name)


def test_no_source_is_an_error_for_users() -> None:
    with pytest.raises(AirMixError, match="MNIST cannot be fetched"):
        run("fetch", "mnist", "--json")
