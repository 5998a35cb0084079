"""The worker's own ledger: which rounds it began, what it has spent, and what it therefore refuses.

Each entry is on the disk before the worker acts on it, in a ``Journal``; one that a crash left unfinished at the end
was not acted on, and is left out. A ledger that is damaged or may have lost an entry is worth nothing, and the worker
sends nothing more. So is one that is missing: its first record is written when the run is set up. (An owner who puts an
older copy back, or cuts the end off, spends twice what it agreed to; no file can tell.) One process at a time may hold
the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import Journal, Record
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.messages import ProtocolError

BEGAN, SPENT = b"B", b"S"  # a worker began a round, or spent what a kind of frame costs
_MEND: Final = "put it back, or set up another run with what is left of the budget"


class Entry(NamedTuple):
    """A worker began a round, or spent what a kind of frame costs in it; on the disk as numbers in words."""

    what: bytes
    worker: int
    round: int
    attempt: int
    kind: int = 0
    cost: int = 0


class Spending:
    """The rules and the file of the workers of one device or gateway."""

    def __init__(self, contract: Contract, path: Path) -> None:
        self._contract = contract
        self._latest: dict[int, tuple[int, int]] = {}  # round and attempt that each worker began last
        self._spent: dict[int, int] = {}
        self._frames: dict[int, dict[int, int]] = {}  # kind of the frame that a worker sent, by worker and round
        self._waiting: list[Record] | None = None
        if not path.is_file():
            raise ProtocolError(f"{path}: the ledger of this run is missing, and what was spent is not known; {_MEND}")
        self._log = Journal(path, contract.run, goes_on=True, mend=f"what was spent is not known; {_MEND}")
        try:
            for what, content in self._log.records():
                numbers = content.split(b" ")
                if what not in (BEGAN, SPENT) or len(numbers) != 5 or not all(map(bytes.isdigit, numbers)):
                    raise ValueError(content)
                self._count(Entry(what, *map(int, numbers)))
        except ValueError:
            self.close()
            raise ProtocolError(f"{path}: is no ledger of a worker, and what was spent is not known; {_MEND}") from None

    @classmethod
    def create(cls, contract: Contract, path: Path) -> None:
        """Write the first record of a ledger, once, when a run is set up."""
        if path.exists():
            raise ProtocolError(f"{path}: is there already; a ledger is begun once for each run")
        Journal(path, contract.run).close()

    def close(self) -> None:
        """Let another process have the file."""
        self._log.close()

    def spent(self, worker: int) -> int:
        """Return what a worker has spent, in units of the contract."""
        return self._spent.get(worker, 0)

    def began(self, worker: int, number: int, attempt: int) -> bool:
        """Whether a worker began a round of that name, or a later one."""
        return (number, attempt) <= self._latest.get(worker, (-1, 0))

    def begin(self, worker: int, number: int, attempt: int, kind: int = 0) -> None:
        """Note that a worker begins a round, or refuse it: names rise, and the budget must cover the frame."""
        if not 0 <= number < self._contract.most_rounds or not 0 <= attempt < MOST_ROUNDS:
            raise ProtocolError(
                f"round {number}, attempt {attempt}: must be below {self._contract.most_rounds} and {MOST_ROUNDS}, as "
                "agreed"
            )
        if self.began(worker, number, attempt):
            raise ProtocolError(
                f"round {number}, attempt {attempt}: this worker began it before, or a later one; use another name"
            )
        self._check_covered(worker, number, kind)
        self._note(Entry(BEGAN, worker, number, attempt))

    def reserve(self, worker: int, number: int, attempt: int, kind: int) -> None:
        """Spend what a frame costs, before it is sent; refuse it where the budget does not cover it."""
        if self._latest.get(worker) != (number, attempt):
            raise ProtocolError(f"round {number}, attempt {attempt}: is not the one that this worker began last")
        self._check_covered(worker, number, kind)
        self._note(Entry(SPENT, worker, number, attempt, kind, self._contract.kinds[kind].cost))

    def _check_covered(self, worker: int, number: int, kind: int) -> None:
        agreed, sent = self._contract.kinds[kind], self._frames.get(worker, {})
        self._check_unsent(worker, number)
        if list(sent.values()).count(kind) >= agreed.releases:
            raise ProtocolError(f"frame of {agreed.sends}: {agreed.releases} were agreed, and all are sent")
        if self.spent(worker) + agreed.cost > self._contract.budget:
            raise ProtocolError(
                f"frame of {agreed.sends}: would spend {self.spent(worker) + agreed.cost} of {self._contract.budget} "
                f"units (epsilon {self._contract.epsilon:g}); the budget of this worker is used up"
            )

    def _check_unsent(self, worker: int, number: int) -> None:
        if number in self._frames.get(worker, {}):
            raise ProtocolError(f"round {number}: this worker has sent its frame of it; use another round")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Have all that is noted in the block on the disk at once, at its end; nothing is sent before that."""
        self._waiting = []
        try:
            yield
            if self._waiting:
                self._log.append(self._waiting)
        finally:
            self._waiting = None

    def _note(self, entry: Entry) -> None:
        record = entry.what, " ".join(map(str, entry[1:])).encode()
        if self._waiting is None:
            self._log.append([record])
        else:
            self._waiting.append(record)
        self._count(entry)

    def _count(self, entry: Entry) -> None:
        if entry.what == BEGAN:
            self._latest[entry.worker] = (entry.round, entry.attempt)
        else:
            self._spent[entry.worker] = self.spent(entry.worker) + entry.cost
            self._frames.setdefault(entry.worker, {})[entry.round] = entry.kind
