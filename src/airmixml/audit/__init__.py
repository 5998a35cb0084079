"""Audits: attacks whose success bounds epsilon from below, held against what is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.audit.auditor import Auditor, audit
    from airmixml.audit.claims_and_bounds import Audit, AuditResult
    from airmixml.audit.faults import FAULTS, Fault, fault_named
    from airmixml.audit.settings import AuditSettings

__all__ = ["FAULTS", "Audit", "AuditResult", "AuditSettings", "Auditor", "Fault", "audit", "fault_named"]

__getattr__ = import_late(__name__)
