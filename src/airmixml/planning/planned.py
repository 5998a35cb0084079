"""What a plan holds: whether a target can be met, what that takes and brings, and what would serve it better.

What to send to a closed-form learner is moments of all workers in one slot, encoded and learned as a trial finds best.
Against those who know the schedule, T slots of |N_t| of N workers need noise of deviation sqrt(T |N_t| / N) at the same
privacy, which leaves 1 / sqrt(N |N_t|) on the averaged moments: least where all workers send at once. Amplification by
sampling gains the release no more than that. benchmarks/check_plan.py compares it with other ways to send.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airmixml.notebook import html_facts
from airmixml.planning.sizing import FramePlan, MaskPlan
from airmixml.radio.mixing import TransmitPower
from airmixml.radio.privacy_target import RowPrivacy
from airmixml.scenario import Air, Scenario, keys_in_force
from airmixml.scenario.toml import titled
from airmixml.wording import joules

if TYPE_CHECKING:
    from airmixml.planning.design_search import DesignSearch


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How much of one quantity the wanted accuracy takes, all others as planned."""

    quantity: str  # workers, epsilon or rounds
    planned: float  # what the recommended design has
    value: float | None  # at which the mean reaches the accuracy; None: at no value tried
    least: float  # the smallest value tried: where ``value`` is that, less may do
    most: float  # the largest value tried
    accuracy_at_most: float  # the mean there
    error_at_most: float  # how much that mean may err by chance


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a scenario asks of its workers, whether that can be had, and what would serve it better."""

    name: str
    air: Air = field(default_factory=Air)
    dimensions: tuple[int, int] | None = None  # d_X as it leaves the encoder, and d_Y
    feasible: bool  # whether some power meets the target
    verdict: str  # why or why not, in words, and what to do
    noise_multiplier: float = math.nan  # noise deviation over the sensitivity of one worker, in the strongest slot
    received_watts: float = math.nan  # beta max q^2 there; of every slot that the power limit does not lower
    power_scale_watts: float = math.nan  # median beta
    power_dbm: TransmitPower | None = None
    # Expected, of all workers together. With fading rare deep fades spend most of it, so that a rehearsal says no more
    # than its order of magnitude.
    energy_joules: float = math.nan
    worker_energy_joules: float = math.nan  # expected, of one worker
    attenuation_db: float = math.nan  # of the median worker that sends, whose transmitter cannot send as softly itself
    limited_share: float = math.nan  # share of the rehearsed slots in which the power limit lowered beta
    snr_inputs_db: float = math.nan  # expected, of the inputs of a mixture, or of their products (``ExpectedSignal``)
    snr_labels_db: float = math.nan  # expected, of the labels of a mixture, for balanced classes
    snr_is_least: bool | None = None  # whether real rows, which were not read, have more of it
    recommended: Recommendation | None = None  # for a learner in closed form, what to send instead
    note: str = ""  # why nothing is recommended to such a learner
    of_recommended: Plan | None = None  # what that takes, where it is another design
    frame: FramePlan | None = None  # what an air that is not ideal makes of a slot
    rounds: dict[str, Any] | None = None  # what rounds take
    # Symbols for the mean, in each other slot and of all together, and how many times workers must be reachable.
    uplink: dict[str, int] | None = None
    masks: MaskPlan | None = None  # what workers add to hide themselves, where they do
    integers: dict[str, Any] | None = None  # step, bits and noise, where workers send integers
    link: dict[str, Any] | None = None  # what a digital link takes
    air_seconds: float = math.nan  # of all slots and rounds, and of the slot for the mean
    row: RowPrivacy | None = None  # of a row of the data, where that is not what one worker holds alone
    receiver: str = ""  # what the target assumes of the adversary's receiver, in words
    if_better: dict[str, float | None] = field(default_factory=dict)  # epsilon if that is better
    wanted_accuracy: float = math.nan  # where it was asked what an accuracy takes
    needed: tuple[Needed, ...] | None = None  # the answers (``planning/needed.py``)

    def _repr_html_(self) -> str:
        facts = {"feasible": "yes" if self.feasible else "no", "verdict": self.verdict}
        if self.power_dbm is not None:
            facts |= {
                "noise multiplier": f"{self.noise_multiplier:.4g}",
                "power": f"{self.power_dbm.median:.1f} dBm median, {self.power_dbm.largest:.1f} largest",
                "energy": f"{joules(self.energy_joules)} in total",
                "SNR": f"{self.snr_inputs_db:.1f} dB inputs, {self.snr_labels_db:.1f} dB labels (median slot)",
            }
        return html_facts(f"Plan of {self.title}", facts)

    @property
    def drawable(self) -> bool:
        """Whether there are other designs to draw."""
        return self.recommended is not None and self.recommended.rehearsal is not None

    @property
    def overrides(self) -> tuple[str, ...]:
        """All that is recommended, for ``airmix run --set``."""
        parts = (self.masks, self.recommended)
        return tuple(override for part in parts if part is not None for override in part.overrides)

    @property
    def title(self) -> str:
        return titled(self.name, self.air)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON; what an infeasible target leaves unknown is left out."""
        apart = {name: getattr(self, name) for name in ("recommended", "of_recommended")}
        plain = {
            **asdict(replace(self, recommended=None, of_recommended=None, row=None)),
            **{name: part and part.to_dict() for name, part in apart.items()},
            "air": keys_in_force(self.air),
            **({} if self.row is None else self.row.to_dict()),
        }
        return {
            name: value
            for name, value in plain.items()
            if value not in (None, "", {}) and not (isinstance(value, float) and math.isnan(value))
        }


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
