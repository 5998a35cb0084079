"""What all protected fits of this process reveal together about a row that was in each of them, at most.

Only their statements count, which follow from settings. What knew which rows came back would tell who was in an earlier
fit, so every fit counts in full. A ledger, which knows people by name, has the sharp number.
"""

import math
import threading
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from airmixml.errors import PrivacyError, RepeatedFitWarning
from airmixml.privacy import PrivacyStatement, state_jointly
from airmixml.privacy.adversaries import Everyone, Server
from airmixml.radio.privacy_target import is_one_gaussian
from airmixml.scenario import Scenario

_REPEATED: Final = (
    "protected fits are repeated in this process: each releases its rows again, and epsilons add up (joint_privacy_ "
    'has the sum so far, a ledger keeps it); choose parameters beforehand, or on public data with mode="simulation"'
)


class Together:
    """The protected fits so far."""

    def __init__(self) -> None:
        self._fits = self._without_ledger = 0
        self._unit = "worker"
        self._gaussian = True  # whether each was one Gaussian mechanism
        self._stated: dict[tuple[str, str], PrivacyStatement] = {}  # of all, by adversary and adjacency
        self._lock = threading.Lock()

    def with_fit(
        self, scenario: Scenario, statements: Iterable[PrivacyStatement], *, of_rows: bool, ledger: bool
    ) -> PrivacyStatement:
        """Count a fit with its statements, and return what all fits reveal to the server (or its target, everyone).

        That is about a row if any fit was ``of_rows``, else about a worker with all its rows. The second fit that no
        ``ledger`` counts is warned of.
        """
        exact = {(each.adversary, each.adjacency): each for each in statements if each.accountant == "gdp"}
        exact = {key: each for key, each in exact.items() if key[0] in (Server.name, Everyone.name)}
        privacy = scenario.privacy
        adversary = Everyone.name if privacy.adversary == Everyone.name else Server.name
        with self._lock:
            self._gaussian &= is_one_gaussian(scenario)
            self._stated = self._joined(exact) if self._fits else exact
            self._fits += 1
            self._without_ledger += not ledger
            self._unit = "row" if of_rows else self._unit
            if self._without_ledger == 2 and not ledger:  # once: a grid search fits many times
                warnings.warn(_REPEATED, RepeatedFitWarning, stacklevel=2)
            return self._statement(exact[adversary, privacy.adjacency])

    def _joined(self, exact: dict[tuple[str, str], PrivacyStatement]) -> dict[tuple[str, str], PrivacyStatement]:
        found = {}
        for key in exact.keys() & self._stated.keys():
            with suppress(PrivacyError):  # no delta is left, so that nothing can be stated from here on
                found[key] = state_jointly([exact[key], self._stated[key]], gaussian=self._gaussian)
        return found

    def _statement(self, alone: PrivacyStatement) -> PrivacyStatement:
        """Return the statement of all fits in place of the last one's."""
        why = f"{self._fits} protected fit{'s' if self._fits > 1 else ''} of this process, as if of the same rows: "
        found = self._stated.get((alone.adversary, alone.adjacency))
        if found is None:
            found, how = replace(alone, epsilon=math.inf, if_better={}), f"nothing is stated against {alone.adversary}"
        else:
            how = "their mu^2 add up" if self._gaussian else "basic composition"
        return replace(found, why=why + how, unit=self._unit, target_epsilon=None)


_PROCESS: Final = Together()


def state_fits(
    scenario: Scenario, statements: Iterable[PrivacyStatement], *, of_rows: bool, ledger: bool
) -> PrivacyStatement:
    """Return what a fit and all earlier protected fits of this process reveal together; see ``Together``."""
    return _PROCESS.with_fit(scenario, statements, of_rows=of_rows, ledger=ledger)
