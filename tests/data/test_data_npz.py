from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.data import RawData, own_file
from airmixml.messages import DataError, ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import load_dataset


def load_npz(path: Path, **keys: Any) -> RawData:
    return own_file.load_own_file(path, Workers(**keys))


TWO_BY_TWO = np.array([[1.0, 2.0], [3.0, 4.0]])


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **arrays)
    return path


def test_features_and_labels_are_read(tmp_path: Path) -> None:
    raw = load_npz(save(tmp_path, inputs=TWO_BY_TWO, labels=[7, 3]))
    assert raw.inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert raw.labels.tolist() == [1, 0]
    assert raw.class_names == ("3", "7")
    assert raw.image_shape is None


def test_images_keep_their_shape(tmp_path: Path) -> None:
    images = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    raw = load_npz(save(tmp_path, inputs=np.asfortranarray(images), labels=[0, 1]))
    assert raw.image_shape == (2, 3)
    assert raw.inputs.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


def test_channels_come_first_whatever_the_layout(tmp_path: Path) -> None:
    colour = np.arange(2 * 3 * 5 * 6).reshape(2, 3, 5, 6)
    first = load_npz(save(tmp_path, inputs=colour, labels=[0, 1]))
    last = load_npz(
        save(tmp_path, inputs=colour.transpose(0, 2, 3, 1), labels=[0, 1], layout="height x width x channels")
    )
    assert first.image_shape == last.image_shape == (3, 5, 6)
    assert first.inputs.tolist() == last.inputs.tolist() == colour.reshape(2, -1).tolist()


