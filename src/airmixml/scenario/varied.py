"""``--vary KEY=V1,V2,...``: one scenario at several values of one key."""

from collections.abc import Sequence

from airmixml.errors import ScenarioError
from airmixml.scenario.scenario import Scenario
from airmixml.wording import shown_name


def only_varied(asked: Sequence[str] | None, command: str = "run") -> str | None:
    """Return the one ``--vary``; several are refused with the sweep that takes them all."""
    if asked is None or len(asked) < 2:
        return asked[0] if asked else None
    grids = " ".join(f"--grid {shown_name(each)}" for each in asked[:3]) + (" ..." if len(asked) > 3 else "")
    how = "" if command == "run" else f" --command {command}"
    raise ScenarioError(
        f"--vary: given {len(asked)} times, and it varies one key; for all combinations use airmix sweep{how} {grids}"
    )


def parse_varied(asked: str, example: str) -> tuple[str, list[str]]:
    """Return the key and its values, each once, of ``KEY=V1,V2,...``; ``example`` is one for the refusal."""
    key, equals, listed = asked.partition("=")
    values = [value.strip() for value in listed.split(",")]
    if not equals or not all(values):
        raise ScenarioError(f"--vary {shown_name(asked)}: must be KEY=V1,V2,..., such as {example}")
    return key.strip(), list(dict.fromkeys(values))


def read_values(asked: str, scenario: Scenario) -> tuple[str, dict[str, Scenario]]:
    """Return the key, and the scenario at each value in the order given, of ``KEY=V1,V2,...``."""
    key, values = parse_varied(asked, "workers.bits=1,2,4,8,0")
    if key in ("name", "seed"):
        raise ScenarioError(f"--vary {key}: must be a key of a table, such as privacy.epsilon; for seeds use --seeds N")
    table, _, entry = key.rpartition(".")
    if isinstance(getattr(getattr(scenario, table, None), entry, None), tuple):
        raise ScenarioError(f"--vary {key}: holds a list, and commas separate the values; use --set in separate runs")
    scenarios = {value: scenario.with_overrides(f"{key}={value}") for value in values}
    if len(scenarios) < 2:
        raise ScenarioError(f"--vary {shown_name(asked)}: has 1 value: must have at least 2; or use airmix run")
    if key == "workers.bits" and "0" in scenarios:
        scenarios["0"] = scenarios.pop("0")  # not rounded at all: more than any number of bits
    return key, scenarios


def shown_value(key: str, value: str) -> str:
    """Return the value as tables and pictures call it."""
    return "analog" if (key, value) == ("workers.bits", "0") else value
