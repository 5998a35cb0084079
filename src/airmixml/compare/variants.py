"""A scenario as other methods need it: the same data, workers, channel and target, sent or learned in another way."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from airmixml.data import DataSet, known_dataset
from airmixml.doors import ADVERSARIES
from airmixml.errors import PrivacyError
from airmixml.privacy import ADJACENCIES, PrivacyStatement
from airmixml.scenario import Learner, Mixing, Scenario, Speed, Workers, preset_names
from airmixml.workers import Signal, worker_cost

_MOST_SAMPLES_ON_A_CPU: Final = 20_000


def adjacencies(scenario: Scenario) -> list[str]:
    """Return the scenario's kind of neighbours, then the other one."""
    return sorted(ADJACENCIES, key=lambda name: name != scenario.privacy.adjacency)


def state_both(scenario: Scenario, state: Callable[[str], PrivacyStatement]) -> tuple[PrivacyStatement, ...]:
    """Return what ``state`` says of the scenario's kind of neighbours, then of the other where it can be stated."""
    own, other = adjacencies(scenario)
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


def closed_form_learner(learner: Learner) -> Learner:
    """Return the learner, or ridge with its shrinkage where it is a network."""
    return learner if learner.closed_form else Learner(model="ridge", shrinkage=learner.shrinkage)


def samples_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario with the same features sent as samples, unrounded, and a learner in closed form.

    A mean estimated over the air belongs to the mixtures; the other methods centre without it.
    """
    workers = replace(scenario.workers, sends="samples", bits=0)
    if workers.centre == "private":
        workers = replace(workers, centre="own")
    return replace(scenario, workers=workers, learner=closed_form_learner(scenario.learner))


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


def slow_on_a_cpu(scenario: Scenario, speed: Speed) -> str:
    """Return why a network is not trained on these data unless asked for; empty where it is."""
    known = known_dataset(scenario.workers.dataset)
    samples = max(scenario.workers.count, 0 if known is None else known.train_samples)
    slow = samples > _MOST_SAMPLES_ON_A_CPU and speed.device == "cpu"
    return "takes long on a CPU: name it in --methods or use --device cuda" if slow else ""


def encoding_operations(scenario: Scenario, dataset: DataSet) -> int:
    """Return the multiply-accumulates that a worker spends on encoding its sample, before it forms any symbol."""
    as_it_is = Signal(features=dataset.input_dim, classes=dataset.label_dim)
    return worker_cost(scenario.workers, dataset.held_dim or dataset.input_dim, as_it_is).multiply_accumulates
