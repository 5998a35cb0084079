"""What an attack found, were it the only one."""

from __future__ import annotations

from airmixml.attacks.measured import Findings, beyond_chance


def level_of(findings: Findings) -> str:
    figures = findings.measured()
    cutoff = beyond_chance(figures)
    certain = [each.level for each in figures if each.p_value <= cutoff]
    return max(certain, key=("", "leaks", "exposed").index, default="")
