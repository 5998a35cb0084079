"""Names that a package imports at first use: torch takes seconds, and most commands never need it."""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def import_late(package: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``package``, which imports a name as its ``if TYPE_CHECKING`` says."""

    @cache
    def modules() -> dict[str, str | None]:
        import ast  # here: most processes ask for no such name

        loader: Any = sys.modules[package].__loader__
        branches = (node for node in ast.parse(loader.get_source(package)).body if isinstance(node, ast.If))
        imports = (node for branch in branches for node in branch.body if isinstance(node, ast.ImportFrom))
        return {name.name: node.module for node in imports for name in node.names}

    def get(name: str) -> Any:
        if module := modules().get(name):
            return getattr(import_module(module), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
