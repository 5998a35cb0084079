"""A scenario: everything that decides the result of a run, read from and written to TOML."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.engines import Engine
from airmixml.files import to_plain
from airmixml.messages import AirMixError, ScenarioError, shown, slots_text
from airmixml.progress import Progress, silent
from airmixml.registries import ENCODERS
from airmixml.scenario import toml
from airmixml.scenario.air import Air, air_tables
from airmixml.scenario.consistency import Tables, check_consistency, choose, is_chosen, why_no_rounds
from airmixml.scenario.rules import Text, Whole, check_fields
from airmixml.scenario.score_links import IDENTITY, LOGISTIC, SOFTMAX, ScoreLink
from airmixml.scenario.tables import OWN_FILES, TABLES, Learner, Link, Mixing, Privacy, Radio, Workers
from airmixml.version import __version__

if TYPE_CHECKING:
    from airmixml.streams import Secret  # which needs NumPy

PROTECTION: Final = "protection"
_SHARE_OF_ONE_WORKER: Final = 0.1
_MOST_SEEDS: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything that decides the result of a run. Two equal scenarios give the same result on one device."""

    name: str = field(default="airmix", metadata={"doc": "names the run folder"})
    seed: int = field(default=0, metadata={"doc": "all random numbers of the run follow from it"})
    workers: Workers = field(default_factory=Workers)
    radio: Radio = field(default_factory=Radio)
    link: Link = field(default_factory=Link)
    air: Air = field(default_factory=Air)
    mixing: Mixing = field(default_factory=Mixing)
    privacy: Privacy = field(default_factory=Privacy)
    learner: Learner = field(default_factory=Learner)

    def __post_init__(self) -> None:
        for name, rule in toml.TOP_LEVEL.items():
            object.__setattr__(self, name, rule.check(name, getattr(self, name)))
        for name, kind in TABLES.items():
            if not isinstance(getattr(self, name), kind):
                raise ScenarioError(f"{name} = {shown(getattr(self, name))}: must be a {kind.__name__} table")
        if self.name.strip(" .") != self.name:
            raise ScenarioError(f"name = {shown(self.name)}: must not begin or end with a dot or a space")
        check_consistency(self._chosen())

    def _chosen(self, inputs: int = 0, rows: int = 0) -> Tables:
        return choose(Tables(**{name: getattr(self, name) for name in TABLES}), inputs=inputs, rows=rows)

    @property
    def seats(self) -> int:
        """The most workers that may transmit in a slot."""
        return int(self.radio.schedule_kind.seats(self))

    @property
    def all_send(self) -> bool:
        """Whether every worker sends in every slot."""
        return self.radio.scheduled == self.workers.count and not self.radio.schedule_kind.by_coin

    @property
    def sampling_rate(self) -> float:
        """r = |N_t| / N, the share of the workers that is scheduled in a slot."""
        return self.radio.scheduled / self.workers.count

    @property
    def met(self) -> Scenario:
        """The same scenario on what its link meets of the air and of the channels."""
        air, radio = self.radio.link_kind.meets(self.air, self.radio)
        return self if air is self.air else replace(self, air=air, radio=radio)

    @property
    def slots_in_words(self) -> str:
        """In which slots and rounds the workers send."""
        return slots_text(self.radio.slots, self.learner.rounds, mean=self.workers.centre_on_air)

    @property
    def learner_in_words(self) -> str:
        """What is learnt, and how."""
        if self.workers.sends == "gradients":
            return f"linear, {self.radio.slots:,} rounds of gradients, {self.learner.descent}"
        return self.learner.in_words

    @property
    def slots_on_air(self) -> int:
        """Slots of a run, those of its rounds included."""
        return self.radio.slots + self.learner.rounds

    @property
    def has_rounds(self) -> bool:
        """Whether any slots carry gradients."""
        return self.workers.sends == "gradients" or bool(self.learner.rounds)

    @property
    def rounds_share(self) -> float:
        """The share of the privacy loss (of mu^2) that rounds have together, where there are any."""
        return self.learner.rounds_share or self.score_link.rounds_share

    @property
    def why_no_rounds(self) -> str:
        """Why no rounds follow its moments; empty where rounds do, or could unless the scenario had none."""
        if self.learner.rounds or self.workers.sends != "moments":
            return ""
        return why_no_rounds(self.workers, self.radio, self.learner, rows=self.workers.count)

    @property
    def score_link(self) -> ScoreLink:
        """What the scores of its model stand for."""
        if self.workers.task == "classification":
            return SOFTMAX
        gradients = bool(self.learner.rounds) or self.workers.sends == "gradients"
        return LOGISTIC if gradients and self.workers.task == "multi-label" else IDENTITY

    @property
    def is_settled(self) -> bool:
        """Whether every key has a value: no count, |N_t| or delta is left to the data, and no choice is "auto"."""
        numbers = self.workers.count and self.radio.scheduled and self.privacy.delta
        return bool(numbers) and is_chosen(self.workers, self.learner)

    def settled(self, rows: int, inputs: int = 0) -> Scenario:
        """Return the scenario for a pool of so many rows: one worker each, all at once, delta a tenth of 1 / N.

        Keys that say "auto" get the choice that suits the others and the number of inputs (0: not known). What the
        scenario says itself stays.
        """
        count = self.workers.count or rows
        chosen = self._chosen(inputs, count)
        return replace(
            self,
            workers=replace(chosen.workers, count=count),
            learner=chosen.learner,
            radio=replace(self.radio, scheduled=self.radio.scheduled or count),
            privacy=replace(self.privacy, delta=self.privacy.delta or _SHARE_OF_ONE_WORKER / count),
        )

    def with_seed(self, seed: int) -> Scenario:
        """Return the same scenario with another seed."""
        return replace(self, seed=seed)

    def changed(self, **tables: Mapping[str, Any]) -> Scenario:
        """Return a copy with other values of some keys, by table."""
        return replace(self, **{name: replace(getattr(self, name), **keys) for name, keys in tables.items()})

    def with_overrides(self, *assignments: str) -> Scenario:
        """Return a copy with ``table.key=value`` assignments applied, as ``airmix run --set`` takes them."""
        return _made(self.to_dict(), toml.parse_assignments(assignments))

    def on_air(self, name: str) -> Scenario:
        """Return the same scenario on an air that comes with the package; ``airmix airs`` lists them."""
        return self.with_overrides(f"air.preset={name}")

    def with_bounds(self, path: str | Path) -> Scenario:
        """Return a copy with the bounds of a file of lines ``COLUMN = [lower, upper]``; other columns are no inputs."""
        bounds = toml.parse_toml(toml.read_scenario_file(Path(path), kind="file of bounds"), source=str(path))
        categories = list(dict(self.workers.categories))
        listed = [name for name in self.workers.feature_columns if name in bounds or name in categories]
        try:
            return replace(self, workers=replace(self.workers, **toml.bounded_columns(bounds, listed, categories)))
        except ScenarioError as problem:
            raise ScenarioError(f"{path}: {problem}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables of plain values (lists for tuples)."""
        return to_plain(self)

    def to_json(self) -> dict[str, Any]:
        """Return ``to_dict`` as JSON can have it: an infinite number, by which a key says "off", is None."""
        plain: dict[str, Any] = toml.finite(self.to_dict())
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Scenario:
        """Return the scenario that ``to_json`` was called on; a key that is None there is off."""
        plain = toml.checked_keys(plain)
        return _filled(
            {
                name: {key: each for key, each in value.items() if each is not None} if name in TABLES else value
                for name, value in plain.items()
            }
        )

    @property
    def title(self) -> str:
        """Its name as tables and pictures have it: with its air, where that is not the ideal one."""
        return toml.titled(self.name, self.air)

    def to_toml(self, *, comments: bool = False) -> str:
        """Return the scenario as TOML, with the meaning of each key on request; it reads back as an equal scenario."""
        lines = toml.table_lines(self, comments=comments)[: len(toml.TOP_LEVEL)]
        for name in TABLES:
            lines += ["", f"[{name}]", *toml.table_lines(getattr(self, name), comments=comments)]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str, *, source: str = "the scenario") -> Scenario:
        """Read a scenario from TOML; ``extends = "preset"`` starts from that preset instead of the defaults."""
        tables = toml.parse_toml(text, source=source)
        parent = tables.pop(toml.EXTENDS, None)
        return _made({} if parent is None else cls.preset(parent).to_dict(), tables)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a scenario file; its errors name the file."""
        text = toml.read_scenario_file(Path(path))
        try:
            return cls.from_toml(text, source=str(path))
        except AirMixError as problem:
            named = str(problem) if str(problem).startswith(f"{path}: ") else f"{path}: {problem}"
            raise type(problem)(named) from problem.__cause__

    @classmethod
    def preset(cls, name: str) -> Scenario:
        """Return a scenario that comes with the package; ``airmix presets`` lists them."""
        return cls.from_toml(toml.preset_text(name), source=f"preset {name}")


def _made(base: dict[str, Any], tables: Mapping[str, Any]) -> Scenario:
    """Make a scenario from parsed tables, on top of those of another one (or of the defaults)."""
    tables = toml.checked_keys(_with_bounds_spelt_out(tables))
    base = _with_air(base, tables.get("air", {}))
    base = _without_its_data(base, tables.get("workers", {}).get("dataset"))
    values = {**base, **{k: {**base.get(k, {}), **v} if k in TABLES else v for k, v in tables.items()}}
    return _filled(values)


def _filled(values: Mapping[str, Any]) -> Scenario:
    return Scenario(**{k: TABLES[k](**v) if k in TABLES else v for k, v in values.items()})


def _with_air(base: dict[str, Any], air: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables with the keys of the named air; what another had set goes back to its default first."""
    if "preset" not in air:
        return base
    of_air = toml.checked_keys(air_tables(air["preset"]))
    base = dict(base)
    for name, keys in air_tables(base.get("air", {}).get("preset", "ideal")).items():
        base[name] = {key: value for key, value in base.get(name, {}).items() if key not in keys or value != keys[key]}
    others = {name: {**base.get(name, {}), **keys} for name, keys in of_air.items()}
    return {**base, **others, "air": of_air["air"]}