def test_a_file_says_that_its_axes_are_channels_and_time(tmp_path: Path) -> None:
    raw = load_npz(save(tmp_path, inputs=np.zeros((2, 6, 100)), labels=[0, 1], layout="channels x time"))
    assert raw.image_shape == (6, 1, 100)
    assert raw.inputs.shape == (2, 600)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["b", "a"]), ("a", "b")),
        (np.array(["10", "9"]), ("9", "10")),
        (np.array([b"b", b"a"]), ("a", "b")),
        (np.array([True, False]), ("False", "True")),
        (np.array([2.0, 1.0], dtype=np.float32), ("1", "2")),
        (np.array([0.5, 0.1], dtype=np.float32), ("0.1", "0.5")),
    ],
)
def test_labels_may_be_text_or_numbers(tmp_path: Path, labels: Any, names: tuple[str, ...]) -> None:
    raw = load_npz(save(tmp_path, inputs=TWO_BY_TWO, labels=labels))
    assert raw.class_names == names
    assert raw.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"labels": [0, 1]}, "has no array 'inputs'"),
        ({"inputs": TWO_BY_TWO, "label": [0, 1]}, r"has no array 'labels' \(it has: 'inputs, label'\)"),
        ({}, r"has no array 'inputs' \(it has: 'none'\)"),
        ({"inputs": [1.0, 2.0], "labels": [0, 1]}, r"inputs have the shape \(2,\)"),
        ({"inputs": np.zeros((2, 3, 4, 1, 1)), "labels": [0, 1]}, r"inputs have the shape \(2, 3, 4, 1, 1\)"),
        ({"inputs": np.zeros((2, 8, 9, 3)), "labels": [0, 1]}, 'layout="height x width x channels"'),
        ({"inputs": np.zeros((2, 8, 9)), "labels": [0, 1], "layout": "time"}, '"height x width" or "channels x time"'),
        ({"inputs": TWO_BY_TWO, "labels": [0, 1], "layout": "channels x time"}, "for inputs of 2 axes"),
        ({"inputs": np.zeros((2, 0)), "labels": [0, 1]}, "at least one feature"),
        ({"inputs": np.zeros((0, 2)), "labels": np.zeros(0, dtype=int)}, "has 0 samples"),
        ({"inputs": np.zeros((1, 2)), "labels": [0]}, "has 1 samples"),
        ({"inputs": TWO_BY_TWO, "labels": [0, 1, 1]}, r"labels have the shape \(3,\): must be \(2,\)"),
        ({"inputs": TWO_BY_TWO, "labels": np.eye(2)}, "argmax"),
        ({"inputs": TWO_BY_TWO, "labels": 1}, r"labels have the shape \(\)"),
        ({"inputs": TWO_BY_TWO, "labels": [1, 1]}, "all 2 samples have the label '1'"),
        ({"inputs": TWO_BY_TWO, "labels": [1.0, np.nan]}, r"labels\[1\] is missing"),
        ({"inputs": TWO_BY_TWO, "labels": ["", "a"]}, r"labels\[0\] is missing"),
        ({"inputs": TWO_BY_TWO, "labels": [1.0, np.inf]}, "the label inf is no class"),
        ({"inputs": TWO_BY_TWO, "labels": [b"\xff", b"a"]}, "not proper text"),
        ({"inputs": TWO_BY_TWO, "labels": ["\ud800", "a"]}, "not proper text"),
        ({"inputs": TWO_BY_TWO, "labels": np.array([0x110000, 97], dtype="<u4").view("<U1")}, "not proper text"),
        ({"inputs": TWO_BY_TWO, "labels": [1j, 2j]}, "labels are of type 'complex128'"),
        ({"inputs": [["a", "b"], ["c", "d"]], "labels": [0, 1]}, "inputs are of type '<U1'"),
        ({"inputs": TWO_BY_TWO * 1j, "labels": [0, 1]}, "inputs are of type 'complex128'"),
        ({"inputs": np.array([[1, None], [2, 3]], dtype=object), "labels": [0, 1]}, "inputs is an array of Python"),
        ({"inputs": TWO_BY_TWO, "labels": np.array(["a", 1], dtype=object)}, "labels is an array of Python"),
        ({"inputs": [[1.0, 2.0], [3.0, np.nan]], "labels": [0, 1]}, r"inputs\[1, 1\] is nan"),
        ({"inputs": [[1.0, -np.inf], [3.0, 4.0]], "labels": [0, 1]}, r"inputs\[0, 1\] is -inf"),
        ({"inputs": np.zeros((40, 1)), "labels": np.linspace(0, 1, 40)}, "40 different labels .* must be classes"),
    ],
)
def test_every_mistake_is_told_in_one_line(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    path = save(tmp_path, **arrays)
    with pytest.raises(DataError, match=complaint) as caught:
        load_npz(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_zip_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mine.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"mine\.npz: not an NPZ file"):
        load_npz(tmp_path / "mine.npz")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.npz: cannot be read \(No such file"):
        load_npz(tmp_path / "absent.npz")


def test_a_header_that_promises_too_much_is_told(tmp_path: Path) -> None:
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
        archive.writestr("inputs.npy", array.getvalue())
    with pytest.raises(DataError, match=r"mine\.npz: broken"):
        load_npz(tmp_path / "mine.npz")


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def load_or_refuse(content: bytes) -> None:
    """Load bytes as a user's NPZ file: either a proper data set comes out or an error for users."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.npz"
        path.write_bytes(content)
        workers = Workers(dataset=str(path), train_samples=0, input_lower=(-1.0,), input_upper=(1.0,))
        try:
            dataset = load_dataset(workers, Streams(0))
        except (DataError, ScenarioError) as problem:
            assert len(str(problem).splitlines()) == 1  # noqa: PT017  (both outcomes are fine)
            return
    inputs = np.concatenate([dataset.train_inputs, dataset.test_inputs])
    assert ((inputs >= 0) & (inputs <= 1)).all()


def zipped(inputs: bytes, labels: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("inputs.npy", inputs)
        archive.writestr("labels.npy", labels)
    return stream.getvalue()


INPUTS, LABELS = npy(TWO_BY_TWO), npy(np.array(["x", "y"]))
WHOLE = zipped(INPUTS, LABELS)
CHANGES = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=6)


def changed(content: bytes, changes: list[tuple[int, int]]) -> bytes:
    copy = bytearray(content)
    for place, value in changes:
        copy[place % len(copy)] = value
    return bytes(copy)


@settings(max_examples=40, deadline=None)
@given(st.one_of(st.binary(max_size=100), CHANGES.map(lambda changes: changed(WHOLE, changes))))
def test_a_damaged_archive_never_crashes(content: bytes) -> None:
    load_or_refuse(content)


@settings(max_examples=60, deadline=None)
@given(CHANGES, CHANGES)
def test_damaged_arrays_in_a_whole_archive_never_crash(
    input_changes: list[tuple[int, int]], label_changes: list[tuple[int, int]]
) -> None:
    load_or_refuse(zipped(changed(INPUTS, input_changes), LABELS))
    load_or_refuse(zipped(INPUTS, changed(LABELS, label_changes)))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_random_members_never_crash(inputs: bytes, labels: bytes) -> None:
    load_or_refuse(zipped(inputs, labels))


def damaged_stream() -> bytes:
    """Return an archive whose directory is whole and whose compressed bytes are not."""
    stream = io.BytesIO()
    np.savez_compressed(stream, inputs=np.random.default_rng(0).normal(size=(50, 40)), labels=np.arange(50) % 2)
    content = bytearray(stream.getvalue())
    content[60:90] = b"\xff" * 30  # behind the first name
    return bytes(content)


def of_another_header(**header: Any) -> bytes:
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (10, 2), **header})
    return zipped(array.getvalue() + bytes(160), LABELS)


def encrypted() -> bytes:
    content = bytearray(WHOLE)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    return bytes(content)


def bomb() -> bytes:
    """Return 100 kB of zeros in deflated bytes that claim to be a pebibyte, as their array does."""
    content = bytearray()
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (2**32 // 8 - 99, 1)})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", array.getvalue() + bytes(100_000))
        archive.writestr("labels.npy", LABELS)
    content += stream.getvalue()
    place = content.index(b"PK\x01\x02") + 24  # the size before compression, in the directory
    content[place : place + 4] = (2**32 - 2).to_bytes(4, "little")
    return bytes(content)


BROKEN = {
    "damaged deflate stream": damaged_stream,
    "wrong checksum": lambda: WHOLE.replace(INPUTS[-8:], b"\0" * 8, 1),
    "cut off": lambda: WHOLE[: len(WHOLE) // 2],
    "encrypted": encrypted,
    "unknown compression": lambda: (
        WHOLE[: WHOLE.index(b"PK\x01\x02") + 10] + b"\x63\0" + WHOLE[WHOLE.index(b"PK\x01\x02") + 12 :]
    ),
    "Python objects": lambda: zipped(npy(np.array([[{}, 1]], dtype=object)), LABELS),
    "text": lambda: zipped(npy([["a", "b"]]), LABELS),
    "records": lambda: of_another_header(descr=[("a", "<f8"), ("b", "<i4")]),
    "a negative shape": lambda: of_another_header(shape=(-10, 2)),
    "too large a shape": lambda: of_another_header(shape=(10**12, 10**6)),
    "a shape beyond integers": lambda: of_another_header(shape=(2**70, 2**70)),
    "not an array": lambda: zipped(b"x = 1", LABELS),
    "an unknown version": lambda: zipped(b"\x93NUMPY\x09\x00" + INPUTS[8:], LABELS),
    "nothing": lambda: zipped(b"", b""),
    "a bomb": bomb,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_broken_is_refused_by_all_who_read_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(BROKEN[kind]())
    with pytest.raises(DataError, match=r"mine\.npz: "):
        load_npz(path)


def test_more_than_fits_into_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airmixml.data.npz_file.physical_memory_bytes", lambda: 1000)
    path = save(tmp_path, inputs=np.zeros((200, 2)), labels=np.arange(200) % 2)
    with pytest.raises(DataError, match=r"mine\.npz: takes .* of memory"):
        load_npz(path)
