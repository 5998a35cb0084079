"""Masks that cancel in the sum: their keys, their numbers, and how the masks of absent workers are recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.masks.graph import draw_graph
    from airmixml.masks.recovery import RecoveringWorker
    from airmixml.masks.recovery_server import RecoveryServer
    from airmixml.masks.rounds import Round, round_name
    from airmixml.masks.rules import Rules, choose_rules

__all__ = ["RecoveringWorker", "RecoveryServer", "Round", "Rules", "choose_rules", "draw_graph"]
__all__ += ["round_name"]

__getattr__ = import_late(__name__)
