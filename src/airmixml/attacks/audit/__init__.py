"""Audits: attacks whose success bounds epsilon from below, held against what is claimed."""

from airmixml.attacks.audit.auditor import Auditor
from airmixml.attacks.audit.claims import Claim
from airmixml.attacks.audit.faults import FAULTS, SOUND, Fault, fault_named
from airmixml.attacks.audit.findings import Audit, LowerBound
from airmixml.attacks.audit.trials import Keeper, MemoryKeeper, Trials

__all__ = [
    "FAULTS",
    "SOUND",
    "Audit",
    "Auditor",
    "Claim",
    "Fault",
    "Keeper",
    "LowerBound",
    "MemoryKeeper",
    "Trials",
    "fault_named",
]
