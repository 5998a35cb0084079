"""Masks that cancel in the sum: their keys, their numbers, and how the masks of absent workers are recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.masks.expansion import edge_masks, integer_edge_masks, self_mask, standard_normals, uniform_integers
    from airmixml.masks.graph import MaskGraph, draw_graph
    from airmixml.masks.hidden_noise import Honest, suitable_degree, who_is_left
    from airmixml.masks.keys import KeyPair, pair_seed
    from airmixml.masks.recovery import Answer, RecoveringWorker, Step
    from airmixml.masks.recovery_server import RecoveryServer
    from airmixml.masks.rounds import Announcement, EitherOr, Reveal, Round, round_name
    from airmixml.masks.rules import Rules, choose_rules

__all__ = ["Announcement", "Answer", "EitherOr", "Honest", "KeyPair", "MaskGraph", "RecoveringWorker"]
__all__ += ["RecoveryServer", "Reveal", "Round", "Rules", "Step", "choose_rules", "draw_graph", "edge_masks"]
__all__ += ["integer_edge_masks", "pair_seed", "round_name", "self_mask", "standard_normals", "suitable_degree"]
__all__ += ["uniform_integers", "who_is_left"]

__getattr__ = import_late(
    __name__,
    {
        ".expansion": ("edge_masks", "integer_edge_masks", "self_mask", "standard_normals", "uniform_integers"),
        ".graph": ("MaskGraph", "draw_graph"),
        ".hidden_noise": ("Honest", "suitable_degree", "who_is_left"),
        ".keys": ("KeyPair", "pair_seed"),
        ".recovery": ("Answer", "RecoveringWorker", "Step"),
        ".recovery_server": ("RecoveryServer",),
        ".rounds": ("EitherOr", "Announcement", "Reveal", "Round", "round_name"),
        ".rules": ("Rules", "choose_rules"),
    },
)
