"""Words that stand in annotations: every name that a file of the package defines or imports, for type checkers too."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import airmixml


@cache
def known_words() -> frozenset[str]:
    """Return them all."""
    words: set[str] = set()
    for file in Path(airmixml.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                words |= {(each.asname or each.name).partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ClassDef):
                words.add(node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                words.add(node.targets[0].id)
    return frozenset(words)
