"""What an adversary may learn: the paper's bounds and the power scale that keeps them. Needs no torch."""

from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.privacy.loose_bound import (
    known_schedule_loss,
    paper_sensitivity,
    power_scale_for_privacy,
    slot_privacy_exponent,
    slot_privacy_loss,
    smallest_certifiable_epsilon,
    total_privacy_loss,
)
from airmixml.privacy.statement import PrivacyStatement
from airmixml.privacy.tight_bound import subsampled_renyi_loss, tight_epsilon

__all__ = [
    "PrivacyStatement",
    "gaussian_epsilon",
    "known_schedule_loss",
    "paper_sensitivity",
    "power_scale_for_privacy",
    "slot_privacy_exponent",
    "slot_privacy_loss",
    "smallest_certifiable_epsilon",
    "subsampled_renyi_loss",
    "tight_epsilon",
    "total_privacy_loss",
]
