"""What every accountant certifies for one design against every adversary, before anything is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.arrays import watts_to_dbm
from airmixml.messages import AirMixError, PrivacyError, ScenarioError, epsilon_text, plural
from airmixml.notebook import html_table
from airmixml.planning.multipliers import noise_multipliers
from airmixml.planning.what_if import WhatIf, better_receivers, what_ifs
from airmixml.privacy import (
    Adversary,
    Design,
    GaussianSlots,
    PrivacyStatement,
    Question,
    Release,
    Sensitivity,
    Server,
    calibrate_power,
    certified_epsilon,
    facts,
    state_privacy,
)
from airmixml.privacy.adversaries import Everyone
from airmixml.privacy.design import binomial_quantile
from airmixml.privacy.evaluation import left_of
from airmixml.privacy.gaussian import accountant_named
from airmixml.privacy.statements import with_any_schedule
from airmixml.progress import Progress, silent
from airmixml.radio.centring import CentringSlot
from airmixml.radio.masking import masking_of
from airmixml.radio.mixing import check_added_power
from airmixml.radio.privacy_target import (
    RowPrivacy,
    asked_received_watts,
    plan_row_privacy,
    row_statements,
    slots_target,
)
from airmixml.radio.system import System, adversary_named
from airmixml.registries import ACCOUNTANTS, ADVERSARIES
from airmixml.registry import naming_objects
from airmixml.scenario import Air, Scenario, keys_in_force
from airmixml.scenario.toml import titled
from airmixml.workers.population import planned_holding

if TYPE_CHECKING:
    from airmixml.radio.tally import Tally  # which needs torch

_UNIT: Final = "one worker; a person whose data are on several workers is protected less"


def state_slots(
    asked: Question, design: Design, centring: CentringSlot | None = None, *, better: bool = False
) -> PrivacyStatement:
    """Return what is certified of a design with the slot for a mean, or without one before any draw too.

    A PrivacyError says what the accountant cannot treat. ``better`` is that of ``state_privacy``.
    """
    if why := asked.refusal(design):
        raise PrivacyError(why)
    stated = state_privacy(
        design, asked.adversary, asked.accountant, adjacency=asked.adjacency, delta=asked.delta, better=better
    )
    return with_any_schedule(stated, design, asked.adversary) if centring is None else centring.added_to(stated)


@dataclass(frozen=True, kw_only=True)
class Account:
    """One design under every accountant and adversary."""

    design: Design  # what is sent
    adjacency: str  # which neighbours
    slots_delta: float  # what the slots may spend of delta; the rest is that of a mean estimated before them
    rounds: int = 0  # of all slots, the last ones that carry gradients
    centring: CentringSlot | None = None  # the slot that estimated that mean; it costs epsilon beside the others
    target: tuple[str, str] | None = None  # adversary and accountant whose epsilon is asked for better receivers too
    target_epsilon: float | None = None  # that it was to have, where the power was set to meet one
    name: str  # of the scenario, or "numbers"
    adversaries: tuple[Adversary, ...]  # against whom it is stated
    delta: float  # of all statements
    power: str  # how the power was set, in words
    tally: Tally | None = None  # the rehearsed schedule, if there was one
    seed: int = 0  # of that schedule
    in_watts: bool = True  # plain numbers have no unit
    air: Air = field(default_factory=Air)
    statements: list[PrivacyStatement] = field(default_factory=list)
    # (adversary, accountant) to why that accountant cannot treat it
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)
    what_if: tuple[WhatIf, ...] = ()  # what more colluders and better receivers do, where workers hide themselves
    row: RowPrivacy | None = None  # of a row of the data, where that is not what one worker holds alone
    unit: str = _UNIT  # whose privacy all other statements are about, in words

    def ask(self, accountants: Sequence[str], what_if: tuple[WhatIf, ...] = ()) -> Account:
        """Return the account with what these accountants state about every adversary, or why they state nothing."""
        for adversary, accountant in product(self.adversaries, accountants):
            try:
                asked, better = self._question(adversary, accountant), (adversary.name, accountant) == self.target
                stated = state_slots(asked, self.design, self.centring, better=better)
                self.statements.append(replace(stated, target_epsilon=self.target_epsilon if better else None))
            except PrivacyError as problem:
                self.refusals[adversary.name, accountant] = str(problem)
        return replace(self, what_if=what_if or better_receivers(self.statements))

    def _question(self, adversary: Adversary, accountant: str) -> Question:
        return Question(adversary=adversary, accountant=accountant, adjacency=self.adjacency, delta=self.slots_delta)

    def epsilon_after(self, slots: int, adversary: Adversary, accountant: str) -> float:
        """Return the epsilon of one accountant against one adversary after so many slots; NaN for none."""
        try:
            value, view = self._question(adversary, accountant).epsilon(self.design.with_slots(slots, self.rounds))
        except PrivacyError:
            return math.nan
        if self.centring is None or math.isnan(value):
            return value
        left = left_of(self.slots_delta, view)
        return self.centring.joined(value, left, adversary.name, accountant, self.adjacency)

    @property
    def noise_multipliers(self) -> tuple[dict[str, Any], ...]:
        """That of each kind of slots; see ``noise_multipliers``."""
        return noise_multipliers(self.design, self.adjacency, self.slots_delta, self.rounds)

    @property
    def title(self) -> str:
        return titled(self.name, self.air)

    @property
    def asked(self) -> set[str]:
        """The accountants that were asked."""
        return {each.accountant for each in self.statements} | {accountant for _, accountant in self.refusals}

    @property
    def median_slots(self) -> float:
        """In how many slots the median worker sends; before any is drawn, by the law of the schedule."""
        if self.tally is not None:
            return float(np.median(self.tally.ledger.participations))
        chance = min(self.design.round_length * self.design.scheduled / self.design.workers, 1.0)
        return binomial_quantile(0.5, self.design.rounds, chance)

    @property
    def median_epsilon(self) -> float:
        """Exact epsilon of the median worker against the server."""
        if self.tally is not None:
            return float(np.median(self.tally.worker_epsilons()))
        return self._server_epsilon(self.median_slots)

    def _server_epsilon(self, slots: float) -> float:
        """Return the exact epsilon against the server of a worker with so many slots, before any is drawn."""
        heard = self.design.at_server()
        watts, multiplier = heard.received_watts, heard.noise_multiplier(self.adjacency)
        # Slots as strong as the strongest that are worth all that it takes part in.
        strongest = slots * float(np.average(watts, weights=self.design.counts)) / (max(watts) or 1.0)
        rounding = self.design.fact(facts.WorkersNoise).rounding
        failure = self.design.fact(facts.ImperfectAir).gain_failure
        together = strongest / multiplier**2
        typical = GaussianSlots(
            squared_shifts=tuple(each / max(watts) / multiplier**2 for each in watts) if rounding else (together,),
            counts=self.design.counts if rounding else (1,),
            adjacency=self.adjacency,
            gain_failure=0.0 if rounding else self.design.failure_of_gains(failure, "none"),
            rounding=rounding,
            rounded=max(math.ceil(slots), 1),
            total_at_most=together,
        )
        return certified_epsilon("gdp", typical, self.delta)

    @property
    def draw_in_words(self) -> str:
        """Both epsilons against the server, before and after a draw of schedule and places, and why; else nothing."""
        before: dict[str, list[str]] = {}
        undrawn: dict[str, list[str]] = {}
        for each in self.statements:
            if each.before_the_draw is not None:
                told = f"{each.accountant} {epsilon_text(each.before_the_draw)}"
                before.setdefault(each.adversary, []).append(told)
            if each.schedule_failure:
                undrawn.setdefault(each.adversary, []).append(each.accountant)
        if self.row is not None and (rows := self.row.before_the_draw):
            before[self.row.name] = [f"{adversary} {epsilon_text(epsilon)}" for adversary, epsilon in rows.items()]
        if before:
            told = "; ".join(f"{name}: {', '.join(each)}" for name, each in before.items())
            slots = plural(self.design.participations, "slot")
            return f"for the draw, up to {slots} of one worker; before schedule and places were drawn {told}"
        if not undrawn or self.design.says(facts.ImperfectAir):
            return ""
        both = " (--ledger draws the schedule and shows both)" * self.in_watts
        limit, parts = f"before the draw, for up to {self.design.participations:,} slots of one worker", list[str]()
        exact = next((each for each in self.statements if (each.adversary, each.accountant) == ("server", "gdp")), None)
        if exact is not None and exact.schedule_failure:
            # The median over schedules: as likely as not no worker is drawn more often.
            chance, rare = self.design.scheduled / self.design.workers, -math.expm1(-math.log(2) / self.design.workers)
            often = binomial_quantile(rare, self.design.slots, chance)
            about = f"about {epsilon_text(float(f'{self._server_epsilon(often):.3g}'))}"
            typical = f"after a typical draw {about}, for the {often:,} slots of the worst worker"
            parts, limit = [f"server, gdp {epsilon_text(exact.epsilon)}: {limit}; {typical}"], "also before the draw"
            undrawn["server"].remove("gdp")
        if told := "; ".join(f"{name} by {', '.join(each)}" for name, each in undrawn.items() if each):
            parts.append(f"{limit}: {told}")
        return "; ".join(parts) + both

    @property
    def receivers(self) -> str:
        """What is assumed of the receivers that an epsilon rests on, in words."""
        noise = f", {watts_to_dbm(self.design.noise_watts):.4g} dBm" if self.in_watts else ""
        return f"assumed: {plural(self.design.fact(facts.Antennas).count, 'antenna')}{noise}"

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows: epsilons of every accountant, then of a row of the data where it has its own."""
        names = [adversary.name for adversary in self.adversaries]
        said = {(each.accountant, each.adversary): each.epsilon for each in self.statements}
        lines = [*dict.fromkeys((*ACCOUNTANTS.names, *(each.accountant for each in self.statements)))]
        if self.row is not None:
            said |= {(self.row.name, adversary): epsilon for adversary, epsilon in self.row.epsilons.items()}
            lines.append(self.row.name)
        shown = {pair: epsilon_text(epsilon) for pair, epsilon in said.items()}
        return ["accountant", *names], [[line, *(shown.get((line, name), "-") for name in names)] for line in lines]

    def _repr_html_(self) -> str:
        title = f"{self.title}: epsilon at delta = {self.delta:g}, {self.adjacency} neighbours"
        return html_table(title, *self.cells())

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values for JSON; what there is nothing to say of is left out."""
        design, left_out = self.design, () if self.in_watts else ("noise_watts_per_symbol",)
        statements = [each.to_dict() for each in self.statements]
        plain = {
            "name": self.name,
            "air": keys_in_force(self.air) if self.in_watts else None,
            **{name: getattr(design, name) for name in ("workers", "scheduled", "slots", "max_participations")},
            "rounds": self.rounds or None,
            "slots_for_mean": None if self.centring is None else 1,
            "power": self.power,
            "noise_multipliers": list(self.noise_multipliers),
            "median_worker": {"slots": self.median_slots, "epsilon_against_server": self.median_epsilon},
            "statements": [{name: each[name] for name in each if name not in left_out} for each in statements],
            "refusals": [
                {"adversary": each, "accountant": by, "why": why} for (each, by), why in self.refusals.items()
            ],
            **({} if self.row is None else self.row.to_dict()),
            "draw": self.draw_in_words or None,
            "what_if": [each.to_dict() for each in self.what_if] or None,
            "ledger": self.tally and self.tally.ledger.summary(self.tally.worker_epsilons()),
        }
        return {name: value for name, value in plain.items() if value is not None}


@naming_objects()
def account_scenario(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    *,
    ledger: bool = False,
    accountants: Sequence[str] | None = None,
    progress: Progress = silent,
) -> Account:
    """Return the account of a scenario by all accountants, or by those that are named.

    Where the power follows from the privacy target all slots are alike and nothing is drawn. Else, or if the ``ledger``
    is asked for, the slots are rehearsed, and the server's figures are those of the schedule that the seed draws.
    """
    privacy, policy = scenario.privacy, scenario.mixing.power_policy
    if masking := masking_of(scenario):
        check_added_power(scenario, masking.added_watts)
    drawn = ledger or not policy.keeps_target or scenario.workers.centre_on_air
    tally, holding = None, planned_holding(scenario)
    if drawn:
        from airmixml.radio.tally import rehearse  # here: it needs torch

        tally = rehearse(scenario, input_dim, label_dim, progress=progress, holding=holding)
        design = tally.design
    else:
        system = System.of(scenario, input_dim, label_dim)
        design = system.design(asked_received_watts(scenario, system.sensitivity, None))
    # Of somebody whom nothing hides from there is nothing to say.
    names = ADVERSARIES.names_with(privacy.adversary)
    names = tuple(name for name in names if name != Everyone.name or design.says(facts.WorkersNoise))
    adversaries = tuple(adversary_named(name, scenario) for name in names)
    row = plan_row_privacy(
        scenario,
        holding,
        lambda copies: row_statements(scenario, design, copies) if tally is None else tally.privacy_of_rows(),
    )
    unit = _UNIT if scenario.workers.holding == "drawn" else "one worker, which is one row of the data"
    return Account(
        design=design,
        adjacency=privacy.adjacency,
        slots_delta=slots_target(scenario)[1],
        rounds=scenario.learner.rounds,
        centring=None if tally is None else tally.centring,
        target=(privacy.adversary, privacy.accountant),
        target_epsilon=privacy.epsilon if policy.keeps_target else None,
        name=scenario.name,
        adversaries=adversaries,
        delta=privacy.delta,
        power=policy.in_words(scenario),
        tally=tally,
        seed=scenario.seed,
        air=scenario.air,
        row=row,
        unit=unit if row is None else f"one worker; {row.name}, {row.held}, has a line of its own",
    ).ask(
        ACCOUNTANTS.names_with(privacy.accountant) if accountants is None else accountants,
        what_ifs(scenario, design, privacy.delta),
    )


@contextmanager
def _of_arguments() -> Iterator[None]:
    """Say of an argument what errors say of a scenario's key, which the caller of ``account_numbers`` never wrote."""
    try:
        yield
    except AirMixError as problem:
        problem.args = (re.sub(r"\bprivacy\.(?=[a-z])", "", str(problem)),)
        raise


