"""What a page can choose; from what it sends to a scenario, and back: as TOML and as a command."""

import os.path
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from airmixml.messages import ScenarioError, shown
from airmixml.registries import DATASETS, ENCODERS
from airmixml.scenario import AIR_PRESETS, Scenario, air_summary, preset_names, preset_summary
from airmixml.scenario.rules import AUTO, Choice, Named
from airmixml.scenario.tables import OWN_FILES, TABLES
from airmixml.scenario.toml import parse_assignments, parse_toml

MOST_WORKERS: Final = 2_000_000
_MOST_OVERRIDES: Final = 200
_ROUNDS: Final = ("0", AUTO, "4", "8", "20", "50")  # to choose from; others can be asked for
KEYS: Final = (
    *("workers.dataset", "workers.count", "workers.side_metres", "workers.encoder", "workers.features"),
    *("workers.sends", "workers.label_weight"),
    *("radio.slots", "radio.scheduled", "radio.schedule", "radio.slot_seconds", "radio.fading", "radio.rician_k"),
    *("radio.noise_dbm", "radio.max_power_dbm", "radio.path_loss_exponent"),
    *("radio.link", "link.access_points", "link.rate_mbps"),
    *("mixing.policy", "mixing.alpha", "mixing.assignment", "mixing.power"),
    *("privacy.epsilon", "privacy.delta", "privacy.adversary", "privacy.accountant", "privacy.adjacency"),
    *("privacy.sensitivity", "privacy.noise", "privacy.colluders", "privacy.eavesdropper_distance_metres"),
    *("privacy.eavesdropper_antennas", "privacy.arithmetic", "privacy.most_absent"),
    *("learner.model", "learner.rounds", "learner.epochs"),
)


def choices() -> dict[str, Any]:
    """Return what can be chosen, as plain values."""
    return {
        "presets": [{"name": name, "about": preset_summary(name)} for name in preset_names()],
        "airs": [{"name": name, "about": air_summary(name)} for name in AIR_PRESETS],
        "keys": dict(_described()),
    }


def _described() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key with its meaning, and what it may be where that is one of a few words."""
    for key in KEYS:
        table, _, name = key.partition(".")
        declared = next(each for each in fields(TABLES[table]) if each.name == name)
        rule = declared.metadata["rule"]
        # A file is named in a scenario, not chosen from a list.
        words = [word for word in rule.words if ":" not in word] if isinstance(rule, Choice) else []
        if key == "workers.dataset":
            words = list(DATASETS.names)
        if key == "learner.rounds":
            words = list(_ROUNDS)
        registry = rule.options if isinstance(rule, Named) else None
        abouts = {} if registry is None else {word: registry.load(word).about for word in words if word in registry}
        whole = declared.type in (int, "int")
        yield key, {"about": declared.metadata["doc"], "words": words, "abouts": abouts, "whole": whole}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A scenario as a page asks for it."""

    scenario: Scenario  # with all overrides, as its author left it (a count of 0 is for the data to say)
    base: tuple[str, ...]  # ``--preset NAME``, or the name of a scenario file, for a command
    overrides: tuple[str, ...]  # as ``--set`` takes them

    @property
    def command(self) -> str:
        settings = (word for each in self.overrides for word in ("--set", each))
        return shlex.join(["airmix", "run", *self.base, *settings])


def read_asked(body: Any, folder: Path) -> Asked:
    """Return what a page asks for; refuse, in the words of the command line, what no scenario is.

    Files that a scenario names are read in the runs ``folder`` alone.
    """
    if not isinstance(body, Mapping):
        raise ScenarioError("the request must be a JSON object")
    text, preset, overrides = body.get("toml"), body.get("preset"), body.get("overrides", {})
    if (text is None) == (preset is None):
        raise ScenarioError("give either a scenario file or a preset")
    if not isinstance(overrides, Mapping) or len(overrides) > _MOST_OVERRIDES:
        raise ScenarioError(f"overrides: must be an object of at most {_MOST_OVERRIDES} keys")
    base: tuple[str, ...]
    named = {str(key): value for key, value in overrides.items()}
    if text is not None:
        name = Path(str(body.get("file") or "scenario.toml")).name
        scenario, base = scenario_inside(str(text), name, folder), (name,)
    else:
        scenario, base = Scenario.preset(str(preset)), ("--preset", str(preset))
    everybody_sends = scenario.radio.scheduled == scenario.workers.count
    if "workers.count" in named and "radio.scheduled" not in named and everybody_sends:
        named["radio.scheduled"] = 0
    assignments = tuple(f"{key}={_plain_value(value)}" for key, value in named.items())
    _keep_inside(parse_assignments(assignments), folder)  # as they are read, without quotes
    scenario = scenario.with_overrides(*assignments)
    if scenario.workers.count > MOST_WORKERS:
        most = f"the explorer shows at most {MOST_WORKERS:,} workers; use `airmix plan` and `airmix run` for more"
        raise ScenarioError(f"workers.count = {scenario.workers.count}: {most}")
    return Asked(scenario=scenario, base=base, overrides=assignments)


def scenario_inside(text: str, source: str, folder: Path) -> Scenario:
    """Return the scenario of a TOML text; refuse one that names files outside the runs ``folder``."""
    _keep_inside(parse_toml(text, source=source), folder)  # before a scenario is made: that may load its encoder
    return Scenario.from_toml(text, source=source)


def _plain_value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ScenarioError(f"overrides: {shown(value)} must be a number or text")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def _keep_inside(tables: Mapping[str, Any], folder: Path) -> None:
    """Refuse files outside the runs folder: a page must not be able to read others, or run what is in them."""
    held = tables.get("workers")
    workers = held if isinstance(held, Mapping) else {}
    dataset, encoder = str(workers.get("dataset", "")), str(workers.get("encoder", ""))
    named = {"dataset": dataset if dataset.lower().endswith(OWN_FILES) else None, "encoder": ENCODERS.file_of(encoder)}
    for key, path in named.items():
        if path is not None and not leads_into(folder, Path(os.path.expanduser(path))):
            raise ScenarioError(f"workers.{key} = {shown(path)}: the explorer reads files in {folder} alone")


def leads_into(folder: Path, path: Path) -> bool:
    """Return whether a path, with its links followed, lies in the folder."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle; or a name that no file can have
        return False
