"""What fits reveal together: as a ledger that lasts counts it, or at most, for all protected fits of this process.

In the process no row is looked at: a statement that knew which rows came back would tell who was in an earlier fit. So
every fit counts in full, whatever rows it had. A ledger, which knows people by name, has the sharp number.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from airmixml.budgets import LedgerFile, People
from airmixml.data.labels import number_holders
from airmixml.errors import RepeatedFitWarning, ScenarioError
from airmixml.estimator.checks import as_given
from airmixml.privacy import PrivacyStatement, gaussian_epsilon
from airmixml.privacy.evaluation import better_receivers
from airmixml.privacy.mechanism import COMPOSED_SHARE
from airmixml.privacy.statements import FAILURES
from airmixml.scenario import Scenario
from airmixml.wording import shown

if TYPE_CHECKING:
    from airmixml.radio import AirReport
    from airmixml.radio.transmission import Transmission

_REPEATED: Final = (
    "protected fits are repeated in this process: each releases its rows again, and epsilons add up (joint_privacy_ "
    'has the sum so far, a ledger keeps it); choose parameters beforehand, or on public data with mode="simulation"'
)
_REPLACE, _REMOVE = "replace-one", "remove-one"


@dataclass(kw_only=True, eq=False)
class Together:
    """Adds up mu^2 of fits, by adversary and adjacency; Gaussian mechanisms compose that way, exactly."""

    fits: int = 0
    of_rows: bool = False
    squared_mu: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    failures: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # of statements, by their fields
    lock: threading.Lock = field(default_factory=threading.Lock)

    def with_fit(self, spent: dict[str, float], alone: PrivacyStatement, *, of_rows: bool) -> Together:
        """Take a fit into account, and return what there is now.

        A removal never moves more than a replacement can. A replacement is a removal and an addition, so that it has at
        most twice the mu of a removal.
        """
        with self.lock:
            self.fits += 1
            self.of_rows |= of_rows
            for adversary, squared_mu in spent.items():
                self.squared_mu[adversary, _REMOVE] += squared_mu
                self.squared_mu[adversary, _REPLACE] += squared_mu * (4.0 if alone.adjacency == _REMOVE else 1.0)
            for name in FAILURES:
                self.failures[name] += getattr(alone, name)
            return replace(self, squared_mu=self.squared_mu.copy(), failures=self.failures.copy())


_PROCESS: Final = Together()


def state_jointly(report: AirReport, *, of_rows: bool, ledger: bool) -> PrivacyStatement:
    """Return what this and all earlier protected fits of the process reveal of a row that was in all of them.

    It is about a worker with all its rows where every fit was told who holds which (none is ``of_rows``). The statement
    is against the server, or against everyone where the fit's target is. A second fit that no ``ledger`` counts is
    warned of.
    """
    privacy = report.scenario.privacy
    # What hides a row from the server may hide it from nobody who hears each worker alone.
    hidden = privacy.noise_kind.brought
    spent = {"server": report.squared_mu(), "everyone": report.squared_mu("everyone") if hidden else math.inf}
    everyone = privacy.adversary == "everyone"
    alone = report.privacy if everyone else report.privacy_against_server
    now = _PROCESS.with_fit(spent, alone, of_rows=of_rows)
    if now.fits == 2 and not ledger:  # once: a grid search fits many times
        warnings.warn(_REPEATED, RepeatedFitWarning, stacklevel=2)
    squared_mu = now.squared_mu["everyone" if everyone else "server", privacy.adjacency]
    fits = f"{now.fits} protected fit{'s' if now.fits > 1 else ''}"
    together = f"{fits} in this process, as if all had the same rows: mu^2 add up"
    if math.isinf(squared_mu):
        together += "; one of them rests on the receiver's noise, which does not count against everyone"
    delta = privacy.delta
    if not privacy.noise_kind.real:  # each fit sets next to nothing of delta aside: this is for a thousand
        delta *= 1.0 - 1e3 * COMPOSED_SHARE
    delta -= now.failures["gain_failure"]
    stated = math.isfinite(squared_mu) and delta > 0.0
    epsilon = gaussian_epsilon(math.sqrt(squared_mu), delta) if stated else math.inf
    better: dict[str, float | None] = {
        name: None if math.isinf(squared_mu) else gaussian_epsilon(math.sqrt(factor * squared_mu), delta)
        for name, factor in better_receivers(0).items()
        if name in alone.if_better
    }
    unit, failures = "row" if now.of_rows else "worker", dict[str, Any](now.failures)
    return replace(alone, epsilon=epsilon, delta=privacy.delta, if_better=better, unit=unit, why=together, **failures)


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
