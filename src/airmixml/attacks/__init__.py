"""What an adversary learns: reconstruction, linkage, inference, audits.

>>> from airmixml import Scenario
>>> from airmixml.attacks import reconstruct, watch
>>> view = watch(Scenario.preset("digits"))  # doctest: +SKIP
>>> reconstruct(view, "least-squares").inputs  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airmixml.attacks.recognition import recognise
    from airmixml.attacks.reconstruction import reconstruct
    from airmixml.attacks.server_view import watch
    from airmixml.attacks.without_schedule import attack_as_eavesdropper, attack_released

__all__ = ["attack_as_eavesdropper", "attack_released", "recognise", "reconstruct", "watch"]

# Imported at first use: the command line looks up names here long before it needs torch.
_LATE = {
    "attack_as_eavesdropper": "airmixml.attacks.without_schedule",
    "attack_released": "airmixml.attacks.without_schedule",
    "recognise": "airmixml.attacks.recognition",
    "reconstruct": "airmixml.attacks.reconstruction",
    "watch": "airmixml.attacks.server_view",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'airmixml.attacks' has no attribute {name!r}")
