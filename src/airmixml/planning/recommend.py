"""What to send to a closed-form learner: moments of all workers in one slot, encoded and learned as a trial finds best.

Against those who know the schedule, T slots of |N_t| of N workers need noise of deviation sqrt(T |N_t| / N) at the same
privacy, which leaves 1 / sqrt(N |N_t|) on the averaged moments: least where all workers send at once. Amplification by
sampling gains the release no more than that. benchmarks/check_plan.py compares it with other ways to send.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from airmixml.planning.design_search import DesignSearch


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What to send instead."""

    overrides: tuple[str, ...]  # for ``airmix run --set``; empty where the scenario is recommended as it is
    max_air_seconds: float  # the most time on the air that was considered
    rehearsal: DesignSearch | None  # how accurate learners and encoders are; None where nothing tells that in advance

    @property
    def own_is_tried(self) -> bool:
        """Whether the scenario itself sends as all designs of the rehearsal do: moments of all workers at once."""
        return not any(each.startswith(("radio.", "workers.sends=")) for each in self.overrides)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        found = {name: getattr(self, name) for name in ("overrides", "max_air_seconds", "own_is_tried")}
        return {**found, **({"rehearsal": self.rehearsal.to_dict()} if self.rehearsal else {})}


def sent_at_once(scenario: Scenario) -> Scenario:
    """Return the scenario whose workers all send moments, in one slot, at its privacy target.

    Raise a ScenarioError where they cannot.
    """
    workers, radio = scenario.workers, scenario.radio
    # Moments are many more symbols than a sample: a slot lasts as long as they need.
    slot_seconds = radio.slot_seconds if workers.sends == "moments" else 0.0
    at_once: dict[str, Any] = {"scheduled": workers.count, "slots": 1, "schedule": "fixed", "max_participations": 0}
    return replace(
        scenario,
        workers=replace(workers, sends="moments"),
        radio=replace(radio, **at_once, slot_seconds=slot_seconds),
        mixing=replace(scenario.mixing, power="dp", policy="equalmix", prior=()),
    )


def changed_keys(scenario: Scenario, changed: Scenario) -> tuple[str, ...]:
    """Return what must be set to make one scenario the other, as ``airmix run --set`` takes it.

    Rounds and what solves the first model are told together, and so are the two keys of the norm: where one says
    "auto", it follows from the other or changes it.
    """
    before, after = scenario.to_dict(), changed.to_dict()
    differ = {
        (table, name): value
        for table in ("workers", "radio", "mixing", "privacy", "learner")
        for name, value in after[table].items()
        if value != before[table][name]
    }
    if differ and (scenario.learner.rounds or changed.learner.rounds):
        differ |= {("learner", name): after["learner"][name] for name in ("model", "rounds")}
    if {("workers", "norm"), ("workers", "clip_norm")} & differ.keys():
        differ |= {("workers", name): after["workers"][name] for name in ("norm", "clip_norm")}
    return tuple(f"{table}.{name}={'' if value == [] else value}" for (table, name), value in differ.items())
