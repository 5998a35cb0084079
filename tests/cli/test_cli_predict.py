"""``airmix predict``: raw rows in, classes out, by the name of each column."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from airmixml import Scenario, run

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]

HEADER = "height,id,weight,kind"
ROWS = ("20,a,1.5,cat", "60,b,9.0,dog", "22,c,1.2,cat", "55,d,8.1,dog", "25,e,2.0,cat", "58,f,7.7,dog")


@pytest.fixture(scope="session")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on light cats and heavy dogs, whose file has weight before height."""
    folder = tmp_path_factory.mktemp("pets")
    lines = [",".join((row.split(",")[2], row.split(",")[0], row.split(",")[3])) for row in ROWS * 5]
    (folder / "pets.csv").write_text("\n".join(["weight,height,kind", *lines]) + "\n", encoding="utf-8")
    settings = {
        "workers.dataset": folder / "pets.csv",
        "workers.label_column": "kind",
        "workers.input_lower": "0,10",
        "workers.input_upper": "12,80",
        "privacy.epsilon": "50",
        "radio.noise_dbm": "-200",
        "learner.rounds": "8",
    }
    changes = [f"{key}={value}" for key, value in settings.items()]
    run(Scenario.preset("private-table").with_overrides(*changes), out=folder / "run", pictures=False)
    return folder / "run"


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, header: str = HEADER, name: str = "rows.csv") -> Path:
        (tmp_path / name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


def test_columns_in_any_order_and_others_beside_them(pets: Path, rows: Callable[..., Path], airmix: Airmix) -> None:
    done = airmix("predict", pets, rows(*ROWS))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["prediction", *("cat", "dog") * 3]
    metrics = json.loads((pets / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["rounds"]["count"] == 8  # what is learnt in rounds predicts as any other model


def test_everything_at_once(pets: Path, rows: Callable[..., Path], airmix: Airmix, tmp_path: Path) -> None:
    wrong = "20,g,99,dog"  # a weight beyond the bounds
    options = ("--out", "out.csv", "--probabilities", "--keep", "id", "--score")
    done = airmix("predict", pets, rows(*ROWS, wrong), *options)
    assert done.returncode == 0, done.stderr
    assert "7 predictions in out.csv" in done.stdout
    assert "1 value outside the declared bounds, clipped to them" in done.stderr
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["id", "prediction", "probability_cat", "probability_dog"]
    assert [row["id"] for row in table] == list("abcdefg")
    right = [row["prediction"] for row in table][:6] == ["cat", "dog"] * 3
    assert right
    for row in table:
        likely = {name: float(row[f"probability_{name}"]) for name in ("cat", "dog")}
        assert sum(likely.values()) == pytest.approx(1.0)
        assert max(likely, key=lambda name: likely[name]) == row["prediction"]
    share = (6 + (table[-1]["prediction"] == "dog")) / 7
    assert f"accuracy {100 * share:.1f} % on 7 rows" in done.stderr
    again = airmix("predict", pets, "rows.csv", "--out", "out.csv")
    assert again.stderr == ("airmix: error: out.csv: exists already; choose another --out, or --force to replace it\n")
    assert airmix("predict", pets, "rows.csv", "--out", "out.csv", "--force").returncode == 0


def test_json(pets: Path, rows: Callable[..., Path], airmix: Airmix) -> None:
    done = airmix("predict", pets, rows(*ROWS[:2]), "--json", "--score", "--keep", "id")
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "run": str(pets),
        "rows": 2,
        "clipped_values": 0,
        "unknown_categories": {},
        "accuracy": 1.0,
        "out": None,
        "predictions": [{"id": "a", "prediction": "cat"}, {"id": "b", "prediction": "dog"}],
    }


def test_unknown_categories_are_counted_as_clipped_values_are(airmix: Airmix, tmp_path: Path) -> None:
    lines = [f"{n % 10},{('red', 'Green')[n % 2]},{('S', 'M', 'L')[n % 3]},{('cat', 'dog')[n % 2]}" for n in range(60)]
    (tmp_path / "pets.csv").write_text("\n".join(["age,colour,size,kind", *lines]) + "\n")
    known = ("--column", "age=0,10", "--column", "colour=red|green", "--column", "size=S|M|L")
    assert airmix("init", "pets.csv", "--label", "kind", *known).returncode == 0
    assert airmix("run", "pets.toml", "--set", "learner.rounds=0", "--out", "run").returncode == 0
    others = ["5,blue,S", "12,RED ,XL", "3,,M", "4,green,L"]
    (tmp_path / "rows.csv").write_text("\n".join(["age,colour,size", *others]) + "\n")
    done = airmix("predict", "run", "rows.csv")
    assert done.stderr.splitlines() == [
        "1 value outside the declared bounds, clipped to them",
        "3 values outside the declared categories (2 of 'colour', 1 of 'size'), taken as none of them",
    ]
    counted = json.loads(airmix("predict", "run", "rows.csv", "--json").stdout)
    assert (counted["clipped_values"], counted["unknown_categories"]) == (1, {"colour": 2, "size": 1})
    assert airmix("predict", "run", "pets.csv").stderr == ""


def test_an_npz_file(pets: Path, airmix: Airmix, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", inputs=np.array([[1.5, 20.0], [9.0, 60.0]]), labels=np.array(["cat", "cat"]))
    done = airmix("predict", pets, "rows.npz", "--score")
    assert (done.returncode, done.stdout) == (0, "prediction\ncat\ndog\n")
    assert done.stderr == "accuracy 50.0 % on 2 rows\n"


@pytest.mark.parametrize(
    ("header", "lines", "options", "said"),
    [
        ("height,id", ["1,2"], (), "row 1 lacks the column 'weight': must have the 2 input columns of the run"),
        ("id", ["1"], (), "row 1 lacks the column 'weight' and 1 more"),
        (HEADER, ["20,a,heavy,cat"], (), "row 2, column 'weight': 'heavy' is not a finite number"),
        (HEADER, ["20,a,,cat"], (), "row 2, column 'weight': the value is missing ('')"),
        (HEADER, ["20,a,inf,cat"], (), "row 2, column 'weight': 'inf' is not a finite number"),
        (HEADER, ["20,a,1.5"], (), "row 2: has 3 values, but the header names 4 columns"),
        (HEADER, [], (), "has no rows; give one row per prediction"),
        ("height", [], (), "has no rows; give one row per prediction"),
        ("height:weight", ["1:2"], (), "row 1 lacks the column 'weight' and 1 more"),
        ("height,weight,height", ["1,2,3"], (), "columns 1 and 3 are both called 'height'"),
        ("height,weight", ["1,2"], ("--score",), "names no column 'kind'; --score must name"),
        ("height,weight", ["1,2"], ("--keep", "name"), "names no column 'name'; --keep must name"),
        ("height,weight,kind", ["1,2,bird"], ("--score",), "no label is a class of the model, such as 'bird'"),
        ("height,weight,prediction", ["1,2,3"], ("--keep", "prediction"), "is the name of a column that is written"),
    ],
)
def test_mistakes_in_the_file(
    pets: Path,
    rows: Callable[..., Path],
    refused: Callable[..., str],
    header: str,
    lines: list[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    assert said in refused("predict", pets, rows(*lines, header=header), *options)


def test_a_folder_that_lacks_its_scenario(pets: Path, rows: Callable[..., Path], refused: Callable[..., str]) -> None:
    broken = shutil.copytree(pets, rows(*ROWS).parent / "broken")
    (broken / "scenario.toml").unlink()
    line = refused("predict", "broken", "rows.csv")
    assert "(scenario.toml is missing); delete the folder broken and run the command that made it again" in line


def test_other_mistakes(pets: Path, refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "rows.txt").touch()
    np.savez(tmp_path / "wide.npz", inputs=np.zeros((2, 3)))
    np.savez(tmp_path / "nan.npz", inputs=np.full((2, 2), np.nan))
    np.savez(tmp_path / "unlabelled.npz", inputs=np.zeros((2, 2)))
    np.savez(tmp_path / "none.npz", inputs=np.zeros((0, 2)))
    (tmp_path / "latin.csv").write_bytes(b"weight,height\n\xff,1\n")
    for name, options, said in (
        ("empty.csv", (), "is empty; give a header row"),
        ("rows.txt", (), "must be a file of rows that ends in .csv, .tsv or .npz"),
        ("missing.csv", (), "cannot be read (No such file or directory)"),
        ("missing.npz", (), "cannot be read (No such file or directory)"),
        ("latin.csv", (), "is not a finite number"),
        ("wide.npz", (), "inputs have 3 numbers in a row: must have 2"),
        ("nan.npz", (), "inputs[0, 0] is nan: must be finite"),
        ("none.npz", (), "has no rows"),
        ("unlabelled.npz", ("--score",), "has no array 'labels'"),
        ("unlabelled.npz", ("--keep", "id"), "--keep id: names a column of a CSV file"),
    ):
        assert said in refused("predict", pets, name, *options), name
    assert "not a run folder" in refused("predict", "nowhere", "wide.npz")
    (tmp_path / "attacked").mkdir()
    (tmp_path / "attacked" / "metrics.json").write_text('{"mode": "simulation", "verdict": "PROMISED"}')
    assert "and no model; give a folder that airmix run made" in refused("predict", "attacked", "wide.npz")
    shutil.copytree(pets, tmp_path / "broken")
    (tmp_path / "broken" / "model.npz").write_bytes(b"junk")
    assert "model.npz: not the model of that run" in refused("predict", "broken", "wide.npz")


def test_a_folder_of_several_seeds(airmix: Airmix, refused: Callable[..., str], tmp_path: Path) -> None:
    quick = Scenario.preset("paper-iris").with_overrides("radio.slots=20", "learner.epochs=1")
    run(quick, seeds=2, out=tmp_path / "both", pictures=False)
    np.savez(tmp_path / "rows.npz", inputs=np.ones((2, 4)))
    assert "holds several seeds; give one of them, such as both/seed-0" in refused("predict", "both", "rows.npz")
    assert airmix("predict", "both/seed-1", "rows.npz").stdout.count("\n") == 3


def test_a_model_without_names_takes_columns_in_order(
    small: Scenario, rows: Callable[..., Path], airmix: Airmix, refused: Callable[..., str], tmp_path: Path
) -> None:
    run(small, out=tmp_path / "here", pictures=False)
    numbered = rows("7,5,3,2,1", header="label,a,b,c,d")
    assert airmix("predict", "here", numbered).returncode == 0
    assert "has 5 columns of inputs: must have 4" in refused("predict", "here", rows("7,5,3,2,1", header="x,a,b,c,d"))
    assert airmix("predict", "here", "rows.csv", "--keep", "x").stdout.startswith("x,prediction\n7,")


@pytest.mark.parametrize("task", ["regression", "multi-label"])
def test_other_tasks(task: str, airmix: Airmix, refused: Callable[..., str], tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).random((60, 2))
    lines = [f"{a:.3f},{b:.3f},{int(a > 0.5)},{int(b > 0.5)}" for a, b in inputs]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,large a,large b", *lines]) + "\n", encoding="utf-8")
    settings = [
        f"workers.dataset={tmp_path / 'data.csv'}",
        f"workers.task={task}",
        "privacy.epsilon=500",
        "workers.input_lower=0",
    ]
    settings += ["workers.input_upper=1", "workers.feature_columns=a,b"]
    settings += ["workers.label_columns=large a,large b"] if task == "multi-label" else ["workers.label_column=large a"]
    settings += ["workers.target_lower=0", "workers.target_upper=1"] if task == "regression" else []
    run(Scenario.preset("private-table").with_overrides(*settings), out=tmp_path / "run", pictures=False)
    said = airmix("predict", "run", "data.csv").stdout.splitlines()
    assert len(said) == 61
    if task == "regression":
        assert said[0] == "prediction"
        assert all(0.0 <= float(each) <= 1.0 for each in said[1:])
        assert "a regression has none" in refused("predict", "run", "data.csv", "--probabilities")
    else:
        assert said[0] == "prediction_large a,prediction_large b"
        right = [line == ",".join(row.split(",")[2:]) for line, row in zip(said[1:], lines, strict=True)]
        assert sum(right) > 45
    assert "--score: is for classes" in refused("predict", "run", "data.csv", "--score")
