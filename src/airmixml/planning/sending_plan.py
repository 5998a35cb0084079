"""What workers send, how many of them and how often: the choices that a privacy target leaves open."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airmixml.doors import ADVERSARIES
from airmixml.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class SendingPlan:
    """What is sent, by how many and how often.

    Attributes:
        sends: "samples" or "moments".
        label_weight: w.
        scheduled: |N_t|.
        slots: T.
        schedule: "fixed" or "poisson".
        policy: how ratios are drawn.
        alpha: dispersion of the ratios; None where the policy has none.
    """

    sends: str
    label_weight: float
    scheduled: int
    slots: int
    schedule: str
    policy: str
    alpha: float | None

    @classmethod
    def of(cls, scenario: Scenario) -> SendingPlan:
        """Return what a scenario sends."""
        workers, radio, mixing = scenario.workers, scenario.radio, scenario.mixing
        return cls(
            sends=workers.sends,
            label_weight=workers.label_weight,
            scheduled=radio.scheduled,
            slots=radio.slots,
            schedule=radio.schedule,
            policy=mixing.policy,
            alpha=mixing.alpha if mixing.policy == "dirmix" else None,
        )

    def applied_to(self, scenario: Scenario) -> Scenario:
        """Return the scenario that sends this, all else equal; raise a ScenarioError where it cannot."""
        if self == SendingPlan.of(scenario):
            return replace(scenario, mixing=replace(scenario.mixing, power="dp"))
        workers, radio, mixing = scenario.workers, scenario.radio, scenario.mixing
        sent = replace(workers, sends=self.sends, label_weight=self.label_weight)
        slot_seconds = radio.slot_seconds
        if self.sends != workers.sends:
            # Moments are many more symbols than a sample: a slot lasts as long as they need.
            slot_seconds = 0.0
        aired = replace(
            radio,
            scheduled=self.scheduled,
            slots=self.slots,
            schedule=self.schedule,
            slot_seconds=slot_seconds,
            max_participations=self._participations(scenario),
        )
        alpha = mixing.alpha if self.alpha is None else self.alpha
        mixed = replace(mixing, power="dp", policy=self.policy, alpha=alpha, prior=())
        return replace(scenario, workers=sent, radio=aired, mixing=mixed)

    def _participations(self, scenario: Scenario) -> int:
        """Return the limit on participations: against those who know the schedule the least that fills all seats."""
        if self.schedule == "poisson" or self.slots == 1:
            return 0
        least = -(-self.slots // max(1, scenario.workers.count // self.scheduled))
        if ADVERSARIES.load(scenario.privacy.adversary).knows_schedule:
            return least
        own, radio = scenario.radio.max_participations, scenario.radio
        scaled = round(own * self.slots * self.scheduled / (radio.slots * radio.scheduled))
        return max(least, scaled) if own else 0


def changed_keys(scenario: Scenario, sending: SendingPlan) -> tuple[str, ...]:
    """Return what must be set so that a scenario sends this, as ``airmix run --set`` takes it."""
    before, after = scenario.to_dict(), sending.applied_to(scenario).to_dict()
    return tuple(
        f"{table}.{name}={'' if value == [] else value}"
        for table in ("workers", "radio", "mixing")
        for name, value in after[table].items()
        if value != before[table][name]
    )
