"""What a fit spends of budgets that last, as a ledger counts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from airmixml.budgets import LedgerFile, People
from airmixml.data.labels import number_holders
from airmixml.errors import ScenarioError
from airmixml.estimator.checks import as_given
from airmixml.scenario import Scenario
from airmixml.wording import shown

if TYPE_CHECKING:
    from airmixml.radio.transmission import Transmission


@dataclass(frozen=True, kw_only=True)
class FitBudget:
    """What a fit spends of budgets that last: reserved before anything is sent, settled once it is."""

    ledger: LedgerFile
    number: int
    names: tuple[str, ...]  # of its workers
    mode: str

    @classmethod
    def reserve(
        cls, ledger: Any, scenario: Scenario, dimensions: tuple[int, int], worker: ArrayLike | None, mode: str
    ) -> Self:
        """Reserve what a fit spends at most; raise a PrivacyError if it would pass a worker's budget.

        ``dimensions`` are those of inputs and labels as they are sent, ``worker`` names the holder of each row.
        """
        from airmixml.runs.spending import planned_losses, request_of

        if not isinstance(ledger, str | Path):
            raise ScenarioError(f"ledger = {shown(ledger)}: must be the path of a file that airmix ledger create made")
        if worker is None:
            raise ScenarioError(
                f"ledger = {shown(str(ledger))}: keeps budgets of people, and the number of a row means nobody in the "
                "next fit; give fit(X, y, worker=...) the name of who holds each row"
            )
        file = LedgerFile(ledger)
        file.check_kind(mode=mode, adjacency=scenario.privacy.adjacency, protect='use mode="protection"')
        names = number_holders(as_given(worker), "worker")[1]
        known = file.facts()["people"]
        people = known if known is not None and known.named else People(label="worker of fit")
        losses = planned_losses(scenario, *dimensions)
        request = request_of(scenario, losses, about=f"{scenario.name}.fit", who=names)
        (number,) = file.reserve([request], people)
        return cls(ledger=file, number=number, names=names, mode=mode)

    def settle(self, sent: Transmission) -> None:
        """Count as spent what was reserved; in simulation, what each worker really spent."""
        from airmixml.runs.spending import spent_losses
        from airmixml.workers.population import Owners

        losses = None
        if self.mode != "protection":
            owners = Owners(label="", count=0, who=self.names, holding=np.arange(len(self.names)))
            losses = spent_losses(sent, owners)
        self.ledger.settle(self.number, losses)