def _with_bounds_spelt_out(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables with ``[workers.bounds]``, if there, as the keys that it stands for."""
    workers = tables.get("workers")
    if not isinstance(workers, Mapping) or toml.BOUNDS not in workers:
        return tables
    others = {name: value for name, value in workers.items() if name != toml.BOUNDS}
    twice = [name for name in ("input_lower", "input_upper") if name in others]
    if twice:
        raise ScenarioError(f"workers.{twice[0]}: says the same as [workers.bounds]; keep one of the two")
    listed = others.get("feature_columns", ())
    categories = others.get("categories", {})
    named = [*categories] if isinstance(categories, Mapping) else []
    spelt_out = toml.bounded_columns(workers[toml.BOUNDS], listed, named) if workers[toml.BOUNDS] != {} else {}
    return {**tables, "workers": {**others, **spelt_out}}


def _without_its_data(base: dict[str, Any], dataset: object) -> dict[str, Any]:
    """Return the tables without what they say of their data set, where a user's own file takes its place."""
    workers, radio = base.get("workers", {}), base.get("radio", {})
    if not isinstance(dataset, str) or not dataset.lower().endswith(OWN_FILES) or dataset == workers.get("dataset"):
        return base
    # A profile may have set keys of these tables, and no others: what is not there is at its default.
    all_send = radio.get("scheduled", Radio.scheduled) == workers.get("count", Workers.count)
    everybody = {"scheduled": 0} if all_send else {}
    own: dict[str, Any] = {"count": 0, "train_samples": 0, "holding": "dealt", "input_lower": [], "input_upper": []}
    own |= {"classes": [], "unknown_labels": "refuse"}
    return {**base, "workers": {**workers, **own}, "radio": {**radio, **everybody}}


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Device, block size and threads: they decide how fast a run is, never its result (beyond float rounding)."""

    device: str = Text().key("cpu", 'where to compute: "cpu", "cuda", "cuda:1", ...')
    block_slots: int = Whole(low=0, high=10**9).key(0, "slots simulated at a time (0: what suits the device)")
    threads: int = Whole(low=0, high=4096).key(0, "CPU threads (0: as many as there are cores)")

    def __post_init__(self) -> None:
        check_fields(self, "")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Where and how a command works."""

    speed: Speed = field(default_factory=Speed)  #: device, block size and threads
    data_dir: Path | None = None  #: folder with the four MNIST files; None: the cache, which is filled where needed
    progress: Progress = silent  #: told how far each stage is
    #: What hides the data is drawn from it, once; None: from the scenario's seed, which everybody knows.
    secret: Secret | None = None
    engine: Engine = field(default_factory=Engine)  #: where parts that need nothing of each other run


def consecutive_seeds(scenario: Scenario, seeds: int) -> range:
    """Return so many seeds, beginning with the scenario's; refuse none, too many, and a last one that is too large."""
    if not 1 <= seeds <= _MOST_SEEDS:
        raise ScenarioError(f"--seeds = {seeds}: must be at least 1 and at most {_MOST_SEEDS:,}")
    scenario.with_seed(scenario.seed + seeds - 1)
    return range(scenario.seed, scenario.seed + seeds)


def identity_of(scenario: Scenario, *, protected: bool = False) -> dict[str, Any]:
    """Return what must be equal for work to be resumed: scenario, version, and the content of the user's files.

    Of a protected run it tells nothing of those: an adversary who knows all other rows tries values for the last one
    until a digest fits.
    """
    identity = {"scenario": scenario.to_json(), "airmixml": __version__}
    if protected:
        return {**identity, "mode": PROTECTION}
    digests = {"data": digest_of(scenario.workers.dataset)}
    if encoder := encoder_digest(scenario):
        digests["encoder"] = encoder
    return identity | digests


def encoder_digest(scenario: Scenario) -> str:
    """Return a digest of the file that the scenario's encoder is made of; empty where it is made of none."""
    path = ENCODERS.file_of(scenario.workers.encoder)
    return "" if path is None else digest_of(path)


def digest_of(path: str) -> str:
    """Return a digest of a file; empty where there is none: the code that reads the file reports that."""
    path = os.path.expanduser(path)
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
