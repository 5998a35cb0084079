"""A deployment in one process whose parts are killed, and whose network loses, repeats, reorders and replays messages.

Files are real, so that what is not on the disk is lost with a part. Every frame that leaves a worker is recorded, with
the integers that it hides, so that what was promised can be checked afterwards by other means than the code under test.
"""

import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from brokers_for_tests import ledger_of

from airmixml.deploy.air import AnalogKind, as_samples
from airmixml.deploy.air_link import Adder, EmulatedAir
from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import Journal
from airmixml.deploy.server import Server
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import AIR, Letter, Message, Type, unpacked
from airmixml.deploy.worker import Device
from airmixml.masks.keys import verifying_key
from airmixml.messages import ProtocolError
from airmixml.scenario import Scenario
from airmixml.workers.payloads import Broadcast

WORKERS = 6
VICTIM = 3
BEHIND_GATEWAY = (2, 3)
MOST_DEADLINES = 80
POINTS = ("before reserving", "after reserving", "after sending", "list agreed", "answering")
POINTS_ON_AIR = (*POINTS[:3], "on air", "summed")
PARTS = ("worker", "server", "broker", "gateway", "air")
NETWORKS = ("quiet", "drop", "repeat", "reorder", "replay", "lost log")
_PASSED_BY = {
    Type.FRAME: "after sending",
    Type.SAMPLES: "on air",
    Type.SIGNED: "list agreed",
    Type.ANSWER: "answering",
}
AIR_KEY = secrets.token_bytes(32)


OPEN: "list[History]" = []  # closed after each test


class Crash(Exception):
    """The process of a worker ends here."""


@lru_cache
def keys() -> tuple[dict[str, bytes], bytes]:
    """The private signing keys of the workers and of the server."""
    return {f"worker-{each}": secrets.token_bytes(32) for each in range(WORKERS)}, secrets.token_bytes(32)


@lru_cache
def small_contract(spare: int = 1, epsilon: float = 20.0) -> Contract:
    """Six workers, of whom two may be absent, one slot of moments and one round of gradients."""
    scenario = Scenario.preset("trustless-digits-digital").with_overrides(
        "workers.dataset=iris",
        "workers.train_samples=0",
        "workers.holding=label-skewed",
        "workers.rows_per_worker=5",
        "privacy.most_absent=0.3333",
        "learner.rounds=1",
        "privacy.epsilon=8",
        "link.access_points=1",
    )
    scenario = planned_for(scenario, WORKERS)
    signing, server = keys()
    public = {name: verifying_key(key) for name, key in signing.items()}
    return make_contract(scenario, data_of(scenario), public, verifying_key(server), epsilon=epsilon, spare=spare)


@lru_cache
def analog_contract(spare: int = 1, epsilon: float = 100.0) -> Contract:
    """The same workers with analog frames, on an air without noise: a sum of them is exact."""
    scenario = Scenario.preset("trustless-wine").with_overrides(
        "workers.dataset=iris",
        "radio.link=analog",
        "privacy.arithmetic=real",
        "privacy.noise=workers",
        "privacy.most_absent=0",
        "privacy.epsilon=20",
        "learner.rounds=1",
    )
    scenario = planned_for(scenario, WORKERS)
    signing, server = keys()
    public = {name: verifying_key(key) for name, key in signing.items()}
    made = make_contract(scenario, data_of(scenario), public, verifying_key(server), epsilon=epsilon, spare=spare)
    kinds = tuple(replace(each, receiver_watts=0.0) for each in made.kinds)
    return replace(made, kinds=kinds, air_key=verifying_key(AIR_KEY).hex())


class Ledger(Spending):
    """A worker's ledger at which the process may end."""

    stop: Callable[[str], None] = staticmethod(lambda point: None)

    def reserve(self, worker: int, number: int, attempt: int, kind: int) -> None:
        if worker == VICTIM:
            self.stop("before reserving")
        super().reserve(worker, number, attempt, kind)
        if worker == VICTIM:
            self.stop("after reserving")


