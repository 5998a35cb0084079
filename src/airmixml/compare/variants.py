"""A scenario as other methods need it: the same data, workers, channel and target, sent or learned in another way."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from airmixml.data import DataSet
from airmixml.doors import ADVERSARIES
from airmixml.errors import PrivacyError
from airmixml.privacy import ADJACENCIES, PrivacyStatement
from airmixml.scenario import Learner, Mixing, Scenario, Workers, preset_names
from airmixml.workers import Signal, worker_cost

_FEATURE_SLOTS: Final = 100_000
_FEATURE_SLOTS_PER_WORKER: Final = 20
_FEATURE_SCHEDULED: Final = 64


def state_both(scenario: Scenario, state: Callable[[str], PrivacyStatement]) -> tuple[PrivacyStatement, ...]:
    """Return what ``state`` says of the scenario's kind of neighbours, then of the other where it can be stated."""
    own, other = sorted(ADJACENCIES, key=lambda name: name != scenario.privacy.adjacency)
    stated = [state(own)]
    with suppress(PrivacyError):
        stated.append(state(other))
    return tuple(stated)


def exact_accountant(adversary: str, *, everybody_sends: bool) -> str:
    """Return the sharpest accountant: exact where it is known who sent when, else by privacy-loss distributions."""
    return "gdp" if everybody_sends or ADVERSARIES.load(adversary).knows_schedule else "pld"


def with_slots(
    scenario: Scenario, *, slots: int, scheduled: int, mixing: Mixing, limited: bool = True, **changes: Any
) -> Scenario:
    """Return the scenario with so many slots (or rounds) of so many workers, under the sharpest accountant.

    Against the server nothing hides who sent when, so every worker sends about equally often unless ``limited`` is
    false; else the schedule is hidden, and a limit on participations would only spoil that. ``changes`` are those of
    other tables.
    """
    count, adversary = scenario.workers.count, scenario.privacy.adversary
    everybody = scheduled == count
    # The smallest limit that such a schedule can keep.
    limited = limited and ADVERSARIES.load(adversary).knows_schedule and not everybody
    limit = -(-slots // (count // scheduled)) if limited else 0
    privacy = changes.pop("privacy", scenario.privacy)
    radio = replace(
        scenario.radio, slots=slots, scheduled=scheduled, schedule="fixed", slot_seconds=0.0, max_participations=limit
    )
    return replace(
        scenario,
        radio=radio,
        mixing=mixing,
        privacy=replace(privacy, accountant=exact_accountant(adversary, everybody_sends=everybody)),
        **changes,
    )


def _closed_form(learner: Learner) -> Learner:
    """Return the learner, or ridge with its shrinkage where it is a network."""
    return learner if learner.closed_form else Learner(model="ridge", shrinkage=learner.shrinkage)


def samples_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario with the same features sent as samples, unrounded, and a learner in closed form.

    A mean estimated over the air belongs to the mixtures; the other methods centre without it.
    """
    workers = replace(scenario.workers, sends="samples", bits=0)
    if workers.centre == "private":
        workers = replace(workers, centre="own")
    return replace(scenario, workers=workers, learner=_closed_form(scenario.learner))


def features_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario with its features sent as samples, mixed in many slots, and a learner in closed form."""
    count = scenario.workers.count
    return with_slots(
        scenario,
        slots=min(_FEATURE_SLOTS, _FEATURE_SLOTS_PER_WORKER * count),
        scheduled=min(_FEATURE_SCHEDULED, count),
        mixing=Mixing(policy="equalmix", power="dp"),
        workers=replace(scenario.workers, sends="samples"),
        learner=_closed_form(scenario.learner),
    )


def paper_scenario(scenario: Scenario) -> Scenario:
    """Return the paper's way: scaled raw samples, its slots, ratios and network, and what it says a worker can move.

    Only its bound is not kept: a sharper one is kinder to it, and the same for all methods.
    """
    dataset, plain = scenario.workers.dataset, Workers()
    printed = _first_preset(f"paper-{dataset}", "paper-iris")
    encoding = ("encoder", "features", "centre", "norm", "clip_norm", "constant", "sends", "label_weight", "bits")
    return with_slots(
        scenario,
        slots=printed.radio.slots,
        scheduled=min(printed.radio.scheduled, scenario.workers.count),
        mixing=replace(printed.mixing, power="dp"),
        limited=False,
        workers=replace(scenario.workers, **{name: getattr(plain, name) for name in encoding}),
        privacy=replace(scenario.privacy, sensitivity="paper"),
        learner=_first_preset(f"paper-{dataset}", dataset, "paper-iris").learner,
    )


def _first_preset(*names: str) -> Scenario:
    return Scenario.preset(next(name for name in names if name in preset_names()))


def encoding_cost(scenario: Scenario, dataset: DataSet) -> int:
    """Return the multiply-accumulates that a worker spends on encoding its sample, before it forms any symbol."""
    as_it_is = Signal(features=dataset.input_dim, classes=dataset.label_dim)
    return worker_cost(scenario.workers, dataset.held_dim or dataset.input_dim, as_it_is).multiply_accumulates
