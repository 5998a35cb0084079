"""What an adversary may learn: bounds, accountants, adversaries, ledgers, calibration. Needs no torch."""

from airmixml.privacy.adversaries import Adversary, Eavesdropper, Everyone, Release, Server
from airmixml.privacy.design import Design, Sensitivity, participation_bound
from airmixml.privacy.evaluation import Question, calibrate_power, certified_epsilon
from airmixml.privacy.gaussian import (
    ADJACENCIES,
    SAMPLINGS,
    Accountant,
    GaussianSlots,
    gaussian_epsilon,
    gaussian_epsilons,
)
from airmixml.privacy.paper_bounds import (
    power_scale_for_privacy,
    slot_privacy_loss,
    slot_squared_shift,
    smallest_certifiable_epsilon,
    subsampled_renyi_loss,
    tight_epsilon,
    total_privacy_loss,
)
from airmixml.privacy.statements import Ledger, PrivacyStatement, state_jointly, state_privacy

__all__ = ["ADJACENCIES", "SAMPLINGS", "Accountant", "Adversary", "Design", "Eavesdropper", "Everyone"]
__all__ += ["GaussianSlots", "Ledger", "PrivacyStatement", "Question", "Release", "Sensitivity", "Server"]
__all__ += ["calibrate_power", "certified_epsilon", "gaussian_epsilon", "gaussian_epsilons", "participation_bound"]
__all__ += ["power_scale_for_privacy", "slot_privacy_loss", "slot_squared_shift", "smallest_certifiable_epsilon"]
__all__ += ["state_jointly", "state_privacy", "subsampled_renyi_loss", "tight_epsilon", "total_privacy_loss"]
