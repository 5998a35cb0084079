"""Tables on the terminal: nothing is cut, whatever its width."""

import io

import pytest
from rich.box import SIMPLE
from rich.console import Console

from airmixml.output.tables import Table

COLUMNS = ("method", "accuracy [%]", "epsilon", "against", "symbols", "air time", "energy", "wall time")
ROWS = [
    ("airmix", "96.00 ± 1.50", "5.125", "server", "3,141", "3.78e-05 s", "9.46 pJ", "0.8 s"),
    ("federated-network", "66.00 ± 12.50", "4.794", "server", "73.9 k", "1.2 s", "9.46 mJ", "20.1 s"),
]


def shown(table: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("options", [{}, {"box": SIMPLE, "padding": (0, 1, 0, 0)}], ids=["default", "simple"])
@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_a_column_is_whole_or_named_as_missing(width: int, options: dict[str, object]) -> None:
    table = Table(columns=COLUMNS, rows=ROWS, title="Methods", options=options)
    lines = shown(table, width)
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    missing = text.partition("not shown: ")[2].partition("; see")[0].split(", ") if "not shown" in text else []
    for place, name in enumerate(COLUMNS):
        for row in ROWS:
            assert (row[place] in text.partition("too wide")[0]) is (name not in missing), (name, row[place])


def test_words_wrap_between_words_and_only_longer_ones_are_broken() -> None:
    long = "a" * 50
    lines = shown(
        Table(columns=("preset", "what it is"), rows=[("paper", f"the paper's data set {long}")], words=2), 40
    )
    assert all(len(line) <= 40 for line in lines)
    assert sum(line.count("a") for line in lines if "aaa" in line) == 50
    assert any("the paper's data set" in line for line in lines)
