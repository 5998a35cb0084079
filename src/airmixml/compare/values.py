"""``--vary KEY=V1,V2,...``: one scenario at several values of one key."""

from __future__ import annotations

from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario
from airmixml.wording import shown_name


def read_values(asked: str, scenario: Scenario) -> tuple[str, dict[str, Scenario]]:
    """Return the key, and the scenario at each value in the order given.

    Args:
        asked: KEY=V1,V2,...
        scenario: what the key is changed in.
    """
    key, equals, listed = asked.partition("=")
    key, values = key.strip(), [value.strip() for value in listed.split(",")]
    if not equals or not all(values):
        raise ScenarioError(f"--vary {shown_name(asked)}: must be KEY=V1,V2,..., such as workers.bits=1,2,4,8,0")
    if key in ("name", "seed"):
        raise ScenarioError(f"--vary {key}: must be a key of a table, such as privacy.epsilon; seeds are --seeds N")
    if isinstance(_at(scenario, key), tuple):
        raise ScenarioError(f"--vary {key}: holds a list, and commas part the values; use --set and run it apart")
    scenarios = {value: scenario.with_overrides(f"{key}={value}") for value in values}
    if len(scenarios) < 2:
        raise ScenarioError(f"--vary {shown_name(asked)}: has 1 value: must have at least 2; or use airmix run")
    if key == "workers.bits" and "0" in scenarios:
        scenarios["0"] = scenarios.pop("0")  # not rounded at all: more than any number of bits
    return key, scenarios


def shown_value(key: str, value: str) -> str:
    """Return the value as tables and pictures call it."""
    return "analog" if (key, value) == ("workers.bits", "0") else value


def _at(scenario: Scenario, key: str) -> object:
    table, _, entry = key.rpartition(".")
    return getattr(getattr(scenario, table, None), entry, None)
