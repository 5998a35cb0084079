"""What a fit spends: of budgets that last, and together with all earlier fits of this process."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.budgets import LedgerFile, People
from airmixml.messages import PrivacyError, RepeatedFitWarning, ScenarioError, shown
from airmixml.privacy import PrivacyStatement, state_jointly
from airmixml.privacy.adversaries import Everyone, Server
from airmixml.radio.privacy_target import is_one_gaussian
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from airmixml.radio.transmission import Transmission

_REPEATED: Final = (
    "protected fits are repeated in this process: each releases its rows again, and epsilons add up (joint_privacy_ "
    'has the sum so far, a ledger keeps it); choose parameters beforehand, or on public data with mode="simulation"'
)


def reserve_fit(
    ledger: Any, scenario: Scenario, dimensions: tuple[int, int], names: tuple[str, ...], mode: str
) -> Callable[[Transmission], None]:
    """Reserve what a fit spends at most; raise a PrivacyError if it would pass a worker's budget.

    What is returned counts it as spent once it is sent; in simulation, what each worker really spent. ``dimensions``
    are those of inputs and labels as they are sent, ``names`` those of the workers, empty where rows have none.
    """
    from airmixml.runs.spending import planned_losses, request_of, spent_losses
    from airmixml.workers.population import Owners

    if not isinstance(ledger, str | Path):
        raise ScenarioError(f"ledger = {shown(ledger)}: must be the path of a file that airmix ledger create made")
    if not names:
        raise ScenarioError(
            f"ledger = {shown(str(ledger))}: keeps budgets of people, and the number of a row means nobody in the next "
            "fit; give fit(X, y, worker=...) the name of who holds each row"
        )
    file = LedgerFile(ledger)
    file.check_kind(mode=mode, adjacency=scenario.privacy.adjacency, protect='use mode="protection"')
    known = file.facts()["people"]
    people = known if known is not None and known.named else People(label="worker of fit")
    planned = planned_losses(scenario, *dimensions, protected=mode == "protection")
    (number,) = file.reserve([request_of(scenario, planned, about=f"{scenario.name}.fit", who=names)], people)

    def settle(sent: Transmission) -> None:
        owners = Owners(label="", count=0, who=names, holding=np.arange(len(names)))
        file.settle(number, None if mode == "protection" else spent_losses(sent, owners))

    return settle


class Together:
    """What all protected fits of a process reveal together about a row that was in each of them, at most.

    Only their statements count, which follow from settings. What knew which rows came back would tell who was in an
    earlier fit, so every fit counts in full. A ledger, which knows people by name, has the sharp number.
    """

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


PROTECTED_FITS = Together()
"""Those of this process."""
