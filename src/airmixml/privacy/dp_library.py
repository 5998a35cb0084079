"""The library dp-accounting, imported at first use: it takes most of a second, and most commands need none of it."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

from airmixml.errors import PrivacyError


def is_missing() -> bool:
    """Return whether the library is not installed."""
    return find_spec("dp_accounting") is None


def load_dp_accounting() -> ModuleType:
    """Return the module ``dp_accounting`` with its ``rdp`` and ``pld`` parts."""
    if is_missing():
        raise PrivacyError("privacy.accountant: rdp and pld need the library dp-accounting; pip install dp-accounting")
    import dp_accounting
    import dp_accounting.pld
    import dp_accounting.rdp

    module: ModuleType = dp_accounting
    return module
