"""What a run costs the owners of its data, for a ledger that lasts: planned before anything is sent, and afterwards.

Before a run the loss is that of any schedule, the same for all who are on one worker each. A protected run is kept at
that: what its schedule drew stays unknown. A simulation is settled by what each worker really spent against the server.
"""

import hashlib
import json
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.budgets import LedgerFile, Loss, People, Request
from airmixml.data import RawData
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.privacy import Design, GaussianSlots, certified_epsilon, gaussian_epsilon
from airmixml.privacy.evaluation import left_of
from airmixml.privacy.facts import COMPOSED_EPSILON, COMPOSED_SHARE
from airmixml.progress import Progress, silent
from airmixml.radio.centring import CentringSlot, plan_centring
from airmixml.radio.privacy_target import asked_received_watts, check_target_met, slots_target
from airmixml.radio.system import System, adversary_named
from airmixml.radio.tally import placed_distances
from airmixml.radio.transmission import Transmission
from airmixml.registries import ADVERSARIES
from airmixml.runs.results import SIMULATION
from airmixml.scenario import Scenario
from airmixml.scenario.scenario import PROTECTION, consecutive_seeds, identity_of
from airmixml.version import __version__
from airmixml.workers import encoded_dim
from airmixml.workers.loading import load_raw
from airmixml.workers.population import Owners, owners_of

_UP: Final = 1.0 + 2.0**-48  # a few roundings of numbers that are not negative
_ONE_ROUNDING: Final = 2.0**-53


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """What runs of a scenario with several seeds spend, and the ledger that keeps it."""

    ledger: LedgerFile
    people: People
    protected: bool
    raw: RawData  # as their owners were counted: a file may change before it is sent
    owners: Mapping[int, Owners]  # by seed
    requests: Mapping[int, Request]
    numbers: dict[int, int] = field(default_factory=dict)  # of the entries, once they are reserved

    def reserve(self, finished: Container[int]) -> None:
        """Reserve the seeds that are not finished, all or none; raise a PrivacyError where a budget is passed.

        A finished protected run is settled already; nothing tells its entry. A finished simulation is counted in full.
        """
        seeds = [seed for seed in self.requests if not (self.protected and seed in finished)]
        found = self.ledger.reserve([self.requests[seed] for seed in seeds], self.people)
        self.numbers.update(zip(seeds, found, strict=True))
        for seed in seeds:
            if seed in finished:
                self.ledger.settle(self.numbers[seed], repeated=True)

    def check(self) -> None:
        """Raise a PrivacyError if the runs together would pass anybody's budget; nothing is written."""
        self.ledger.reserve(list(self.requests.values()), self.people, check_only=True)

    def settle(self, sent: Transmission) -> None:
        """Replace the reservation of a run by what was spent."""
        seed = sent.scenario.seed
        losses = None if self.protected else spent_losses(sent, self.owners[seed])
        self.ledger.settle(self.numbers[seed], losses, repeated=not self.protected)


