"""torch under its own name, which takes seconds to import: it is when something of it is first asked for.

Who needs no torch imports files that could use it all the same: an account, a device that only makes vectors.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["torch"]


class _Late:
    """A module that is imported at first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)  # asked for once: then it is as fast as the module itself
        return found


if TYPE_CHECKING:
    import torch
else:
    torch = _Late("torch")
