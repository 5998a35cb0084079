"""Audits: attacks whose success bounds epsilon from below, held against what is claimed."""

from airmixml.audit.accountant_claims import Claim
from airmixml.audit.auditor import Auditor
from airmixml.audit.faults import FAULTS, SOUND, Fault, fault_named
from airmixml.audit.findings import Audit, LowerBound
from airmixml.audit.trials import Keeper, MemoryKeeper, Trials

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
