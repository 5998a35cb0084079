"""What follows from a design: privacy, power, energy, signal and time on the air, in parts as they are ready.

Everything is computed by the functions behind ``airmix plan`` and ``airmix account``. Light parts take milliseconds and
are computed where the page asks; the heavy ones are for a process that can be ended (``heavy.py``).
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from airmixml.devices import using_threads
from airmixml.errors import AirMixError
from airmixml.explore.asked import KEYS, Asked, finite
from airmixml.output.numbers import duration, joules, slots_text
from airmixml.planning.account import Account, account_scenario
from airmixml.planning.known_inputs import data_dimensions, input_moments, table_columns
from airmixml.planning.plan import REHEARSED_ROUNDS, Plan, make_plan
from airmixml.planning.plan_page import planned_otherwise
from airmixml.progress import Progress, silent
from airmixml.radio.system import System
from airmixml.registries import ACCOUNTANTS
from airmixml.scenario import Scenario
from airmixml.workers import settle
from airmixml.workers.loading import check_signal_memory

Part = dict[str, Any]

LIGHT_ACCOUNTANTS: Final = ("paper-loose", "paper-tight", "rdp", "gdp")
# What a plan draws takes about 0.1 s for so many seats, and a rehearsal of all slots is slower.
_LIGHT_SEATS: Final = 400_000
_LIGHT_REHEARSED_SEATS: Final = 25_000
_LIGHT_MASKED_SEATS: Final = 4_000
_LIGHT_WORKERS: Final = 200_000
_PLANNED_SLOTS: Final = 2048


def is_light(scenario: Scenario) -> bool:
    """Return whether plan and light accountants take less than about 0.1 s."""
    radio, workers, rounds = scenario.radio, scenario.workers, scenario.learner.rounds
    seats = (min(radio.slots, _PLANNED_SLOTS) + min(rounds, REHEARSED_ROUNDS)) * radio.scheduled
    rehearsed = not scenario.mixing.power_policy.keeps_target or workers.centre_on_air
    return (
        scenario.privacy.accountant in LIGHT_ACCOUNTANTS
        and workers.count <= _LIGHT_WORKERS
        and seats <= _LIGHT_SEATS
        and not (rehearsed and scenario.slots_on_air * radio.scheduled > _LIGHT_REHEARSED_SEATS)
        and not (scenario.privacy.noise_kind.brought and radio.scheduled > _LIGHT_MASKED_SEATS)
        and (scenario.met.air.is_ideal or seats <= _LIGHT_REHEARSED_SEATS)
    )


def scenario_part(asked: Asked, settled: Scenario) -> Part:
    """Return the values of the keys, and the scenario in its three forms."""
    plain = settled.to_json()
    values = {key: plain[key.partition(".")[0]][key.partition(".")[2]] for key in KEYS}
    return {
        "part": "scenario",
        "name": asked.scenario.name,
        "air": settled.air.preset,
        "seed": settled.seed,
        "slots": slots_text(settled.radio.slots, settled.learner.rounds),
        "values": values,
        "exports": asked.exports(),
    }


def plan_part(
    scenario: Scenario, *, account: Part | None = None, alternatives: bool = False, progress: Progress = silent
) -> Part:
    """Return the plan, with texts for people beside the numbers; ``account`` is its part, where that is known."""
    dimensions = data_dimensions(scenario, None, None)
    check_signal_memory(scenario.workers, *dimensions)
    plan = make_plan(
        scenario,
        *dimensions,
        input_moments(scenario, None, None, named=True),
        held_dim=table_columns(scenario, None) if alternatives else None,
        alternatives=alternatives,
        progress=progress,
    )
    seconds = System.of(scenario, *dimensions).air_seconds
    return {
        "part": "options" if alternatives else "plan",
        "plan": finite(plan.to_dict()),
        "verdict": _verdict(scenario, plan, account or {}),
        "air_seconds": seconds,
        "texts": _texts(plan, seconds),
        "accuracy": _planned_accuracy(plan),
    }


def _verdict(scenario: Scenario, plan: Plan, account: Part) -> dict[str, Any]:
    """Return what is said of the design on the page, and whether there is something to run.

    A plan meets the target by the power that it sets. Where the scenario sets another, the plan says nothing of it, and
    the epsilon that is certified for the scenario itself is held against the target.
    """
    if scenario.mixing.power_policy.keeps_target:
        word, kind = ("feasible", "good") if plan.feasible else ("not feasible", "bad")
        return {"kind": kind, "word": word, "text": plan.verdict, "runs": plan.feasible}
    privacy = scenario.privacy
    own = {"adversary": privacy.adversary, "accountant": privacy.accountant}
    if privacy.accountant not in account.get("accountants", ()):
        account = account_part(scenario, (privacy.accountant,))[0]
    said, refused = (
        next((each for each in account[kind] if own.items() <= each.items()), None)
        for kind in ("statements", "refusals")
    )
    otherwise = f"Power, energy and SNR are {planned_otherwise(scenario)}"
    if said is None:
        why = "" if refused is None else f"{refused['why']}. "
        return {"kind": "", "word": "nothing certified", "text": why + otherwise, "runs": True}
    epsilon = math.inf if said["epsilon"] is None else said["epsilon"]
    above = epsilon > privacy.epsilon
    told = f"epsilon = {epsilon:.4g} by {privacy.accountant} against {privacy.adversary}, target {privacy.epsilon:g}"
    word = "above the target" if above else "below the target"
    return {"kind": "bad" if above else "", "word": word, "text": f"{told}. {otherwise}", "runs": True}


def _texts(plan: Plan, air_seconds: float) -> dict[str, str]:
    """Return numbers of the plan with their units, as ``airmix plan`` prints them."""
    texts = {"air_time": duration(air_seconds)}
    if plan.power_dbm is not None:
        texts |= {
            "energy": joules(plan.energy_joules),
            "worker_energy": joules(plan.worker_energy_joules),
            "power": f"{plan.power_dbm.median:.1f} dBm",
            "largest_power": f"{plan.power_dbm.largest:.1f} dBm",
        }
    return texts


def _planned_accuracy(plan: Plan) -> dict[str, Any] | None:
    """Return the accuracy that the plan expects, as a fraction, and how it knows; None where it expects none."""
    rehearsal = None if plan.recommended is None else plan.recommended.rehearsal
    if rehearsal is None:
        return None
    own, how = rehearsal.own, f"on {rehearsal.tables} made-up tables"
    return {"accuracy": own.accuracy, "error": own.error, "how": how}


def account_part(scenario: Scenario, accountants: tuple[str, ...]) -> tuple[Part, Account]:
    """Return what some accountants certify against every adversary."""
    account = account_scenario(scenario, *data_dimensions(scenario, None, None), accountants=accountants)
    plain = account.to_dict()
    return {
        "part": "account",
        "adversaries": [{"name": each.name, "knows": each.knows} for each in account.adversaries],
        "accountants": list(accountants),
        "all_accountants": list(ACCOUNTANTS.names),
        "statements": finite(plain["statements"]),
        "refusals": plain["refusals"],
        "row": account.row
        and {"name": account.row.name, "held": account.row.held, "epsilons": finite(account.row.epsilons)},
        "delta": account.delta,
        "adjacency": account.adjacency,
    }, account


def light_parts(scenario: Scenario) -> Iterator[Part]:
    """Yield the plan and what light accountants certify; what fails says why, in one line."""
    with using_threads(1):  # so little work is done sooner than other threads are woken
        account = told(lambda: account_part(scenario, LIGHT_ACCOUNTANTS)[0])
        yield told(lambda: plan_part(scenario, account=account))
        yield account


def told(make: Callable[[], Part]) -> Part:
    """Return a part, or the line that says why there is none."""
    try:
        return make()
    except AirMixError as problem:
        return problem_part(problem)


def problem_part(problem: AirMixError) -> Part:
    """Return the line that the command line would print."""
    return {"part": "problem", "line": " ".join(str(problem).split())}


def settle_asked(asked: Asked) -> Scenario:
    """Return the scenario with a number for every key."""
    return settle(asked.scenario)
