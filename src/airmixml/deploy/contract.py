"""What the owner of a worker has agreed to: a scenario compiled into numbers that no order of a server can change.

Every worker holds the contract, and its digest is the name of the run: a server that would like other numbers has
another run, which no worker takes part in. An order chooses a kind of frame, a round, and for gradients the model: what
a frame costs, how much noise is on it, who may take part and which masks hide it stands here.

Losses are integers, mu^2 in units of 2^-48: the cost of a frame is rounded up, the budget down, and a microcontroller
adds them up as this file does. Reading a contract needs neither SciPy nor torch.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from airmixml.data import Bounded, LabelCode, OneHot, RowFormat
from airmixml.data.dataset import Column
from airmixml.data.labels import Centred, DeclaredClasses
from airmixml.data.own_file import read_rows
from airmixml.deploy.frames import FrameKind
from airmixml.files import read_regular
from airmixml.masks.rules import Rules
from airmixml.messages import DataError, ProtocolError, shown
from airmixml.scenario import Workers
from airmixml.scenario.score_links import IDENTITY, SOFTMAX, ScoreLink
from airmixml.scenario.toml import checked_keys, parse_toml
from airmixml.workers.encoding import RowEncoder, within_declared
from airmixml.workers.signal import Holdings, Payload, payload_of

if TYPE_CHECKING:
    from airmixml.deploy.air import AnalogKind
    from airmixml.scenario import Scenario  # a worker needs one table of it alone

PROTOCOL: Final = "airmixml-deploy/1"
UNITS: Final = 1 << 48
"""Of mu^2."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A worker of the run."""

    name: str
    verifying_key: str  # Ed25519, in hexadecimal digits


