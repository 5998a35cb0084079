"""Faults in private data, each planted with a token: no output and no file quotes it, unless the owner asks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from airmixml import DataError, Scenario, run
from airmixml.budgets import LedgerFile
from airmixml.messages import AirMixError, hide_values, private

Airmix = Callable[..., CompletedProcess[str]]
SECRET, NUMBER, NEAR = "SECRET-CELL", "31415.9265", "labelXQ"
ROWS = 29  # the number of a row that is at fault; no other number of the files or the messages has these digits
COLUMNS = "age,salary,label"


def csv_lines(fault: str, *, header: str = COLUMNS) -> str:
    """Return a table of 40 sound rows and, at ROWS, the faulty one."""
    lines = [f"{20 + n % 40},{1000 + n},{'ny'[n % 2]}" for n in range(40)]
    lines.insert(ROWS - 2, fault)
    return "\n".join([header, *lines, ""])


# By the kind of fault: the file, further keys, and what the message says in protection.
CSV_FAULTS = {
    "input": (csv_lines(f"30,{SECRET},y"), (), "column 'salary': a value is not a finite number"),
    "infinite input": (csv_lines("30,1e999,y"), (), "column 'salary': a value is not a finite number"),
    "missing input": (csv_lines("30,?,y"), (), "column 'salary': a value is missing"),
    "label": (csv_lines(f"30,1000,{SECRET}"), (), "a label is not among workers.classes"),
    "missing label": (csv_lines("30,1000,"), (), "a label is not among workers.classes"),
    "too many values": (csv_lines(f"30,1000,y,{SECRET}"), (), "a row has more or fewer values"),
    "quotes": (csv_lines(f'30,1000,"y"{SECRET}'), (), "not valid CSV"),
    "no header": (
        csv_lines("30,1000,y", header=f"{NUMBER},{SECRET},{NEAR}"),
        (),
        "row 1 names no column 'label'; workers.label_column must name columns as the header row does",
    ),
    "same names": (csv_lines("1,2,y", header=f"{SECRET},{SECRET},label"), (), "are both called the same"),
    "decimal commas": (
        csv_lines(f"30;{NUMBER.replace('.', '~')};y", header=COLUMNS).replace(",", ";").replace("~", ","),
        (),
        "column 'salary': a value is not a finite number; if its comma is a decimal mark",
    ),
    "worker": (
        csv_lines("30,1000,y").replace("label", "label,who").replace("n\n", "n,Ann\n").replace("y\n", "y,\n"),
        ("workers.worker_column=who",),
        "column 'who': the worker is missing",
    ),
    "target": (
        csv_lines(f"30,1000,{SECRET}").replace(",y\n", ",2\n").replace(",n\n", ",3\n"),
        ("workers.task=regression", "workers.classes=[]", "workers.target_lower=[0]", "workers.target_upper=[9]"),
        "column 'label': a value is not a finite number",
    ),
    "several labels": (
        csv_lines(f"30,1000,{NUMBER}").replace(",y\n", ",1\n").replace(",n\n", ",0\n"),
        ("workers.task=multi-label", "workers.classes=[]"),
        "column 'label': a value is not 0 or 1",
    ),
}


def command(path: Path, *changes: str) -> list[str]:
    keys = [f"workers.dataset={path.name}", "workers.input_lower=[0]", "workers.input_upper=[5000]"]
    found = ["run", "--preset", "private-table", "--private"]
    for each in (*keys, 'workers.classes=["n", "y"]', *changes):
        found += ["--set", each]
    return found


def everything(folder: Path, source: Path, done: CompletedProcess[str]) -> str:
    """Return all that a command printed or wrote."""
    files = [path for path in folder.rglob("*") if path.is_file() and path != source]
    return done.stdout + done.stderr + "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_no_value_and_no_row_of_a_table_is_told(fault: str, airmix: Airmix, tmp_path: Path) -> None:
    content, changes, message = CSV_FAULTS[fault]
    path = tmp_path / "people.csv"
    path.write_text(content)
    done = airmix(*command(path, *changes))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("airmix: error: people.csv: ")
    assert message in done.stderr
    told = everything(tmp_path, path, done)
    assert not [token for token in (SECRET, NUMBER, NEAR) if token in told]
    assert not re.search(rf"\b{ROWS}\b", done.stderr)
    shown = airmix(*command(path, *changes), "--show-values")
    assert shown.returncode == 2
    assert "--show-values" not in shown.stderr
    assert re.search(rf"{SECRET}|{NUMBER}|{NEAR}|row [0-9]+[,:]|''", shown.stderr)


INPUTS = np.random.default_rng(0).random((40, 3)) * 50
NPZ_FAULTS = {
    "not a number": ({"inputs": (ROWS, 1, np.nan)}, (), "an input is missing or infinite: must be finite"),
    "infinite": ({"inputs": (ROWS, 1, np.inf)}, (), "an input is missing or infinite: must be finite"),
    "label": ({"labels": (ROWS, SECRET)}, (), "a label is not among workers.classes"),
    "target": (
        {"targets": (ROWS, np.nan)},
        ("workers.task=regression", "workers.classes=[]", "workers.target_lower=[0]", "workers.target_upper=[9]"),
        "a label is missing or infinite: must be finite",
    ),
    "several labels": (
        {"targets": (ROWS, float(NUMBER))},
        ("workers.task=multi-label", "workers.classes=[]"),
        "a label is another number: must be 0 or 1",
    ),
}


@pytest.mark.parametrize("fault", NPZ_FAULTS)
def test_no_value_and_no_row_of_an_array_is_told(fault: str, airmix: Airmix, tmp_path: Path) -> None:
    planted, changes, message = NPZ_FAULTS[fault]
    inputs, labels = INPUTS.copy(), np.array(["n", "y"] * 20, dtype="<U20")
    if "inputs" in planted:
        row, column, value = planted["inputs"]
        inputs[row, column] = value
    if "labels" in planted:
        labels[planted["labels"][0]] = planted["labels"][1]
    if "targets" in planted:
        labels = np.arange(40.0) % 2
        labels[planted["targets"][0]] = planted["targets"][1]
    path = tmp_path / "people.npz"
    np.savez(path, inputs=inputs, labels=labels)
    done = airmix(*command(path, *changes))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not re.search(rf"{SECRET}|{NUMBER[:6]}|\b{ROWS}\b", everything(tmp_path, path, done))
    shown = airmix(*command(path, *changes), "--show-values")
    assert re.search(rf"{SECRET}|{NUMBER[:6]}|\[{ROWS}, ", shown.stderr)


def test_the_owner_sees_the_cell(airmix: Airmix, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(CSV_FAULTS["input"][0])
    hidden, shown = airmix(*command(path)), airmix(*command(path), "--show-values")
    assert "(no row or value is shown; the owner sees them with --show-values)" in hidden.stderr
    assert f"row {ROWS}, column 'salary': '{SECRET}' is not a finite number" in shown.stderr
    simulated = airmix(*(each for each in command(path) if each != "--private"))
    assert simulated.stderr == shown.stderr
    mistaken = airmix("run", "--preset", "private-iris", "--show-values")
    assert mistaken.stderr == "airmix: error: --show-values: says something about a private run; give --private too\n"


def test_a_class_must_be_declared_and_is_named_nowhere(airmix: Airmix, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(csv_lines(f"30,1000,{SECRET}"))
    undeclared = airmix(*command(path, "workers.classes=[]"))
    assert undeclared.returncode == 2
    assert undeclared.stderr.startswith("airmix: error: workers.classes: must be declared to protect your own data")
    assert 'classes = ["no", "yes"]' in undeclared.stderr
    absent = airmix(*command(path, "workers.unknown_labels=absent"), "--out", "run")
    assert (absent.returncode, absent.stderr) == (0, "")
    assert SECRET not in everything(tmp_path, path, undeclared) + everything(tmp_path, path, absent)
    assert '"label_dim": 2' in (tmp_path / "run" / "metrics.json").read_text()


def test_what_a_library_says_of_a_row_is_not_quoted() -> None:
    def fails() -> None:
        try:
            raise KeyError(SECRET)
        except KeyError as problem:
            raise ValueError(f"cannot take {SECRET}") from problem

    with pytest.raises(DataError) as refused:
        hide_values(fails, "look yourself")
    assert str(refused.value).startswith("ValueError in the code that private rows went through (no row or value")
    problem: BaseException | None = refused.value
    while problem is not None:  # neither is what caused it, which a notebook would print above it
        assert SECRET not in repr(problem)
        assert SECRET not in repr(vars(problem))
        problem = problem.__cause__ or problem.__context__
    with pytest.raises(ValueError, match=SECRET):
        hide_values(fails, "", hide=False)


def test_what_is_about_the_machine_stays() -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        hide_values(full, "")
    for error in (MemoryError("13 GB"), KeyboardInterrupt()):

        def stop(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            hide_values(stop, "")


def test_a_marked_message() -> None:
    """What is private cannot break out of its marks, whatever it holds."""
    wicked = private("a\ue001b\ue002c\ue000", "x")
    error = AirMixError(f"before {wicked} after {private(3)}.")
    assert str(error) == "before abc after 3."
    assert error.public == "before x after ."
    assert str(error.hidden("how")) == "before x after . (no row or value is shown; how)"
    plain = AirMixError("nothing private")
    assert str(plain.hidden("how")) == "nothing private"


def test_a_ledger_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    rows = [f"{n},{1000 + n},{'ny'[n % 2]},{SECRET if n < 4 else f'w{n // 4}'}" for n in range(40)]
    path.write_text("\n".join(["age,salary,label,who", *rows, ""]))
    keys = (f"workers.dataset={path}", "workers.worker_column=who", 'workers.classes=["n", "y"]')
    bounds = ("workers.input_lower=[0]", "workers.input_upper=[5000]", "privacy.delta=1e-3", "workers.holding=dealt")
    scenario = Scenario.preset("private-table").with_overrides(*keys, *bounds)
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=0.5, delta=1e-3)
    for show in (False, True):
        with pytest.raises(AirMixError, match="would pass its budget") as refused:
            run(scenario, private=True, ledger=ledger.path, out=tmp_path / "run", show_values=show)
        assert (SECRET in str(refused.value)) == show
    assert not (tmp_path / "run").exists()


def test_a_sound_run_tells_nothing_either(airmix: Airmix, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(csv_lines(f"30,{NUMBER},y"))  # far outside the bounds: it is clipped, and nobody is told
    done = airmix(*command(path), "--out", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert NUMBER[:5] not in everything(tmp_path, path, done)
    assert "clipped" not in done.stdout


def test_a_scenario_that_is_wrong_is_reported_as_ever(airmix: Airmix) -> None:
    wrong = airmix("run", "--preset", "private-iris", "--private", "--set", "privacy.epsilon=-1")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "privacy.epsilon = -1: must be a number above 0" in wrong.stderr
    assert "--show-values" not in wrong.stderr
