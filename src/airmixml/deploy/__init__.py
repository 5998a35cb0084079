"""A running system: workers, server and air as processes of their own, over standard transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.deploy.contract import Contract
    from airmixml.deploy.server import Server, carry
    from airmixml.deploy.worker import Device

__all__ = ["Contract", "Device", "Server", "carry"]

# Late, so that a worker's process loads no more than it needs.
__getattr__ = import_late(__name__)
