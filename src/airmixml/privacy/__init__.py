"""What an adversary may learn: the paper's bounds and the power scale that keeps them. Needs no torch."""

from airmixml.privacy.loose_bound import (
    paper_sensitivity,
    power_scale_for_privacy,
    slot_privacy_exponent,
    slot_privacy_loss,
    smallest_certifiable_epsilon,
    total_privacy_loss,
)
from airmixml.privacy.statement import PrivacyStatement
from airmixml.privacy.target import check_privacy_target

__all__ = [
    "PrivacyStatement",
    "check_privacy_target",
    "paper_sensitivity",
    "power_scale_for_privacy",
    "slot_privacy_exponent",
    "slot_privacy_loss",
    "smallest_certifiable_epsilon",
    "total_privacy_loss",
]
