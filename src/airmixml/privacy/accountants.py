"""Accountants by name: each says what it can treat, and the epsilon of that.

``paper-loose`` and ``paper-tight`` are the paper's bounds, ``rdp`` and ``pld`` are dp-accounting's, ``gdp`` is exact
where the schedule is known.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from airmixml.errors import PrivacyError
from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.privacy.loose_bound import slot_privacy_loss, total_privacy_loss
from airmixml.privacy.mechanism import GaussianSlots
from airmixml.privacy.pld import PldAccountant
from airmixml.privacy.rdp import RdpAccountant
from airmixml.privacy.tight_bound import DEFAULT_ORDERS, gaussian_renyi_epsilon, tight_epsilon
from airmixml.wording import nearest, shown

_MOST_KINDS: Final = 12
# Beyond this a delta is needed that no accountant resolves.
_LARGEST_STEP: Final = 300.0
_HEADROOM: Final = 1.01


class Accountant(Protocol):
    """Turns slots into an epsilon."""

    name: str
    about: str

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Return why the mechanism cannot be treated; empty if it can."""

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return an epsilon that holds at ``delta``, never too small a one."""


class PaperLoose:
    """Corollary 1: order 2 of Proposition 1."""

    name = "paper-loose"
    about = "Corollary 1 of the paper: Renyi order 2 alone"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse Poisson sampling, for which its theorem was not proven."""
        return _refuse_poisson(mechanism)

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the sum of the slots' losses plus ln(1/delta)."""
        losses = np.asarray(mechanism.exponents)
        if mechanism.sampling != "none":
            losses = slot_privacy_loss(losses, mechanism.sampling_rate)
        return total_privacy_loss(float(np.dot(losses, np.asarray(mechanism.counts, dtype=np.float64))), delta)


class PaperTight:
    """Proposition 1 with C_t corrected."""

    name = "paper-tight"
    about = "Proposition 1 of the paper, C_t corrected: Renyi orders 2 to 512"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse Poisson sampling, for which its theorem was not proven."""
        return _refuse_poisson(mechanism)

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the least over the orders."""
        if mechanism.sampling == "none":
            return gaussian_renyi_epsilon(mechanism.total, delta, DEFAULT_ORDERS)
        slots = mechanism.coarsened(_MOST_KINDS)
        return tight_epsilon(slots.exponents, slots.counts, sampling_rate=slots.sampling_rate, delta=delta)[0]


class Gdp:
    """The exact epsilon of the Gaussian mechanism that all slots of a worker form together."""

    name = "gdp"
    about = "exact for a known schedule and that sensitivity (Dong, Roth, Su; Balle, Wang)"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse hidden schedules: a mixture over schedules is not Gaussian."""
        return "" if mechanism.sampling == "none" else "exact only where the schedule is known; use pld"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the smallest epsilon there is at ``delta``."""
        return gaussian_epsilon(math.sqrt(mechanism.total), delta)


def _refuse_poisson(mechanism: GaussianSlots) -> str:
    drawn = mechanism.as_drawn().sampling != "poisson"
    return "" if drawn else "its theorem samples without replacement; use pld or rdp"


ACCOUNTANTS: Final[dict[str, Accountant]] = {
    accountant.name: accountant for accountant in (PaperLoose(), PaperTight(), RdpAccountant(), PldAccountant(), Gdp())
}


# For searches over many designs: ten times as fast, a little on the safe side.
COARSE_PLD: Final = "pld-coarse"


def accountant_named(name: str) -> Accountant:
    """Return the accountant of that name."""
    if name == COARSE_PLD:
        return PldAccountant(coarseness=10.0)
    if name not in ACCOUNTANTS:
        raise PrivacyError(
            f"accountant = {shown(name)}: must be one of {', '.join(ACCOUNTANTS)}; did you mean "
            f"{nearest(name.lower(), list(ACCOUNTANTS))}?"
        )
    return ACCOUNTANTS[name]


@lru_cache(maxsize=4096)
def certified_epsilon(accountant: str, mechanism: GaussianSlots, delta: float) -> float:
    """Return the accountant's epsilon, or raise a PrivacyError that says why it has none."""
    chosen = accountant_named(accountant)
    refusal = chosen.refusal(mechanism)
    if refusal:
        raise PrivacyError(
            f"privacy.accountant = {accountant!r}: cannot treat sampling {mechanism.sampling} with "
            f"{mechanism.adjacency} neighbours: {refusal}"
        )
    if not 0.0 < delta < 1.0:
        raise PrivacyError(f"privacy.delta = {delta:g}: must lie between 0 and 1")
    return chosen.epsilon(mechanism, delta) if mechanism.steps == 1 else _two_steps(chosen, mechanism, delta)


def _two_steps(accountant: Accountant, mechanism: GaussianSlots, delta: float) -> float:
    """Return the epsilon of neighbours two steps apart: (2 e, (1 + exp e) d) where one step has (e, d).

    The smaller d must be, the larger e gets, so it is raised until the two agree.
    """
    step = accountant.epsilon(mechanism, delta / 2.0)
    while step < _LARGEST_STEP:
        enough = _HEADROOM * step
        found = accountant.epsilon(mechanism, delta / (1.0 + math.exp(enough)))
        if found <= enough:
            return 2.0 * found
        step = found
    return math.inf
