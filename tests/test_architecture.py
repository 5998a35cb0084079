"""The code flows one way: no room imports one to its right, and no two files import each other in a circle."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FOUNDATION = (
    "messages",
    "version",
    "progress",
    "files",
    "arrays",
    "names",
    "streams",
    "registry",
    "registries",
    "notebook",
)
# As drawn in docs/architecture.md, left to right.
ROOMS = (
    *FOUNDATION,
    "engines",
    "randomness",
    "privacy",
    "masks",
    "integers",
    "scenario",
    "storage",
    "output",
    "budgets",
    "data",
    "workers",
    "impairments",
    "radio",
    "edge",
    "runs",
    "planning",
    "attacks",
    "audit",
    "sweeps",
    "tolerances",
    "compare",
    "reproduction",
    "reports",
    "estimator",
    "explore",
    "deploy",
    "cli",
    "__main__",
)
LARGEST_SHARE = 0.12


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for file in sorted(SOURCE.rglob("*.py"))}


@cache
def imported_modules(file: Path) -> set[str]:
    """Every module of the package that the file imports, wherever in it; names that a package hands on lead to it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("airmixml"):
            found |= {f"{node.module}.{name.name}" if f"{node.module}.{name.name}" in FILES else node.module
                      for name in node.names}  # fmt: skip
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("airmixml")}
    return found


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize("module", [name for name in FILES if room(name)])
def test_imports_go_to_the_left(module: str) -> None:
    own = room(module)
    for other in imported_modules(FILES[module]):
        assert room(other) == own or ROOMS.index(room(other)) < ROOMS.index(own), f"{module} imports {other}"


def test_privacy_needs_no_other_room() -> None:
    for module, file in FILES.items():
        if room(module) == "privacy":
            assert {room(other) for other in imported_modules(file)} <= {"privacy", *FOUNDATION}


def test_there_is_no_circle_of_imports() -> None:
    # A package's own __init__ names its files for others; a file of it that imports another does not need the package.
    graph = {module: {other for other in imported_modules(file) if other != module} for module, file in FILES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_no_room_holds_more_than_an_eighth_of_the_lines() -> None:
    lines: dict[str, int] = {}
    for module, file in FILES.items():
        lines[room(module)] = lines.get(room(module), 0) + len(file.read_text(encoding="utf-8").splitlines())
    largest = max(lines, key=lambda name: lines[name])
    assert lines[largest] <= LARGEST_SHARE * sum(lines.values()), f"{largest}: {lines[largest]}"


def test_the_list_of_slow_tests_names_tests() -> None:
    root = Path(__file__).parents[1]
    for place in (root / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        file, *_, name = place.split("::")
        assert (root / file).is_file(), place
        assert f"def {name}(" in (root / file).read_text(encoding="utf-8"), place
