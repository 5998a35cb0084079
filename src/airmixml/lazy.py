"""Names that a package imports at first use: torch takes seconds, and most commands never need it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_late(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``package`` that imports each name from its module (".name": in the package)."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name in module_of:
            return getattr(import_module(module_of[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