@_of_arguments()
def account_numbers(
    *,
    workers: int,
    scheduled: int,
    slots: int,
    delta: float,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    accountant: str = "paper-loose",
    adversary: str = "release",
    adjacency: str = "replace-one",
    sampling: str = "without-replacement",
    max_participations: int = 0,
    colluders: int = 0,
) -> Account:
    """Return the account of equal slots given by plain numbers, without radio or data.

    The noise is given by its multiplier (deviation over the move of the worker with the largest share), or follows from
    a target ``epsilon`` of one accountant against one adversary.
    """
    if (noise_multiplier is None) == (epsilon is None):
        raise ScenarioError("give either a noise multiplier (--noise-multiplier) or a target (--epsilon)")
    adversaries: dict[str, Adversary] = {"release": Release(colluders=colluders), "server": Server(colluders=colluders)}
    if adversary not in adversaries:
        raise ScenarioError(f"adversary = {adversary!r}: must be release or server; others need a scenario")
    unit = Design(
        workers=workers,
        scheduled=scheduled,
        received_watts=(1.0,),
        counts=(slots,),
        sensitivity=Sensitivity(removal=1.0, replacement=1.0),
        noise_watts=2.0,
        max_participations=max_participations,
        sampling=sampling,
    )
    accountant_named(accountant)
    for each in adversaries.values():
        each.mechanism(unit, adjacency)  # refuses neighbours and colluders that make no sense
    factor, power = (noise_multiplier or 1.0) ** -2.0, "given"
    if epsilon is not None:
        factor = calibrate_power(
            unit, adversaries[adversary], accountant, adjacency=adjacency, epsilon=epsilon, delta=delta
        )
        power = f"set for epsilon = {epsilon:g} by {accountant} against {adversary}"
    return Account(
        design=unit.scaled(factor),
        adjacency=adjacency,
        slots_delta=delta,
        name="numbers",
        adversaries=tuple(adversaries.values()),
        delta=delta,
        power=power,
        in_watts=False,
    ).ask(ACCOUNTANTS.names)
