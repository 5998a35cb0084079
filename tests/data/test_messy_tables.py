"""Tables as people have them: from ``airmix init`` to ``airmix predict`` without editing a file."""

import csv
import io
import json
import random
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airmixml.cli.options import app

HEADER = ("weight", "income", "colour", "town", "outcome")
KNOWN = ("weight=40,120", "income=0,80000")


@cache
def clean_rows() -> tuple[tuple[float, float, str, str, str], ...]:
    """Return 900 rows in which all four inputs tell of the outcome."""
    draw = random.Random(7)
    rows = []
    for _ in range(900):
        weight, income = round(draw.uniform(45, 115), 1), round(draw.uniform(1000, 79000), 2)
        colour, town = draw.choice(("red", "green")), draw.choice(("Köln", "Paris", "Łódź"))
        score = (weight > 80) + (income > 40000) + (colour == "red") + 0.5 * (town == "Paris") + draw.gauss(0, 0.2)
        rows.append((weight, income, colour, town, "yes" if score > 1.75 else "no"))
    return tuple(rows)


@dataclass(frozen=True)
class Messy:
    """How a table is written, and what else is in it."""

    encoding: str = "utf-8"
    separator: str = ","
    number: Callable[[float], str] = str
    quote: int = csv.QUOTE_MINIMAL
    line_end: str = "\n"
    suffix: str = ".csv"
    missing: str | None = None  # stands in every twentieth row in place of a weight
    unlabelled: bool = False
    extra: dict[str, Callable[[int], str]] = field(default_factory=dict)
    spoilt: Callable[[str], str] = lambda text: text
    same: bool = True  # whether the clean copy holds the same numbers, so that the very same model is learnt

    def write(self, path: Path) -> None:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.separator, quoting=self.quote, lineterminator=self.line_end)
        writer.writerow((*self.extra, *HEADER))
        for number, (weight, income, colour, town, outcome) in enumerate(clean_rows()):
            shown = self.missing if self.missing is not None and number % 20 == 0 else self.number(weight)
            label = "" if self.unlabelled and number % 50 == 0 else outcome
            place = town if self.encoding != "cp1252" else town.replace("Łódź", "Lodz")
            extra = [make(number) for make in self.extra.values()]
            writer.writerow((*extra, shown, self.number(income), colour, place, label))
        path.write_bytes(self.spoilt(out.getvalue()).encode(self.encoding))


def grouped(mark: str, decimal: str) -> Callable[[float], str]:
    return lambda number: f"{number:,.2f}".translate(str.maketrans({",": mark, ".": decimal}))


MESSY = {
    **{
        f"{encoding}, {name}": Messy(encoding=encoding, separator=separator)
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252")
        for name, separator in (("commas", ","), ("semicolons", ";"), ("tabs", "\t"), ("bars", "|"))
    },
    **{
        f"decimal commas, {name}": Messy(separator=separator, number=lambda number: str(number).replace(".", ","))
        for name, separator in (("semicolons", ";"), ("tabs", "\t"), ("quoted, commas", ","))
    },
    "thousands by points": Messy(separator=";", number=grouped(".", ",")),
    "thousands by commas": Messy(number=grouped(",", ".")),
    "thousands by spaces": Messy(separator=";", number=grouped(" ", ",")),
    "thousands by narrow spaces": Messy(separator=";", number=grouped("\u202f", ",")),
    "thousands by apostrophes": Messy(number=grouped("'", ".")),
    "everything quoted": Messy(quote=csv.QUOTE_ALL),
    "windows line ends": Messy(line_end="\r\n"),
    "a file of tabs": Messy(separator="\t", suffix=".tsv"),
    "blank lines": Messy(spoilt=lambda text: text.replace("\n", "\n\n")),
    "spaces after commas": Messy(spoilt=lambda text: text.replace(",", ",  ")),
    "upper-case categories": Messy(spoilt=lambda text: text.replace("red", "RED", 40)),
    "an id": Messy(extra={"id": lambda number: str(number + 1)}),
    "names of all": Messy(extra={"who": lambda number: f"person {number}"}),
    "a customer number that repeats": Messy(extra={"customer no": lambda number: str(number // 3)}),
    "remarks": Messy(extra={"remark": lambda number: f"seen {number % 97} times"}),
    "an empty column": Messy(extra={"later": lambda number: ""}),
    **{f"missing as {text!r}": Messy(missing=text, same=False) for text in ("", "NA", "?", "null", "-")},
    "rows without a label": Messy(unlabelled=True, same=False),
}
SOME = ("decimal commas, semicolons", "missing as 'NA'")  # the others are long


def called(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, (words, result.output)
    return result.output


def accuracy_of(messy: Messy, folder: Path) -> float:
    """Go from init to predict, and return the accuracy of the run's own test rows."""
    with chdir(folder):
        return accuracy_here(messy, folder)


def accuracy_here(messy: Messy, folder: Path) -> float:
    data = f"table{messy.suffix}"
    messy.write(folder / data)
    known = [word for each in KNOWN for word in ("--column", each)]
    made = json.loads(called("init", data, *known, "--json"))
    assert made["missing"] == []
    for name in messy.extra:
        assert any(f"'{name}' is left out" in note for note in made["notes"])
    run = json.loads(called("run", "table.toml", "--out", "run", "--json"))
    called("predict", "run", data, "--out", "predictions.csv")
    assert len((folder / "predictions.csv").read_text().splitlines()) == 1 + len(clean_rows())
    return float(run["accuracy"]["final"])


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> float:
    return accuracy_of(Messy(), tmp_path_factory.mktemp("clean"))


@pytest.mark.parametrize(
    "name", [name if name in SOME else pytest.param(name, marks=pytest.mark.long) for name in MESSY]
)
def test_a_messy_table_is_learnt_as_well_as_its_clean_copy(name: str, tmp_path: Path, clean: float) -> None:
    assert len(MESSY) >= 40
    messy = MESSY[name]
    found = accuracy_of(messy, tmp_path)
    assert clean > 0.8
    # 300 test rows: a standard error of 2.3 points where other noise or other rows enter.
    assert found == clean if messy.same else found > clean - 0.07
