from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import tiny_mnist
from tiny_mnist import CONTENT, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, write_files

from airmixml.data.fetching import read_bounded
from airmixml.data.mnist import FASHION_MNIST_FILES, MNIST, MNIST_FILES, PublishedFile, PublishedSet, cache_folder
from airmixml.messages import DataError
from airmixml.progress import silent
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import load_dataset

# What the publisher tells; a typing error in the table would make MNIST unusable.
PUBLISHED_BYTES = [47_040_016, 60_008, 7_840_016, 10_008]


@pytest.mark.parametrize("published", [MNIST_FILES, FASHION_MNIST_FILES])
def test_the_table_has_the_published_lengths(published: PublishedSet) -> None:
    assert [file.byte_count for file in published.files] == PUBLISHED_BYTES
    assert len({file.md5 for file in (*MNIST_FILES.files, *FASHION_MNIST_FILES.files)}) == 8
    assert len(set(published.class_names)) == 10


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("suffix", "dotted"), [("", False), ("", True), (".gz", False), (".gz", True)])
def test_a_folder_of_the_users_is_read_under_all_names(tmp_path: Path, suffix: str, dotted: bool) -> None:
    write_files(tmp_path / "mine", suffix=suffix, dotted=dotted)
    raw = MNIST.load(tmp_path / "mine", silent)
    assert raw.labels.tolist() == [5, 0, 4, 1, 9, 2]
    assert raw.inputs.shape == (6, 784)
    assert raw.inputs[:, 0].tolist() == [10, 11, 12, 13, 14, 15]
    assert raw.inputs[:, -1].tolist() == [255] * 6
    assert raw.test_inputs is not None
    assert raw.test_inputs[:, 5].tolist() == [100, 101, 102]
    assert raw.class_names == tuple("0123456789")


@pytest.mark.usefixtures("tiny")
def test_missing_files_in_the_users_folder_are_named_and_nothing_else_is_tried(tmp_path: Path, cache: Path) -> None:
    write_files(cache)
    write_files(tmp_path / "mine")
    (tmp_path / "mine" / TEST_LABELS).unlink()
    with pytest.raises(DataError, match=f"mine: has no {TEST_LABELS}, neither") as caught:
        MNIST.load(tmp_path / "mine", silent)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("damage", ["other byte", "cut", "longer", "empty"])
def test_a_broken_file_in_the_users_folder_is_named_and_left_alone(tmp_path: Path, damage: str) -> None:
    write_files(tmp_path)
    good = CONTENT[TRAIN_IMAGES]
    bad = {"other byte": good[:-1] + b"\0", "cut": good[:-1], "longer": good + b"\0", "empty": b""}[damage]
    (tmp_path / TRAIN_IMAGES).write_bytes(bad)
    with pytest.raises(DataError, match=f"{TRAIN_IMAGES}: not the published"):
        MNIST.load(tmp_path, silent)
    assert (tmp_path / TRAIN_IMAGES).read_bytes() == bad


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(CONTENT[TRAIN_IMAGES])[:-9], gzip.compress(b"x")],
    ids=["empty", "not gzip", "cut", "other content"],
)
def test_a_broken_gzip_file_is_named(tmp_path: Path, content: bytes) -> None:
    write_files(tmp_path, suffix=".gz")
    (tmp_path / f"{TRAIN_IMAGES}.gz").write_bytes(content)
    with pytest.raises(DataError, match=f"{TRAIN_IMAGES}.gz: not "):
        MNIST.load(tmp_path, silent)


@pytest.mark.usefixtures("tiny")
def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / TRAIN_LABELS).unlink()
    (tmp_path / TRAIN_LABELS).mkdir()
    with pytest.raises(DataError, match=f"{TRAIN_LABELS}: cannot be read .not a regular file"):
        MNIST.load(tmp_path, silent)


def test_an_idx_file_is_read_row_by_row() -> None:
    content = b"\x00\x00\x08\x02\x00\x00\x00\x02\x00\x00\x00\x03" + bytes([1, 2, 3, 4, 5, 255])
    assert PublishedFile("x", (2, 3), "").array(content).tolist() == [[1, 2, 3], [4, 5, 255]]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("train_samples", [0, 6])
def test_the_whole_pool_keeps_the_order_of_the_file(cache: Path, train_samples: int) -> None:
    write_files(cache)
    dataset = load_dataset(Workers(dataset="mnist", train_samples=train_samples), Streams(3))
    assert dataset.train_labels.tolist() == [5, 0, 4, 1, 9, 2]
    assert dataset.test_labels.tolist() == [7, 2, 1]
    assert dataset.image_shape == (28, 28)
    assert dataset.clipped_values == 0
    expected = np.array([value / 255 for value in range(10, 16)], dtype=np.float32)
    np.testing.assert_array_equal(dataset.train_inputs[:, 0], expected)
    np.testing.assert_array_equal(dataset.train_inputs[:, -1], np.ones(6, dtype=np.float32))


@pytest.mark.usefixtures("tiny")
def test_a_smaller_pool_is_drawn_and_keeps_images_with_their_labels(cache: Path) -> None:
    write_files(cache)
    image_of_label = {5: 10, 0: 11, 4: 12, 1: 13, 9: 14, 2: 15}
    pools = set()
    for seed in range(20):
        dataset = load_dataset(Workers(dataset="mnist", train_samples=4), Streams(seed))
        labels = dataset.train_labels.tolist()
        pixels = np.rint(dataset.train_inputs[:, 0] * 255).astype(int).tolist()
        assert pixels == [image_of_label[label] for label in labels]
        assert len(set(labels)) == 4
        assert dataset.test_labels.tolist() == [7, 2, 1]
        pools.add(tuple(labels))
    assert len(pools) > 10


@pytest.mark.usefixtures("tiny")
def test_a_pool_larger_than_the_training_part_is_refused(cache: Path) -> None:
    write_files(cache)
    with pytest.raises(ValueError, match=r"workers\.train_samples = 7: must be at most 6"):
        load_dataset(Workers(dataset="mnist", train_samples=7), Streams(0))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"AIRMIX_DATA_DIR": "/data", "XDG_CACHE_HOME": "/xdg"}, "/data"),
        ({"AIRMIX_DATA_DIR": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/airmixml"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/someone/.cache/airmixml"),
        ({}, "/home/someone/.cache/airmixml"),
    ],
)
def test_the_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("AIRMIX_DATA_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/someone", **environment}.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_the_tiny_files_are_what_they_should_be() -> None:
    assert [file.byte_count for file in tiny_mnist.FILES] == [len(content) for content in CONTENT.values()]


def test_an_endless_stream_is_read_no_further_than_one_byte_too_many() -> None:
    file = tiny_mnist.FILES[0]
    heard: list[int] = []
    with Path("/dev/zero").open("rb") as endless:
        content = read_bounded(endless, file.name, file.byte_count, heard.append)
    assert len(content) == file.byte_count + 1
    assert heard[-1] == len(content)
