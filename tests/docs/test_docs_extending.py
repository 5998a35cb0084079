"""docs/extending.md shows every file of the example package, and every registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from airmixml.registries import REGISTRIES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = [path for path in sorted((EXAMPLE / "airmixml_example").glob("*.py")) if path.name != "__init__.py"]
SHOWN = re.findall(r"^\[[\w.]+\]\((\.\./examples/plugin/\S+)\)$", TEXT, re.MULTILINE)  # on the site, the file itself


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_each_file_is_short_and_shown_once(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) < 40
    assert SHOWN.count(f"../examples/plugin/airmixml_example/{file.name}") == 1


def test_the_declaration_is_shown_and_names_every_file() -> None:
    assert sorted(SHOWN) == sorted(
        f"../examples/plugin/{file}"
        for file in ["pyproject.toml", *(f"airmixml_example/{each.name}" for each in FILES)]
    )
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert list(declared) == [each.group for each in REGISTRIES]
    assert {point.partition(":")[0] for group in declared.values() for point in group.values()} == {
        f"airmixml_example.{file.stem}" for file in FILES
    }


def test_the_table_lists_the_doors() -> None:
    rows = re.findall(r"^\| ([\w ]+) \| `(airmixml\.\w+)` \| `([\w.-]+)` \|$", TEXT, re.MULTILINE)
    assert rows == [(each.kind, each.group, each.key) for each in REGISTRIES]
