"""What an adversary may learn: bounds, accountants, adversaries, ledgers, calibration. Needs no torch."""

from airmixml.privacy.adversaries import Eavesdropper, Everyone, Release, Server
from airmixml.privacy.design import Design, Sensitivity, participation_bound
from airmixml.privacy.evaluation import calibrate_power, certified_epsilon, check_target
from airmixml.privacy.gaussian import Ledger, gaussian_epsilon, gaussian_epsilons
from airmixml.privacy.mechanism import ADJACENCIES, SAMPLINGS, Accountant, GaussianSlots
from airmixml.privacy.paper_bounds import (
    power_scale_for_privacy,
    slot_privacy_loss,
    slot_squared_shift,
    smallest_certifiable_epsilon,
    subsampled_renyi_loss,
    tight_epsilon,
    total_privacy_loss,
)
from airmixml.privacy.statements import PrivacyStatement, state_jointly, state_privacy
from airmixml.privacy.views import Adversary

__all__ = ["ADJACENCIES", "SAMPLINGS", "Accountant", "Adversary", "Design", "Eavesdropper", "Everyone"]
__all__ += ["GaussianSlots", "Ledger", "PrivacyStatement", "Release", "Sensitivity", "Server", "calibrate_power"]
__all__ += ["certified_epsilon", "check_target", "gaussian_epsilon", "gaussian_epsilons", "participation_bound"]
__all__ += ["power_scale_for_privacy", "slot_privacy_loss", "slot_squared_shift", "smallest_certifiable_epsilon"]
__all__ += ["state_jointly", "state_privacy", "subsampled_renyi_loss", "tight_epsilon", "total_privacy_loss"]
