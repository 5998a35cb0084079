"""Which settings are attacked side by side: a scenario, itself at other values of a key, and others beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airmixml.doors import ATTACKS
from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario
from airmixml.scenario.varied import parse_varied
from airmixml.wording import nearest, shown, shown_name

_DATA_KEYS: Final = ("dataset", "train_samples", "input_lower", "input_upper", "feature_columns", "label_column")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A scenario under attack, and what tables and pictures call it."""

    label: str
    scenario: Scenario


def choose_parts(asked: str | None) -> tuple[str, ...]:
    """Return the attacks named with commas between them, in the order of the registry; all by default."""
    names = ATTACKS.names if asked is None else [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in ATTACKS:
            raise ScenarioError(
                f"--attacks {shown(name)}: must be some of {', '.join(ATTACKS.names)}; did you mean "
                f"{nearest(name.lower(), ATTACKS.names)}?"
            )
    return tuple(name for name in ATTACKS.names if name in names)


def read_cases(scenario: Scenario, vary: str | None, beside: str | None) -> list[Case]:
    """Return the cases that the arguments name, in that order.

    Args:
        scenario: what is attacked.
        vary: KEY=V1,V2,...: instead of the scenario itself, it at these values. Those of ``privacy.epsilon`` set
            ``mixing.power = "dp"``, and one may be "max", which is ``mixing.power = "max"``.
        beside: presets or scenario files, with commas between them.
    """
    cases = [Case(label=scenario.name, scenario=scenario)] if vary is None else _varied(scenario, vary)
    for name in [] if beside is None else [part.strip() for part in beside.split(",")]:
        if not name:
            raise ScenarioError("--beside: must be presets or scenario files, with commas between them")
        other = Scenario.load(Path(name)) if name.endswith(".toml") else Scenario.preset(name)
        other = other.with_seed(scenario.seed)
        _check_same_data(scenario, other, name)
        cases.append(Case(label=other.name, scenario=other))
    return cases


def _varied(scenario: Scenario, asked: str) -> list[Case]:
    key, values = parse_varied(asked, "privacy.epsilon=max,1e5,10")
    if key in ("name", "seed", *(f"workers.{name}" for name in _DATA_KEYS)):
        raise ScenarioError(f"--vary {key}: must leave the data as they are; attack other data with another command")
    cases = []
    for value in values:
        if (key, value) == ("privacy.epsilon", "max"):
            cases.append(Case(label="maximum power", scenario=scenario.with_overrides("mixing.power=max")))
            continue
        # An epsilon decides nothing while the power does not follow from it.
        follows = ("mixing.power=dp",) if key == "privacy.epsilon" else ()
        name = key.rpartition(".")[2].replace("_", " ")
        cases.append(Case(label=f"{name} {value}", scenario=scenario.with_overrides(*follows, f"{key}={value}")))
    return cases


def _check_same_data(first: Scenario, other: Scenario, name: str) -> None:
    """Refuse other data: nothing could be shown side by side."""
    for key in _DATA_KEYS:
        ours, theirs = (getattr(each.workers, key) for each in (first, other))
        if ours != theirs:
            raise ScenarioError(
                f"--beside {shown_name(name)}: has other data (workers.{key} = {shown(theirs)}): must be that of "
                f"{first.name}, {shown(ours)}"
            )