@dataclass(eq=False)
class History:
    """One run: which part is killed at which point of which round, on which network."""

    folder: Path
    part: str = ""
    point: str = ""
    network: str = "quiet"
    in_round: int = 0
    seed: int = 0
    contract: Contract = field(default_factory=small_contract)
    lines: list[str] = field(default_factory=list)
    said: dict[tuple[Type, int, int, int], set[bytes]] = field(default_factory=dict)  # by worker, round and attempt
    hidden: dict[tuple[int, int, int], np.ndarray] = field(default_factory=dict)  # integers behind masks, or samples
    kills: int = 0

    def __post_init__(self) -> None:
        OPEN.append(self)
        self._random = random.Random(self.seed)
        self._queue: list[tuple[int | None, bytes]] = []  # to a worker, or to the server (None)
        self._seen: list[tuple[int | None, bytes]] = []
        self._killed = self._replayed = False
        self._seeds: dict[int, bytes] = {}
        self.devices = {identity: self._device(identity) for identity in range(WORKERS)}
        self.air = self._new_air()
        self.server = self._new_server()

    def close(self) -> None:
        """Close its files: a process that has more than 1,024 open cannot wait for a broker."""
        for device in self.devices.values():
            device.spending.close()
        self.server.close()

    # Parts and how they end.

    def _new_air(self) -> EmulatedAir:
        return EmulatedAir(self.contract, AIR_KEY, Adder())

    def _device(self, identity: int) -> Device:
        place = self.folder / f"ledger-{identity}"
        if not place.exists():
            Spending.create(self.contract, place)
        ledger = Ledger(self.contract, place)
        ledger.stop = self._stop

        def entropy(count: int) -> bytes:
            self._seeds[identity] = secrets.token_bytes(count)
            return self._seeds[identity]

        signing = list(keys()[0].values())[identity]
        return Device(
            identity, self.contract, signing, lambda kind, told: self.vector(identity, kind), ledger, None, entropy
        )

    def vector(self, identity: int, kind: int) -> np.ndarray:
        agreed = self.contract.kinds[kind]
        drawn = np.random.default_rng([identity, kind]).normal(size=agreed.numbers)
        return np.asarray(drawn * 0.9 * agreed.norm / np.linalg.norm(drawn))

    def _new_server(self) -> Server:
        journal = Journal(self.folder / "journal", self.contract.run)
        return Server(self.contract, keys()[1], journal, lambda sums: self._model(), self.lines.append)

    def _model(self) -> Broadcast:
        outputs = len(self.contract.outputs)
        features = self.contract.kinds[1].numbers // outputs
        return Broadcast(weights=np.zeros((features, outputs)), biases=np.zeros(outputs), clip=0.2)

    def _restart_worker(self, identity: int) -> None:
        self.devices[identity].spending.close()
        self.devices[identity] = self._device(identity)
        self._queue.append((None, self.devices[identity].hello().packed()))

    def _restart_server(self, *, lose_log: bool = False) -> None:
        self.server._journal.close()
        if lose_log:
            (self.folder / "journal").unlink()
        self.server = self._new_server()
        self._post(self.server.asking())

    def _stop(self, point: str) -> None:
        """The victim has come to a point: the part to be killed ends there, once."""
        if self._killed or point != self.point or self.server.where[0] != self.in_round:
            return
        self._killed = True
        self.kills += 1
        if self.part in ("worker", "gateway"):
            raise Crash
        if self.part == "server":
            self._restart_server()
        elif self.part == "broker":
            self._queue.clear()
        elif self.part == "air":
            lost = Type.SAMPLES if self.contract.on_air else Type.FRAME
            self._queue = [each for each in self._queue if unpacked(each[1]).type is not lost]
            self.air = self._new_air()
            self._queue.append((None, self.air.hello().packed()))
        if self.network == "lost log":
            self._restart_server(lose_log=True)

    # The network.

    def _post(self, letters: list[Letter]) -> None:
        for letter in letters:
            for identity in list(self.devices) if letter.to is None else [letter.to]:
                self._carry(identity, letter.message.packed())

    def _carry(self, to: int | None, content: bytes) -> None:
        self._seen.append((to, content))
        if self.network == "drop" and self._random.random() < 0.15:
            return
        self._queue += [(to, content)] * (2 if self.network == "repeat" else 1)

    def _take(self) -> tuple[int | None, bytes]:
        place = self._random.randrange(len(self._queue)) if self.network == "reorder" else 0
        return self._queue.pop(place)

    def run(self) -> "History":
        """Carry messages until the run is over, or too many deadlines have passed."""
        self._post(self.server.asking())
        for _ in range(MOST_DEADLINES):
            for _ in range(2):
                self._drain()
                if self.server.is_over:
                    return self
                self._post(self.server.asking())
            self._drain()
            if not self.server.is_over:
                self._post(self.server.expire())
        return self

    def _drain(self) -> None:
        while self._queue and not self.server.is_over:
            to, content = self._take()
            try:
                if to is None:
                    self._post(self.server.handle([unpacked(content)]))
                elif to == AIR:
                    self._to_air(content)
                else:
                    self._to_device(to, content)
            except Crash:
                for each in BEHIND_GATEWAY if self.part == "gateway" else (VICTIM,):
                    self._restart_worker(each)
                if self.network == "lost log":
                    self._restart_server(lose_log=True)
            if self.network == "replay" and not self._replayed and self.server.where[0] == 1:
                self._replayed = True  # all that was said in round 0, to those it was said to
                self._queue += [each for each in self._seen if unpacked(each[1]).round == 0]

    def _to_device(self, identity: int, content: bytes) -> None:
        for answer in self.devices[identity].handle(unpacked(content)):
            self._record(answer)
            self._carry(AIR if answer.type is Type.SAMPLES else None, answer.packed())
            if identity == VICTIM and answer.type in _PASSED_BY:
                self._stop(_PASSED_BY[answer.type])

    def _to_air(self, content: bytes) -> None:
        with suppress(ProtocolError):
            for total in self.air.handle(content):
                self._carry(None, total.packed())
                self._stop("summed")

    def _record(self, said: Message) -> None:
        name = (said.sender, said.round, said.attempt)
        if said.type is Type.REFUSAL:
            return
        self.said.setdefault((said.type, *name), set()).add(said.body)
        if said.type is Type.SAMPLES:
            self.hidden.setdefault(name, as_samples(said.body[64:]).astype(np.complex128))
        elif said.type is Type.FRAME and not self.contract.on_air:
            kind = next(k for k, each in enumerate(self.contract.kinds) if each.frame_bytes == len(said.body))
            code = self.contract.kinds[kind]
            vector, seed = self.vector(said.sender, kind), self._seeds[said.sender]
            self.hidden.setdefault(name, code.noisy(vector, seed, said.round))

    # What was promised.

    def broken(self) -> list[str]:
        """Return the promises that this history broke, in words."""
        return [*self._privacy(), *self._integrity(), *self._liveness()]

    def _privacy(self) -> Iterator[str]:
        for (kind, *name), bodies in self.said.items():
            if len(bodies) > 1:
                yield f"privacy: {len(bodies)} different messages {kind.name} in worker, round, attempt {name}"
        frames = [name for kind, *name in self.said if kind is Type.FRAME]
        for (worker, number), count in Counter((worker, number) for worker, number, _ in frames).items():
            if count > 1:
                yield f"privacy: worker {worker} sent frames in {count} attempts at round {number}"
        for worker in range(WORKERS):
            lines = ledger_of(self.folder / f"ledger-{worker}")
            spent = [[int(each) for each in line[2:]] for line in lines if line[0] == "spent"]
            sent = {(number, attempt) for who, number, attempt in frames if who == worker}
            missing = sent - {(number, attempt) for number, attempt, _, _ in spent}
            if missing:
                yield f"privacy: worker {worker} sent frames in {missing} that its ledger does not have"
            cost = sum(each[3] for each in spent)
            if cost > self.contract.budget:
                yield f"privacy: worker {worker} spent {cost} of {self.contract.budget}"
            for kind, count in Counter(each[2] for each in spent).items():
                if count > self.contract.kinds[kind].releases:
                    yield f"privacy: worker {worker} sent {count} frames of kind {kind}"

    def _integrity(self) -> Iterator[str]:
        for found in self.server.sums:
            kind = self.contract.kinds[found.kind]
            names = [name for name in self.hidden if name[1] == found.number and name[0] in found.present]
            if len(names) != len(found.present):
                yield f"integrity: the sum of round {found.number} names workers whose frames were not sent in it"
                continue
            exact = sum(self.hidden[name] for name in names)
            if isinstance(kind, AnalogKind):
                received, step = found.mean * len(found.present) * np.sqrt(kind.watts), kind.step
                is_exact = np.array_equal(np.rint(exact.real / step), np.rint(received / step))
            else:
                received = np.rint(found.mean * len(found.present) / kind.step).astype(np.int64)
                is_exact = np.array_equal(exact % (1 << kind.bits), received % (1 << kind.bits))
            if not is_exact:
                yield f"integrity: the sum of round {found.number} is not that of the workers it names"
            if len(found.present) < self.contract.carriers:
                yield f"privacy: the sum of round {found.number} has {len(found.present)} workers"

    def _liveness(self) -> Iterator[str]:
        if not self.server.is_over:
            yield f"liveness: the run is stuck at {self.server.where}"
        elif not self.server.failure and not self.server.sums:
            yield "liveness: the run is over without a sum and without a reason"

    def durable(self) -> bool:
        """Whether a server that is started again has the same sums."""
        self.server._journal.close()
        again = self._new_server()
        with suppress(ProtocolError):
            again._journal.close()
        return [each.mean.tolist() for each in again.sums] == [each.mean.tolist() for each in self.server.sums]
