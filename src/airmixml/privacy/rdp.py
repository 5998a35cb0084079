"""Renyi accounting by the library dp-accounting.

The library is imported at first use: it takes most of a second, and most commands need none of it.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from airmixml.errors import PrivacyError
from airmixml.privacy.accountants import Accountant
from airmixml.privacy.gaussian import total_variation
from airmixml.privacy.mechanism import GaussianSlots

# Whole orders are exact in the library for both kinds of sampling; fractional ones only help below order 2.
_ORDERS: Final = (
    *(1.0 + x / 10.0 for x in range(1, 10)),
    *map(float, range(2, 33)),
    40.0,
    48.0,
    64.0,
    96.0,
    128.0,
    256.0,
)
_MOST_KINDS: Final = 12
_TOO_SMALL: Final = "privacy.accountant = 'rdp': rounding leaves no digits of a loss this small; use pld or paper-tight"


def missing_library() -> str:
    """Return why nothing can be treated; empty if dp-accounting is installed."""
    return "" if find_spec("dp_accounting") else "the library dp-accounting is not installed; pip install dp-accounting"


def load_dp_accounting() -> ModuleType:
    """Return the module ``dp_accounting`` with its ``rdp`` and ``pld`` parts."""
    import dp_accounting
    import dp_accounting.pld
    import dp_accounting.rdp

    module: ModuleType = dp_accounting
    return module


class RdpAccountant(Accountant):
    """dp-accounting's Renyi accountant."""

    about = "Renyi accountant of the library dp-accounting"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse what the library does not cover: without replacement is replace-one there, Poisson remove-one."""
        needed = {"without-replacement": "replace-one", "poisson": "remove-one"}.get(mechanism.as_drawn().sampling)
        if needed is None or mechanism.adjacency == needed:
            return missing_library()
        return f"dp-accounting's theorem for it is for {needed} neighbours; use pld"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the least over the orders."""
        dp = load_dp_accounting()
        if mechanism.total == 0.0:
            return 0.0
        relation = dp.NeighboringRelation
        accountant = dp.rdp.RdpAccountant(
            _ORDERS, relation.REPLACE_ONE if mechanism.adjacency == "replace-one" else relation.ADD_OR_REMOVE_ONE
        )
        if mechanism.sampling == "none":
            accountant.compose(dp.GaussianDpEvent(1.0 / math.sqrt(mechanism.total)))
            return float(accountant.get_epsilon(delta))
        slots = mechanism.as_drawn().coarsened(_MOST_KINDS)
        with _careful():
            for squared_shift, count in slots.kinds:
                if squared_shift == 0.0:
                    continue
                gaussian = dp.GaussianDpEvent(1.0 / math.sqrt(squared_shift))
                event = (
                    dp.PoissonSampledDpEvent(slots.sampling_rate, gaussian)
                    if slots.sampling == "poisson"
                    else dp.SampledWithoutReplacementDpEvent(slots.population, slots.sampled, gaussian)
                )
                accountant.compose(event, count)
            epsilon = float(accountant.get_epsilon(delta))
        _check_zero(epsilon, slots, delta)
        return epsilon


def _check_zero(epsilon: float, slots: GaussianSlots, delta: float) -> None:
    """Refuse the zero that the library returns when rounding made a divergence negative, unless zero is right."""
    if epsilon > 0.0:
        return
    apart = math.fsum(
        count * slots.sampling_rate * float(total_variation(math.sqrt(squared_shift)))
        for squared_shift, count in slots.kinds
    )
    if apart > delta:
        raise PrivacyError(_TOO_SMALL)


@contextmanager
def _careful() -> Iterator[None]:
    """Refuse what the library's logarithm of a sum that rounding made zero refuses, in our words.

    Its warnings stay off the terminal: on orders that it leaves out, and on the zeros that ``_check_zero`` looks at.
    """
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except (ValueError, OverflowError) as problem:
        raise PrivacyError(_TOO_SMALL) from problem
    finally:
        logger.setLevel(before)
