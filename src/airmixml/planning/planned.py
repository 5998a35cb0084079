"""What a plan holds: whether a target can be met, what that takes and brings, and what would serve it better.

What to send to a closed-form learner is moments of all workers in one slot, encoded and learned as a trial finds best.
Against those who know the schedule, T slots of |N_t| of N workers need noise of deviation sqrt(T |N_t| / N) at the same
privacy, which leaves 1 / sqrt(N |N_t|) on the averaged moments: least where all workers send at once. Amplification by
sampling gains the release no more than that. benchmarks/check_plan.py compares it with other ways to send.

The inverse question, how many workers, rounds or what epsilon a wanted accuracy takes, is asked of the design that the
plan recommends, by the plan's own trial. One quantity varies, all others stay. Accuracy grows with each, but for chance
(another number of workers even makes other tables), so that the answer is looked up on a ladder from the planned value:
down to where the mean over all tables (or measured seeds) still reaches the target, or up to where it first does,
between two steps on a logarithmic scale. So all quantities agree on whether the plan itself reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles
from airmixml.messages import AirMixError, ScenarioError, joules
from airmixml.notebook import html_facts
from airmixml.planning.design_search import DesignSearch, TableDesign, error_of_mean
from airmixml.progress import Progress, silent
from airmixml.radio.mixing import TransmitPower
from airmixml.radio.privacy_target import RowPrivacy
from airmixml.scenario import Air, Scenario, keys_in_force
from airmixml.scenario.toml import titled


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
    noise_multipliers: tuple[dict[str, Any], ...] = ()  # of each kind of slots; see ``account.noise_multipliers``
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
    frame: dict[str, Any] | None = None  # what an air that is not ideal makes of a slot
    rounds: dict[str, Any] | None = None  # what rounds take
    # Symbols for the mean, in each other slot and of all together, and how many times workers must be reachable.
    uplink: dict[str, int] | None = None
    masks: dict[str, Any] | None = None  # what workers add to hide themselves, where they do
    integers: dict[str, Any] | None = None  # step, bits and noise, where workers send integers
    link: dict[str, Any] | None = None  # what a digital link takes
    air_seconds: float = math.nan  # of all slots and rounds, and of the slot for the mean
    row: RowPrivacy | None = None  # of a row of the data, where that is not what one worker holds alone
    receiver: str = ""  # what the target assumes of the adversary's receiver, in words
    if_better: dict[str, float | None] = field(default_factory=dict)  # epsilon if that is better
    withstands: int | None = None  # colluders who do not know the graph of masks and expose no worker, at most
    if_withstood: float | None = None  # epsilon if so many collude
    wanted_accuracy: float = math.nan  # where it was asked what an accuracy takes
    needed: tuple[Needed, ...] | None = None  # the answers

    @property
    def noise_multiplier(self) -> float:
        """Noise deviation over the sensitivity of one worker, in the strongest slot."""
        return float(min((each["noise_multiplier"] for each in self.noise_multipliers), default=math.nan))

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
        masks = () if self.masks is None else self.masks["overrides"]
        return (*masks, *(() if self.recommended is None else self.recommended.overrides))

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
            if value not in (None, "", {}, ()) and not (isinstance(value, float) and math.isnan(value))
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


_STEP: Final = math.sqrt(10.0)  # of the ladders: two in each decade
_WORKERS, _EPSILON = (20.0, 1e6), (0.01, 50.0)  # the least and the most that are tried


def with_needed(plan: Plan, accuracy: float, scenario: Scenario, progress: Progress = silent) -> Plan:
    """Return the plan of the scenario with what the accuracy takes."""
    if not plan.feasible:
        return plan
    found = plan.recommended
    recommended = scenario if found is None else scenario.with_overrides(*found.overrides)
    search = None if found is None else found.rehearsal
    return replace(plan, wanted_accuracy=accuracy, needed=needed_for(accuracy, recommended, search, progress))


def needed_for(
    accuracy: float, scenario: Scenario, search: DesignSearch | None, progress: Progress = silent
) -> tuple[Needed, ...]:
    """Return how many workers, what epsilon and how many rounds the accuracy takes with the plan's best design.

    Args:
        accuracy: what is wanted, above 0 and below 1.
        scenario: with all that the plan recommends.
        search: what the plan expects of designs; None where it expects nothing.
        progress: told how many values were tried.
    """
    from airmixml.planning.trials import ROUNDS, trial_of  # here: other plans need no learner

    if search is None:
        raise ScenarioError(
            f"--accuracy = {accuracy:g}: nothing tells the accuracy of this scenario in advance; plan classes of a "
            "table, or of images with a measured encoder, with all workers sending moments at once, as presets "
            "private-table and private-mnist have it"
        )
    known = search.trial.known
    _, classes = known.dimensions
    if accuracy <= 1.0 / classes:
        raise ScenarioError(
            f"--accuracy = {accuracy:g}: guessing one of {classes:,} classes reaches that; ask for more"
        )
    count, epsilon, rounds = scenario.workers.count, scenario.privacy.epsilon, scenario.learner.rounds
    ladders: dict[str, tuple[float, Sequence[float]]] = {
        "workers": (count, _ladder(count, *_WORKERS, 2, 7)),
        "epsilon": (epsilon, _ladder(epsilon, *_EPSILON, 4, 4)),
    }
    if scenario.learner.model == "ridge":
        ladders["rounds"] = rounds, sorted({0, *ROUNDS, rounds})
    answers: list[Needed] = []
    done, steps = 0, sum(len(values) for _, values in ladders.values())
    for quantity, (planned, values) in ladders.items():
        reached: dict[float, tuple[float, ...]] = {}
        for value in values:
            progress("accuracies", done, steps)
            done += 1
            try:
                changed = _with(scenario, quantity, value)
                trial = trial_of(changed, known)
                if trial is not None and changed.workers.count >= trial.fewest_workers:
                    for each in trial.of([TableDesign.of(changed)]):
                        reached[value] = each.accuracies
            except AirMixError:  # the scenario does not allow that value
                continue
        if not reached:
            continue
        (*_, last), whole, between = reached.values(), quantity != "epsilon", quantity != "rounds"
        means = np.array(list(map(np.mean, reached.values())))
        needed = Needed(
            quantity=quantity,
            planned=planned,
            value=_nearest(np.array(list(reached)), means, accuracy, planned=planned, whole=whole, between=between),
            least=float(min(reached)),
            most=float(max(reached)),
            accuracy_at_most=float(means[-1]),
            error_at_most=error_of_mean(last) if len(last) > 1 else 0.0,
        )
        answers.append(needed)
    progress("accuracies", steps, steps)
    return tuple(answers)


def _ladder(planned: float, low: float, high: float, below: int, above: int) -> list[float]:
    """Return the planned value with steps below and above it, within limits."""
    steps = (float(f"{planned * _STEP**step:.3g}") for step in range(-below, above + 1) if step)
    return sorted({planned, *(each for each in steps if low <= each <= high)})


def _with(scenario: Scenario, quantity: str, value: float) -> Scenario:
    """Return the scenario with another value; workers have a row of their own each, and all send at once."""
    if quantity == "epsilon":
        return replace(scenario, privacy=replace(scenario.privacy, epsilon=value))
    if quantity == "rounds":
        return replace(scenario, learner=replace(scenario.learner, rounds=round(value)))
    workers = replace(scenario.workers, count=round(value), train_samples=0)
    return replace(scenario, workers=workers, radio=replace(scenario.radio, scheduled=round(value)))


def _nearest(
    values: Doubles, reached: Doubles, accuracy: float, *, planned: float, whole: bool, between: bool
) -> float | None:
    """Return the least value down to which the accuracy is reached from the planned one, or else the first above it.

    It lies between two steps where that has a meaning; None: no value does. Values are rounded up to two digits, which
    is as exact as the answer is.
    """
    enough, start = reached >= accuracy, min(int(np.searchsorted(values, planned)), len(values) - 1)
    above = start + np.flatnonzero(enough[start:])
    if not len(above):
        return None
    at = int(above[0])
    while at == start and start and enough[start - 1]:
        at = start = start - 1
    if at == 0 or not between:
        return float(values[at])
    part = (accuracy - reached[at - 1]) / (reached[at] - reached[at - 1])
    exact = math.exp((1.0 - part) * math.log(values[at - 1]) + part * math.log(values[at]))
    step = 10.0 ** (math.floor(math.log10(exact)) - 1)
    rounded = min(math.ceil(exact / step - 1e-9) * step, float(values[at]))
    return float(round(rounded)) if whole else float(f"{rounded:.3g}")