def plan_spending(
    scenario: Scenario,
    seeds: int,
    ledger: Path | str,
    *,
    private: bool = False,
    public_test: bool = False,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Spending:
    """Return what a settled scenario with so many seeds will spend at most; refuse what the ledger cannot count.

    The other arguments are those of ``run``. The data are read once, for their owners and for who sends them.
    """
    file, workers = LedgerFile(ledger), scenario.workers
    mode = PROTECTION if private else SIMULATION
    file.check_kind(mode=mode, adjacency=scenario.privacy.adjacency, protect="add --private")
    raw = load_raw(workers, data_dir, progress)
    dimensions = encoded_dim(workers, int(raw.inputs.shape[1])), len(raw.class_names)
    owners: dict[int, Owners] = {}
    requests: dict[int, Request] = {}
    for seed in consecutive_seeds(scenario, seeds):
        each = scenario.with_seed(seed)
        own = owners_of(workers, raw, seed, protected=private, test_rows=public_test or not private)
        owners[seed], losses = own, _of_owners(planned_losses(each, *dimensions, protected=private), own)
        # A simulation repeats its own noise: done again, it costs nothing more.
        key = "" if private else hashlib.sha256(json.dumps(identity_of(each), sort_keys=True).encode()).hexdigest()
        about = f"airmix run {each.name}, seed {seed}"
        requests[seed] = request_of(each, losses, about=about, who=own.who, workers_each=own.workers_each, key=key)
    people = People(label=own.label, count=own.count)
    return Spending(ledger=file, people=people, protected=private, raw=raw, owners=owners, requests=requests)


def request_of(scenario: Scenario, losses: Mapping[str, Loss | None], *, about: str, **given: Any) -> Request:
    """Return what a ledger is asked for before a run; ``given`` are other fields of the request."""
    privacy = scenario.privacy
    stated = {"epsilon": privacy.epsilon, "delta": privacy.delta, "adversary": privacy.adversary}
    details = {"scenario": scenario.name, "seed": scenario.seed, "privacy": stated, "airmixml": __version__}
    return Request(about=about, losses=losses, delta=privacy.delta, details=details, **given)


def planned_losses(
    scenario: Scenario, input_dim: int, label_dim: int, *, protected: bool = False
) -> dict[str, Loss | None]:
    """Return what a worker loses to each adversary at most, whatever schedule is drawn; before anything is sent.

    Nothing is charged for a ``protected`` run that would miss its target: it is refused.
    """
    policy = scenario.mixing.power_policy
    if policy.follows_channels:
        raise ScenarioError(
            f'mixing.power = "{scenario.mixing.power}": only the run itself tells how strongly it is received, so that '
            'no ledger can check it before; use mixing.power = "dp" or "fixed"'
        )
    distance_metres = placed_distances(scenario)
    if protected:
        check_target_met(scenario, input_dim, label_dim, distance_metres)
    system = System.of(scenario, input_dim, label_dim, distance_metres)
    asked_watts = asked_received_watts(scenario, system.sensitivity, distance_metres)
    design = system.design(policy.largest_received_watts(scenario, asked_watts))
    averaged = input_dim - (1 if scenario.workers.constant else 0)
    return losses_of(scenario, design, plan_centring(scenario, averaged, distance_metres))


def spent_losses(sent: Transmission, owners: Owners) -> dict[str, Loss | None]:
    """Return what each owner lost to each adversary in a simulation: exactly, against the server."""
    report = sent.report
    losses = losses_of(sent.scenario, report.design, report.centring)
    assert owners.holding is not None  # only a secret hides it
    of_rows = report.row_squared_mu()  # of workers with the same data shifts add up, slot by slot
    held = np.zeros(len(owners.who))
    held[owners.holding] = report.worker_squared_mu() if of_rows is None else of_rows[owners.holding]
    squares = held * (1.0 + (report.slots + int(owners.workers_each.max()) + 16) * _ONE_ROUNDING)
    planned = losses["server"]
    server = None if planned is None else Loss.of(squared_mu=squares * _UP, delta=planned.delta)
    return {**_of_owners(losses, owners), "server": server}


def losses_of(scenario: Scenario, design: Design, centring: CentringSlot | None) -> dict[str, Loss | None]:
    """Return what the worst worker loses to each adversary that something is certified against.

    Where the schedule is known that is mu^2; where it is hidden, epsilon at the scenario's delta, unless taking it for
    known gives less. Probabilities with which a schedule, a gain or the number of colluding neighbours exceeds its
    bound count as delta. With remove-one neighbours no other adversary's loss stands in for one that is not certified:
    to a server that knows the schedule a removed worker's seat stays empty, elsewhere another worker may take it.
    """
    found: dict[str, Loss | None] = {}
    for name in ADVERSARIES.names:
        try:
            found[name] = _loss_to(name, scenario, design, centring)
        except PrivacyError:  # nothing is certified against it
            if scenario.privacy.adjacency == "remove-one":
                found[name] = None
    return found


def _loss_to(name: str, scenario: Scenario, design: Design, centring: CentringSlot | None) -> Loss:
    adversary, adjacency = adversary_named(name, scenario), scenario.privacy.adjacency
    delta = slots_target(scenario)[1]
    candidates = [_stated(scenario, view, delta) for view in adversary.views(design, adjacency)]
    loss = min(candidates, key=lambda pair: pair[0])[1]
    if centring is None:
        return loss
    centring.epsilon(name, adjacency)  # refuses an adversary with a receiver of its own
    return loss + Loss.of(squared_mu=centring.mu(adjacency) ** 2 * _UP)


def _stated(scenario: Scenario, view: GaussianSlots, delta: float) -> tuple[float, Loss]:
    """Return epsilon at ``delta`` of one description of the slots, and the loss by it."""
    failure = view.schedule_failure + view.hidden_failure
    if view.rounding is not None:  # of tails, whatever the losses add up to
        view = view.widened(COMPOSED_EPSILON, delta, COMPOSED_SHARE)
        failure += COMPOSED_SHARE * delta
    if view.sampling == "none" and view.steps == 1:
        squared_mu = view.total * _UP
        spent = Loss.of(squared_mu=squared_mu, delta=failure + view.gain_failure)
        return gaussian_epsilon(math.sqrt(squared_mu), left_of(delta, view)), spent
    epsilons = [math.inf]
    for accountant in dict.fromkeys(("pld", "rdp", scenario.privacy.accountant)):
        try:
            epsilons.append(certified_epsilon(accountant, view, delta))
        except PrivacyError:
            continue
    epsilon = min(epsilons)
    if not math.isfinite(epsilon):
        raise PrivacyError(f"no accountant treats sampling {view.sampling}")
    return epsilon, Loss.of(epsilon=epsilon, delta=delta + failure)


def _of_owners(losses: Mapping[str, Loss | None], owners: Owners) -> dict[str, Loss | None]:
    """Return the losses of those who own the data, some of whom may be on several workers, or on none.

    With the same data on c workers mu is at most c times that of one. Nothing is stated of several workers in a hidden
    schedule; nor does the server's loss stand in, for whom a removed worker's seat stays empty.
    """
    copies = owners.workers_each
    if (copies == 1).all():
        return dict(losses)
    found: dict[str, Loss | None] = {}
    for name, loss in losses.items():
        if loss is None or (loss.epsilon.any() and copies.max() > 1):
            found[name] = None
            continue
        there = copies > 0
        found[name] = Loss.of(
            squared_mu=copies.astype(np.float64) ** 2 * loss.squared_mu,
            epsilon=there * loss.epsilon,
            delta=copies * loss.delta,  # each of them may exceed its bound on gains
        )
    return found
