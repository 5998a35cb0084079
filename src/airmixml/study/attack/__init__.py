"""Attacks on scenarios, side by side: `airmix attack`."""

from airmixml.study.attack.attack import attack, choose_parts
from airmixml.study.attack.cases import Case, read_cases

__all__ = ["Case", "attack", "choose_parts", "read_cases"]
