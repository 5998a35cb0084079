"""A scenario: everything that decides the result of a run, read from and written to TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from airmixml.errors import ScenarioError
from airmixml.notebook import html_text
from airmixml.scenario.consistency import check_consistency
from airmixml.scenario.rules import Rule, Text, Whole
from airmixml.scenario.tables import TABLES, Learner, Mixing, Privacy, Radio, Workers
from airmixml.scenario.toml import (
    EXTENDS,
    check_keys,
    parse_assignments,
    parse_toml,
    preset_text,
    read_scenario_file,
    write_toml,
)
from airmixml.wording import shown

_TOP_LEVEL_RULES: dict[str, Rule] = {"name": Text(forbidden='/\\:*?"<>|'), "seed": Whole(low=0)}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything that decides the result of a run. Two equal scenarios give the same result on one device."""

    name: str = field(default="airmix", metadata={"doc": "names the run folder"})
    seed: int = field(default=0, metadata={"doc": "all random numbers of the run follow from it"})
    workers: Workers = field(default_factory=Workers)
    radio: Radio = field(default_factory=Radio)
    mixing: Mixing = field(default_factory=Mixing)
    privacy: Privacy = field(default_factory=Privacy)
    learner: Learner = field(default_factory=Learner)

    def __post_init__(self) -> None:
        for name, rule in _TOP_LEVEL_RULES.items():
            object.__setattr__(self, name, rule.check(name, getattr(self, name)))
        for name, kind in TABLES.items():
            if not isinstance(getattr(self, name), kind):
                raise ScenarioError(f"{name} = {shown(getattr(self, name))}: must be a {kind.__name__} table")
        if self.name.strip(" .") != self.name:
            raise ScenarioError(f"name = {shown(self.name)}: must not begin or end with a dot or a space")
        check_consistency(self.workers, self.radio, self.mixing, self.privacy, self.learner)

    @property
    def sampling_rate(self) -> float:
        """r = |N_t| / N, the share of the workers that is scheduled in a slot."""
        return self.radio.scheduled / self.workers.count

    def with_seed(self, seed: int) -> Scenario:
        """Return the same scenario with another seed."""
        return replace(self, seed=seed)

    def with_overrides(self, *assignments: str) -> Scenario:
        """Return a copy with ``table.key=value`` assignments applied, as ``airmix run --set`` takes them."""
        return _made(self.to_dict(), parse_assignments(assignments))

    def _repr_html_(self) -> str:
        return html_text(self.to_toml())

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables of plain values (lists for tuples)."""
        return asdict(self, dict_factory=_with_lists)

    def to_toml(self, *, comments: bool = False) -> str:
        """Return the scenario as TOML, with the meaning of each key on request; it reads back as an equal scenario."""
        return write_toml(self, {name: getattr(self, name) for name in TABLES}, comments=comments)

    @classmethod
    def from_toml(cls, text: str, *, source: str = "the scenario") -> Scenario:
        """Read a scenario from TOML; ``extends = "preset"`` starts from that preset instead of the defaults."""
        tables = parse_toml(text, source=source)
        parent = tables.pop(EXTENDS, None)
        return _made({} if parent is None else cls.preset(parent).to_dict(), tables)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a scenario file."""
        return cls.from_toml(read_scenario_file(Path(path)), source=str(path))

    @classmethod
    def preset(cls, name: str) -> Scenario:
        """Return a scenario that comes with the package; ``airmix presets`` lists them."""
        return cls.from_toml(preset_text(name), source=f"preset {name}")


def _made(base: dict[str, Any], tables: Mapping[str, Any]) -> Scenario:
    """Make a scenario from parsed tables, on top of those of another one (or of the defaults)."""
    check_keys(tables)
    values = {**base, **{k: {**base.get(k, {}), **v} if k in TABLES else v for k, v in tables.items()}}
    return Scenario(**{k: TABLES[k](**v) if k in TABLES else v for k, v in values.items()})


def _with_lists(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in items}
