"""The worker's own ledger: which rounds it began, what it has spent, and what it therefore refuses.

A file of lines that only grows; each is on the disk before the worker acts on it. Where a crash cut the last line off,
nothing followed from it: it is left out. Anything else that is odd makes the file unusable, and the worker sends
nothing more: a ledger that may have lost a line is worth nothing. One process at a time may hold the file.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, Self

from airmixml.deploy.contract import Contract
from airmixml.deploy.durable import GrowingFile
from airmixml.errors import ProtocolError
from airmixml.masks.graph import MOST_ROUNDS

_DIGEST_BYTES: Final = 8
_BEGAN, _SPENT = "began", "spent"


@dataclass(frozen=True, order=True)
class Entry:
    """A worker began a round, or spent what a kind of frame costs in it."""

    what: str
    worker: int
    round: int
    attempt: int
    kind: int = 0
    cost: int = 0

    def line(self) -> bytes:
        """Return the entry as a line of the file, with a digest."""
        text = f"{self.what} {self.worker} {self.round} {self.attempt} {self.kind} {self.cost}"
        return f"{text} {_digest(text)}\n".encode()

    @classmethod
    def of(cls, line: str) -> Self:
        """Return the entry of a line; a ValueError where it is none."""
        text, _, digest = line.rpartition(" ")
        what, *numbers = text.split(" ")
        if digest != _digest(text) or what not in (_BEGAN, _SPENT) or len(numbers) != 5:
            raise ValueError(line)
        return cls(what, *map(int, numbers))


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


class Spending:
    """The rules and the file of the workers of one device or gateway; without a file for tests and simulations."""

    def __init__(self, contract: Contract, path: Path | None = None) -> None:
        self._contract = contract
        self._began: dict[tuple[int, int], set[int]] = {}  # attempts, by worker and round
        self._spent: dict[int, int] = {}
        self._frames: dict[int, dict[int, int]] = {}  # kind of the frame that a worker sent, by worker and round
        self._waiting: list[Entry] | None = None
        self._file = GrowingFile(path)
        try:
            self._read()
        except ProtocolError:
            self.close()
            raise

    def _read(self) -> None:
        content, path = self._file.content(), self._file.path
        head = f"airmixml-spending/1 {self._contract.run.hex()}\n".encode()
        if head.startswith(content):  # empty, or cut off before anything followed from it
            self._file.cut(0)
            self._file.append(head)
            return
        if not content.startswith(head):
            raise ProtocolError(f"{path}: is the ledger of another run; give each run a folder of its own")
        *lines, cut_off = content[len(head) :].decode("ascii", errors="replace").split("\n")
        for number, line in enumerate(lines, start=2):
            try:
                self._count(Entry.of(line))
            except ValueError:
                raise ProtocolError(
                    f"{path}: line {number} is damaged, and what was spent is not known; this worker sends nothing "
                    "more in this run"
                ) from None
        if cut_off:
            self._file.cut(content.rindex(b"\n") + 1)

    def close(self) -> None:
        """Let another process have the file."""
        self._file.close()

    def spent(self, worker: int) -> int:
        """Return what a worker has spent, in units of the contract."""
        return self._spent.get(worker, 0)

    def began(self, worker: int, number: int, attempt: int) -> bool:
        """Whether a worker began a round of that name."""
        return attempt in self._began.get((worker, number), ())

    def begin(self, worker: int, number: int, attempt: int) -> None:
        """Note that a worker begins a round, or refuse a name that was used or is none of the contract."""
        if not 0 <= number < self._contract.most_rounds or not 0 <= attempt < MOST_ROUNDS:
            raise ProtocolError(
                f"round {number}, attempt {attempt}: must be below {self._contract.most_rounds} and {MOST_ROUNDS}, as "
                "agreed"
            )
        if self.began(worker, number, attempt):
            raise ProtocolError(f"round {number}, attempt {attempt}: this worker began it before; use another name")
        self._check_unsent(worker, number)
        self._note(Entry(_BEGAN, worker, number, attempt))

    def reserve(self, worker: int, number: int, attempt: int, kind: int) -> None:
        """Spend what a frame costs, before it is sent; refuse it where the budget does not cover it."""
        agreed, already = self._contract.kinds[kind], list(self._frames.get(worker, {}).values()).count(kind)
        if not self.began(worker, number, attempt):
            raise ProtocolError(f"round {number}, attempt {attempt}: was not begun by this worker")
        self._check_unsent(worker, number)
        if already >= agreed.releases:
            raise ProtocolError(f"frame of {agreed.sends}: {agreed.releases} were agreed, and all are sent")
        if self.spent(worker) + agreed.cost > self._contract.budget:
            raise ProtocolError(
                f"frame of {agreed.sends}: would spend {self.spent(worker) + agreed.cost} of {self._contract.budget} "
                f"units (epsilon {self._contract.epsilon:g}); the budget of this worker is used up"
            )
        self._note(Entry(_SPENT, worker, number, attempt, kind, agreed.cost))

    def _check_unsent(self, worker: int, number: int) -> None:
        if number in self._frames.get(worker, {}):
            raise ProtocolError(f"round {number}: this worker has sent its frame of it; use another round")

    def together(self, entries: Iterable[None]) -> None:
        """Run what notes several entries, and have all of them on the disk at once; nothing is sent before that."""
        self._waiting = []
        try:
            for _ in entries:
                pass
            if self._waiting:
                self._file.append(b"".join(each.line() for each in self._waiting))
        finally:
            self._waiting = None

    def _note(self, entry: Entry) -> None:
        if self._waiting is None:
            self._file.append(entry.line())
        else:
            self._waiting.append(entry)
        self._count(entry)

    def _count(self, entry: Entry) -> None:
        if entry.what == _BEGAN:
            self._began.setdefault((entry.worker, entry.round), set()).add(entry.attempt)
        else:
            self._spent[entry.worker] = self.spent(entry.worker) + entry.cost
            self._frames.setdefault(entry.worker, {})[entry.round] = entry.kind
