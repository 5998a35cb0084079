"""docs/extending.md shows the very files of the example package, and the names in the registries."""

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


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_each_file_is_short_and_shown_as_it_is(file: Path) -> None:
    content = file.read_text(encoding="utf-8")
    assert len(content.splitlines()) < 40
    assert content in blocks("python")


def test_nothing_else_is_shown() -> None:
    assert len(blocks("python")) == len(FILES)
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    (shown,) = blocks("ini")
    assert tomllib.loads(shown)["project"]["entry-points"] == declared
    assert {point.partition(":")[0] for group in declared.values() for point in group.values()} == {
        f"airmixml_example.{file.stem}" for file in FILES
    }


def test_the_table_lists_the_doors() -> None:
    rows = re.findall(r"^\| ([\w ]+) \| `(airmixml\.\w+)` \| `([\w.-]+)` \| (.+) \|$", TEXT, re.MULTILINE)
    assert rows == [(each.kind, each.group, each.key, ", ".join(each.own)) for each in REGISTRIES]
