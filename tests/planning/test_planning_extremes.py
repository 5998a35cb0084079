"""Both ends of every number of a scenario, and numbers beyond: each is refused in one line, or it works."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

import pytest

from airmixml import Scenario, settle, simulate
from airmixml.messages import AirMixError
from airmixml.planning.account import account_scenario
from airmixml.planning.known_inputs import data_dimensions, input_moments, table_columns
from airmixml.planning.plan import make_plan
from airmixml.scenario.rules import Real, Whole
from airmixml.scenario.tables import TABLES

RULES = {f"{table}.{key.name}": key.metadata["rule"] for table, kind in TABLES.items() for key in fields(kind)}
NUMBERS = {name: rule for name, rule in RULES.items() if isinstance(rule, Real | Whole)}
BEYOND = (0.0, 5e-324, 1e-27, 1.0 - 2.0**-53, 5000.0, 1e300, -1e300, math.inf, -math.inf, math.nan)
# By which somebody asks for hours or for more memory than there is, where a few slots say nothing.
LONG = ("workers.count", "radio.slots", "radio.scheduled", "workers.features", "learner.epochs")


def values(rule: Real | Whole) -> Iterator[float | int]:
    ends = [end for end in (rule.low, rule.high) if math.isfinite(end)]
    yield from ends
    yield from BEYOND if isinstance(rule, Real) else (rule.low - 1, rule.low + 1, rule.high + 1)


def taken(name: str, preset: str, *changes: str) -> Iterator[Scenario]:
    """Yield the scenarios in which the key has an extreme value, as far as one is taken."""
    for value in dict.fromkeys(map(str, values(NUMBERS[name]))):
        try:
            yield settle(Scenario.preset(preset).with_overrides(*changes, f"{name}={value}"))
        except AirMixError as problem:
            assert "\n" not in str(problem)  # noqa: PT017  (both outcomes are fine)


def works(scenario: Scenario) -> None:
    """Account for a few slots and simulate them; refusals are for users."""
    try:
        account_scenario(scenario, *data_dimensions(scenario, None, None)).to_dict()
        simulate(scenario)
    except AirMixError as problem:
        assert "\n" not in str(problem)  # noqa: PT017


@pytest.mark.parametrize("name", NUMBERS)
def test_validation(name: str) -> None:
    for preset in ("paper-iris", "trustless-iris"):
        assert list(taken(name, preset))  # at least one of the ends


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NUMBERS if name not in LONG and "learner" not in name])
@pytest.mark.parametrize(
    ("preset", "changes"),
    [("private-iris", ()), ("private-iris", ("air.preset=low-cost", "air.late=1e-27")), ("trustless-iris", ())],
    ids=["ideal", "low-cost", "masked"],
)
def test_accounts_and_slots(name: str, preset: str, changes: tuple[str, ...]) -> None:
    for scenario in taken(name, preset, "radio.slots=4", "privacy.delta=1e-3", *changes):
        works(scenario)


@pytest.mark.parametrize(
    "changes",
    [
        ("air.peak_power_dbm=100",),
        ("air.pilot_share=1e-12", "air.late=1e-27"),
        ("air.late=1e-27", "air.pilot_share=1"),
        ("workers.label_weight=1e-6",),
        ("privacy.noise=masked", "privacy.accountant=gdp", "privacy.adversary=everyone", f"air.late={1.0 - 2.0**-53}"),
    ],
)
def test_what_ended_in_a_traceback(changes: tuple[str, ...]) -> None:
    works(settle(Scenario.preset("private-iris").with_overrides("radio.slots=4", *changes)))


def test_plans_take_the_smallest_weight_of_labels() -> None:
    scenario = settle(Scenario.preset("paper-iris").with_overrides("workers.label_weight=1e-6"))
    moments = input_moments(scenario, None, None, named=True)
    dimensions = data_dimensions(scenario, None, None)
    assert make_plan(scenario, *dimensions, moments, held_dim=table_columns(scenario, None)).to_dict()
