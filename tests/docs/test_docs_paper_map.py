"""docs/paper.md points at functions and tests: each must exist."""

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def test_every_function_exists() -> None:
    names = set(re.findall(r"`(airmixml(?:\.\w+)+)`", TEXT))
    assert len(names) > 25
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_every_test_exists() -> None:
    places = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT))
    assert len(places) > 10
    for file, test in places:
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), (file, test)