@dataclass(frozen=True, kw_only=True)
class Contract:
    """All that a worker, a gateway and a server must agree on."""

    scenario: str  # TOML
    rows: Mapping[str, Any]  # what a raw row looks like
    outputs: tuple[str, ...]  # names of the classes, or of the target
    targets: tuple[tuple[float, ...], tuple[float, ...]] | None  # bounds of a regression
    kinds: "tuple[FrameKind | AnalogKind, ...]"  # in the order in which a run sends them
    rules: tuple[Rules, ...]  # of masks, for fewer and fewer workers; bits are those of the kind
    budget: int  # in ``UNITS``; 0: nobody is protected
    epsilon: float  # what the budget is worth
    delta: float
    carriers: int  # honest workers whose noise hides one, at least
    most_rounds: int  # names of rounds that a worker ever takes part in
    power_dbm: float  # that no order may exceed
    server_key: str
    members: tuple[Member, ...]  # a worker's place is its identity
    air_key: str = ""  # that of the air, where one adds up frames
    revoked: tuple[str, ...] = ()  # keys above that are good for nothing any more; no part of the run's name

    def to_json(self) -> bytes:
        """Return the contract as it is signed, sent and stored: one text for one contract."""
        plain = {"protocol": PROTOCOL, **asdict(self)}
        if not self.revoked:
            del plain["revoked"]
        return json.dumps(plain, sort_keys=True, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, content: bytes, source: str = "contract") -> Self:
        try:
            plain = json.loads(content)
            if plain.pop("protocol") != PROTOCOL:
                raise ValueError("protocol")
            targets = plain["targets"]
            plain["revoked"] = tuple(map(str, plain.get("revoked", ())))
            plain |= {
                "outputs": tuple(plain["outputs"]),
                "targets": None if targets is None else (tuple(targets[0]), tuple(targets[1])),
                "kinds": tuple(map(_kind_of, plain["kinds"])),
                "rules": tuple(Rules(**each) for each in plain["rules"]),
                "members": tuple(Member(**each) for each in plain["members"]),
            }
            found = cls(**plain)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ProtocolError(f"{source}: is no contract of {PROTOCOL}; make one with `airmix deploy init`") from None
        if unknown := set(found.revoked) - {found.server_key, found.air_key, *(x.verifying_key for x in found.members)}:
            raise ProtocolError(
                f"{source}: revokes {shown(min(unknown))}, which is none of its keys; use `airmix deploy revoke`"
            )
        return found

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls.from_json(read_regular(path), str(path))

    @cached_property
    def run(self) -> bytes:
        """The name of the run, 32 bytes; it stays where a key is revoked, and so do ledgers."""
        return sha256(replace(self, revoked=()).to_json()).digest()

    @cached_property
    def directory(self) -> dict[int, bytes]:
        """The verifying key of each worker."""
        return {identity: bytes.fromhex(each.verifying_key) for identity, each in enumerate(self.members)}

    @cached_property
    def revoked_workers(self) -> frozenset[int]:
        """Workers whose keys were revoked: nothing that they say counts, and no other takes part in a round of them."""
        return frozenset(number for number, each in enumerate(self.members) if each.verifying_key in self.revoked)

    def check_key(self, key: str, name: str) -> None:
        """Refuse an endpoint whose key was revoked."""
        if key in self.revoked:
            raise ProtocolError(f"{name}: its key was revoked by the owner of the run, so it cannot take part")

    @property
    def on_air(self) -> bool:
        """Whether an air adds up frames."""
        return any(each.on_air for each in self.kinds)

    def share(self, spent: int) -> float:
        """Return which share of a worker's budget this is."""
        return spent / self.budget if self.budget else 0.0

    @property
    def promise(self) -> str:
        """What is promised to each worker, in words."""
        if not self.budget:
            return "no privacy: what workers send protects nobody"
        return f"epsilon {self.epsilon:g}, delta {self.delta:g} against everyone who hears it"

    def identity(self, name: str) -> int:
        """Return the number of the worker of that name."""
        for identity, each in enumerate(self.members):
            if each.name == name:
                return identity
        raise ProtocolError(f"worker {name}: is none of the {len(self.members)} of this contract")

    @property
    def schedule(self) -> tuple[int, ...]:
        """The kind of frame of each round that a run needs, by its place in ``kinds``."""
        learner, radio = self.plan.learner, self.plan.radio
        counts = (radio.slots, learner.rounds)[: len(self.kinds)]
        return tuple(place for place, count in enumerate(counts) for _ in range(count))

    @cached_property
    def plan(self) -> "Scenario":
        from airmixml.scenario import Scenario

        return Scenario.from_toml(self.scenario, source="contract: scenario")

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return checked_keys(parse_toml(self.scenario, source="contract: scenario"))

    @cached_property
    def workers(self) -> Workers:
        """The scenario's workers; read without its other tables, whose checks load what a device has no room for."""
        return Workers(**self._tables["workers"])

    @property
    def score_link(self) -> ScoreLink:
        """What scores of a model stand for."""
        return SOFTMAX if self.targets is None else IDENTITY

    def rules_for(self, workers: int, kind: int) -> Rules | None:
        """Return what a round of at most so many workers keeps to, of the largest size; None where they are too few."""
        return next((each for each in self.kinds[kind].rules(self.rules) if each.workers <= workers), None)

    @property
    def fewest(self) -> int:
        """Workers that a round needs at least: without masks half of them, so that noise on their mean is bounded."""
        return min((each.workers for each in self.rules), default=-(-len(self.members) // 2))

    @cached_property
    def encoder(self) -> RowEncoder:
        """What makes features of raw rows."""
        rows, shape = dict(self.rows), self.rows["image_shape"]
        rows |= {name: rows[name] and np.array(rows[name], dtype=np.float64) for name in ("lower", "upper")}
        rows |= {"feature_names": tuple(rows["feature_names"]), "image_shape": shape and tuple(shape)}
        rows["columns"] = tuple(Column(**each) for each in rows["columns"])
        return RowEncoder(workers=self.workers, seed=self._tables["seed"], row_format=RowFormat(**rows))

    @property
    def label_code(self) -> LabelCode:
        """How labels are sent."""
        if self.targets is not None:
            return Bounded(*self.targets)
        return (Centred if self.workers.label_code == "centred" else OneHot)(len(self.outputs))

    def payload(self, kind: int, path: Path, count: int = 1) -> Payload:
        """Return what so many workers send that hold the rows of this file, in order, and each as many as the next."""
        workers = replace(self.workers, sends=self.kinds[kind].sends)
        found = read_rows(path, self.encoder.row_format, label_column=workers.label_column or "label", with_labels=True)
        each, left = divmod(len(found.inputs), count)
        if left or not each or (each > 1 and not workers.several_rows):
            must = f"{'as many' if workers.several_rows else 'one'} for each of {count} workers"
            raise DataError(f"{path}: has {len(found.inputs)} rows and must have {must}")
        inputs = within_declared(workers, self.encoder.encode(found.inputs))
        labels = self.label_code.coded(self._numbers(found.labels or [], path)).astype(np.float32)
        holdings = None
        if workers.several_rows:
            rows = np.arange(len(inputs)).reshape(count, each)[:, : workers.max_rows or each]
            holdings = Holdings(rows=rows, present=np.ones(rows.shape, dtype=bool))
        return payload_of(workers, inputs, labels, holdings, protects=True)

    def _numbers(self, labels: list[str], path: Path) -> Any:
        if self.targets is None:
            return DeclaredClasses(names=self.outputs, absent=False).numbers(labels, str(path))
        try:
            return np.array([[float(each)] for each in labels])
        except ValueError:
            raise DataError(f"{path}: the target of a row is no number; correct it or remove the row") from None


def _kind_of(plain: Mapping[str, Any]) -> "FrameKind | AnalogKind":
    if "own_watts" not in plain:
        return FrameKind(**plain)
    from airmixml.deploy.air import AnalogKind  # here: a worker of integers has no room for it

    return AnalogKind(**plain)
