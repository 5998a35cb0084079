from __future__ import annotations

import tempfile
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


def load_csv(path: Path, **keys: Any) -> RawData:
    return own_file.load_own_file(path, Workers(**keys))


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "mine.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_columns_are_found_by_name_wherever_they_stand(tmp_path: Path) -> None:
    path = write(tmp_path, "width,kind,height\n1.5,pear,2\n-3e2,apple, 4 \n0,pear,1\n")
    raw = load_csv(path, label_column="kind")
    assert raw.inputs.tolist() == [[1.5, 2.0], [-300.0, 4.0], [0.0, 1.0]]
    assert raw.class_names == ("apple", "pear")
    assert raw.labels.tolist() == [1, 0, 1]
    assert raw.name == "mine.csv"
    raw = load_csv(path, label_column="kind", feature_columns=("height", "width"))
    assert raw.inputs.tolist() == [[2.0, 1.5], [4.0, -300.0], [1.0, 0.0]]


def test_columns_that_are_not_asked_for_may_hold_anything(tmp_path: Path) -> None:
    path = write(tmp_path, ",note,a,label\n0,x,1,u\n1,,2,v\n")
    assert load_csv(path, feature_columns=("a",)).inputs.tolist() == [[1.0], [2.0]]


def test_byte_order_mark_windows_line_ends_quotes_and_blank_lines_are_taken(tmp_path: Path) -> None:
    path = write(tmp_path, b'\xef\xbb\xbf"a, in cm", label\r\n1,"x, y"\r\n\r\n2,z\r\n\r\n')
    raw = load_csv(path)
    assert raw.inputs.tolist() == [[1.0], [2.0]]
    assert raw.class_names == ("x, y", "z")
    assert load_csv(path, feature_columns=("a, in cm",)).inputs.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["10", "9", "10"], ("9", "10"), [1, 0, 1]),
        (["10", "9", "x"], ("10", "9", "x"), [0, 1, 2]),
        (["1", "1.0", "-2", "01"], ("-2", "1"), [1, 1, 0, 1]),
        (["0.5", "0.25"], ("0.25", "0.5"), [1, 0]),
        (["90071992547409921", "90071992547409922"], ("90071992547409921", "90071992547409922"), [0, 1]),
        (["1_0", "9"], ("1_0", "9"), [0, 1]),
        ([" yes", "no ", "yes"], ("no", "yes"), [1, 0, 1]),
    ],
)
def test_classes_are_sorted_as_numbers_if_all_are_numbers(
    tmp_path: Path, labels: list[str], names: tuple[str, ...], numbers: list[int]
) -> None:
    raw = load_csv(write(tmp_path, "a,label\n" + "".join(f"1,{label}\n" for label in labels)))
    assert raw.class_names == names
    assert raw.labels.tolist() == numbers


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,label\n", "has 0 samples"),
        ("a,label\n1,x\n", "has 1 samples: must have at least 2"),
        ("a,label\n1,x\n2,x\n", "all 2 samples have the label 'x'"),
        (b"a,label\n\x81,x\n", "not text in UTF-8, UTF-16 or Windows-1252"),
        (b"\xff\xfea", "not text in UTF-8, UTF-16 or Windows-1252"),
        ("a,lable\n1,x\n2,y\n", "row 1 names no column 'label'; did you mean 'lable'"),
        ("a:label\n1:x\n2:y\n", "row 1 names no column 'label'"),
        ("a;label\n1;x\n2,5;y\n", "row 3, column 'a': '2,5' is not a finite number; if its comma is a decimal mark"),
        ("a,b,a,label\n1,1,1,x\n2,2,2,y\n", "columns 1 and 3 are both called 'a'"),
        ("label\nx\ny\n", "the only column is the label"),
        (",label\n1,x\n2,y\n", "row 1, column 1 has no name"),
        ("a,label\n1,x\n\n,y\n", r"row 4, column 'a': the value is missing \(''\)"),
        ("a,label\n1,x\nNA,y\n", r"row 3, column 'a': the value is missing \('NA'\)"),
        ("a,b,label\n1,2,x\n1,two,y\n", "row 3, column 'b': 'two' is not a finite number"),
        ("a,label\n1,x\n1_000,y\n", "row 3, column 'a': '1_000' is not a finite number"),
        ("a,label\nnan,x\n2,y\n", "row 2, column 'a': the value is missing"),
        ("a,label\n1,x\n-inf,y\n", "row 3, column 'a': '-inf' is not a finite number"),
        ("a,label\n1,x\n1e999,y\n", "row 3, column 'a': '1e999' is not a finite number"),
        ("a,b,label\ninf,-inf,x\n1,1,y\n", "row 2, column 'a': 'inf' is not"),
        ("a,label\n1,x\n2,y,3\n", "row 3: has 3 values, but the header names 2 columns"),
        ("a,label\n1,x\n2\n", "row 3: has 1 values, but the header names 2 columns"),
        ("a,label\n1,\n2,y\n", "row 2, column 'label': the label is missing"),
        ("a,label\n1,1\n2,nan\n", "row 3, column 'label': the label is missing"),
        ("a,label\n1,1\n2,inf\n", "the label inf is no class"),
        ('a,label\n1,"x\n2,y\n', "not valid CSV"),
        ('a,label\n1,"x"z\n2,y\n', "row 2: not valid CSV"),
        ("a,label\n" + "1" * 200_000 + ",x\n", "row 2: not valid CSV: field larger"),
        ("a,label\n" + "".join(f"1,{0.5 + k}\n" for k in range(30)) * 9, "30 different labels in 270 samples.*classes"),
        ("a,label\n" + "".join(f"1,id{k}\n" for k in range(30)), "30 different labels in 30 samples.*classes"),
    ],
)
def test_every_mistake_is_told_in_one_line_with_its_place(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataError, match=complaint) as caught:
        load_csv(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_many_classes_that_are_classes_are_taken(tmp_path: Path) -> None:
    raw = load_csv(write(tmp_path, "a,label\n" + "".join(f"1,{k}\n" for k in range(100)) * 2))
    assert raw.class_names == tuple(str(k) for k in range(100))


def test_large_numbers_whose_sum_overflows_are_finite(tmp_path: Path) -> None:
    raw = load_csv(write(tmp_path, "a,b,label\n1e308,1e308,x\n-1e308,-1e308,y\n"))
    assert raw.inputs.tolist() == [[1e308, 1e308], [-1e308, -1e308]]


@pytest.mark.parametrize(
    ("feature_columns", "complaint"),
    [
        (("a", "c"), "row 1 names no column 'c'"),
        (("a", "a"), "column 'a' is named twice"),
        (("a", "label"), "column 'label' is named twice"),
    ],
)
def test_feature_columns_are_checked(tmp_path: Path, feature_columns: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        load_csv(write(tmp_path, "a,bb,label\n1,1,x\n2,2,y\n"), feature_columns=feature_columns)


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent.csv: cannot be read \(No such file"):
        load_csv(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder.csv: cannot be read \(not a regular file, but a folder"):
        load_csv(tmp_path / "folder.csv")


def load_or_refuse(content: bytes) -> None:
    """Load bytes as a user's CSV file: either a proper data set comes out or an error for users."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), content)
        workers = Workers(dataset=str(path), train_samples=0, input_lower=(-1.0,), input_upper=(1.0,))
        try:
            dataset = load_dataset(workers, Streams(0))
        except (DataError, ScenarioError) as problem:
            assert len(str(problem).splitlines()) == 1  # noqa: PT017  (both outcomes are fine)
            return
    inputs = np.concatenate([dataset.train_inputs, dataset.test_inputs])
    assert ((inputs >= 0) & (inputs <= 1)).all()
    labels = np.concatenate([dataset.train_labels, dataset.test_labels])
    assert set(labels.tolist()) == set(range(dataset.label_dim))


@settings(max_examples=75, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_never_crash(content: bytes) -> None:
    load_or_refuse(content)


CELLS = st.one_of(
    st.sampled_from(["1", "0", "-2.5", "", "nan", "inf", "1e400", "x", '"', '"a\nb"', "1_0", "\0", "é", "\r"]),
    st.floats().map(repr),
    st.text(max_size=5),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=8),
    st.sampled_from(["a,label", "label", "a,b,label", "label,a", '"label"', "a,a,label", ""]),
)
def test_nearly_proper_tables_never_crash(rows: list[list[str]], header: str) -> None:
    lines = [header, *(",".join(row) for row in rows)]
    load_or_refuse("\n".join(lines).encode("utf-8", errors="surrogatepass"))
