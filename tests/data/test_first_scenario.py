"""A first scenario for one's own file: columns, classes and what to declare, and no other value of the file."""

from pathlib import Path

import pytest

from airmixml import Scenario, settle
from airmixml.data.dataset import Column
from airmixml.data.first_scenario import first_scenario, parse_declared
from airmixml.messages import DataError, ScenarioError

HEADER = 'age,"height, cm",town,target\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "my people.csv"
    path.write_text(HEADER + "\n".join(f"{30.125 + n},{150.625 + n},Rome,{'yn'[n % 2]}" for n in range(9)) + "\n")
    return path


def test_columns_are_named_and_no_value_is_written(table: Path) -> None:
    first = first_scenario(table)
    assert first.missing == ("age", "height, cm")
    assert 'label_column = "target"' in first.text
    assert not any(value in first.text for value in ("30.125", "150.625"))
    scenario = Scenario.from_toml(first.text)
    assert (scenario.workers.feature_columns, scenario.workers.input_lower) == (("age", "height, cm", "town"), ())
    assert scenario.workers.categories == (("town", ("Rome",)),)
    assert "categories found in the rows of 'town': check them" in first.notes
    assert (scenario.name, scenario.workers.count, scenario.privacy.delta) == ("my-people", 0, 0.0)


def test_the_classes_are_listed_for_the_owner_to_check(table: Path, tmp_path: Path) -> None:
    text = first_scenario(table).text
    assert Scenario.from_toml(text).workers.classes == ("n", "y")
    assert "# Public classes, found in the file. All will be in the model" in text
    assert "classes =" not in first_scenario(table, labels=("age",), task="regression").text
    # Names are no classes.
    named = tmp_path / "named.csv"
    named.write_text("a,y\n" + "".join(f"{n / 4},Ada-{n}\n" for n in range(40)))
    with pytest.raises(DataError, match="different labels in 40 samples"):
        first_scenario(named)


@pytest.mark.parametrize("mark", [".", ","])
def test_measured_labels_need_a_regression(tmp_path: Path, mark: str) -> None:
    """Numbers with gaps, of which 39 differ; whole ones of few kinds are classes."""
    path = tmp_path / "measured.csv"
    rows = [(n / 4, "" if n == 3 else 30.125 + n, n % 12) for n in range(40)]
    path.write_text("a;score;month\n" + "".join(f"{a};{y};{m}\n" for a, y, m in rows).replace(".", mark))
    with pytest.raises(DataError, match=r"different labels in 39 samples: .* by --task regression "):
        first_scenario(path, labels=("score",))
    assert 'task = "regression"' in first_scenario(path, labels=("score",), task="regression").text
    assert len(Scenario.from_toml(first_scenario(path, labels=("month",)).text).workers.classes) == 12


def test_what_the_user_knows_is_declared(table: Path) -> None:
    known = [Column(name="age", lower=0.0, upper=120.0), Column(name="height, cm", lower=0.0, upper=250.0)]
    first = first_scenario(table, declared=known)
    assert first.missing == ()
    assert '"age" = [0.0, 120.0]' in first.text
    workers = settle(Scenario.from_toml(first.text)).workers
    assert (workers.input_lower, workers.input_upper, workers.count) == ((0.0, 0.0), (120.0, 250.0), 6)


def test_a_column_as_the_command_line_gives_it() -> None:
    assert parse_declared("a=b=-1e3,2.5") == Column(name="a=b", lower=-1000.0, upper=2.5)
    assert parse_declared("a = b|c") == Column(name="a", categories=("b", "c"))
    for wrong in ("age", "age=", "age=3", "age=3,2", "age=1,nan", "age=0,inf", "=1,2", "age=a,b"):
        with pytest.raises(ScenarioError, match=r"^--column .* must be NAME=LOWER,UPPER"):
            parse_declared(wrong)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; give a header row"),
        ("a,b\n", "has a header, 'a' and so on, but no rows; add rows below it"),
        ("1,2\n3,4\n", "row 1 has numbers where the names of columns must be"),
        ("a,a\n1,2\n", "are both called"),
        ("a\n1\n", "must have a header"),
        ("a,b\n1,2,3\n", "row 2: has 3 values, but the header names 2 columns"),
        ("a,b\n?,1\n", "no column but 'b' holds numbers or categories"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        first_scenario(path)


def test_what_does_not_fit_the_file_is_refused(tmp_path: Path, table: Path) -> None:
    for wrong in ({"labels": ("size",)}, {"declared": [Column(name="weight")]}, {"person": "who"}):
        with pytest.raises(DataError, match="row 1 names no column"):
            first_scenario(table, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="name each column once"):
        first_scenario(table, labels=("age",), person="age")
    with pytest.raises(ScenarioError, match="several columns need --task"):
        first_scenario(table, labels=("age", "town"))
    with pytest.raises(ScenarioError, match="is the label"):
        first_scenario(table, declared=[Column(name="target")])
    for other in ("data.xlsx", "data.npz"):
        with pytest.raises(DataError, match=r"must be a \.csv or \.tsv file"):
            first_scenario(tmp_path / other)


def test_few_kinds_of_a_number_and_a_word_are_categories(tmp_path: Path) -> None:
    path = tmp_path / "cars.csv"
    path.write_text("doors,floor,ok\n2 doors,1st,a\n4 doors,2nd,b\n2 doors,3rd,a\n")
    assert "categories found in the rows of 'doors', 'floor': check them" in first_scenario(path).notes


@pytest.mark.parametrize(
    ("texts", "noted"),
    [
        ([*map(str, range(7)), "inf", *map(str, range(300))], "a cell that is not one (row 9; correct it first)"),
        ([*(f"{n}.5" for n in range(60)), "12O"], "a cell that is not one (row 62; correct it first)"),
        (["2", "nan", "inf"], "a cell that is not one (row 4; correct it first)"),
        ([*(["0"] * 90), "a", "b"], "categories found in the rows of 'b': check them"),
    ],
)
def test_one_odd_text_among_numbers_is_named_by_its_row(tmp_path: Path, texts: list[str], noted: str) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("a,b,ok\n" + "".join(f"{n % 9},{text},{'xy'[n % 2]}\n" for n, text in enumerate(texts)))
    first = first_scenario(path)
    assert any(noted in each for each in first.notes), first.notes
    assert "(row" not in first.text


def test_names_that_are_numbers_are_noted_without_saying_them(tmp_path: Path) -> None:
    path = tmp_path / "headless.csv"
    path.write_text("5.1,3.5,setosa\n4.9,3.0,setosa\n7.0,3.2,versicolor\n")
    (note,) = (each for each in first_scenario(path).notes if "header row" in each)
    assert "5.1" not in note
    path.write_text("5.1,3.5\n4.9,3.0\n")
    with pytest.raises(DataError, match="row 1 has numbers where the names of columns must be"):
        first_scenario(path)
