"""The worker's own ledger: which rounds it began, what it has spent, and what it therefore refuses.

A file of lines that only grows; each is on the disk before the worker acts on it, and its digest is that of all lines
so far. Where a crash cut the last line off, nothing followed from it: it is left out. Anything else that is odd makes
the file unusable, and the worker sends nothing more: a ledger that may have lost a line is worth nothing. So is one
that is missing: the first line is written when the run is set up. (An owner who puts an older copy back spends twice
what it agreed to; no file can tell.) One process at a time may hold the file.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, Self

from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import GrowingFile
from airmixml.errors import ProtocolError
from airmixml.masks.graph import MOST_ROUNDS

_DIGEST_BYTES: Final = 8
_BEGAN, _SPENT = "began", "spent"
_MEND: Final = "put it back, or set up another run with what is left of the budget"


@dataclass(frozen=True, order=True)
class Entry:
    """A worker began a round, or spent what a kind of frame costs in it."""

    what: str
    worker: int
    round: int
    attempt: int
    kind: int = 0
    cost: int = 0

    @property
    def text(self) -> str:
        """The entry as a line of the file, but for the digest."""
        return f"{self.what} {self.worker} {self.round} {self.attempt} {self.kind} {self.cost}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the entry of a line; a ValueError where it is none."""
        what, *numbers = text.split(" ")
        if what not in (_BEGAN, _SPENT) or len(numbers) != 5:
            raise ValueError(text)
        return cls(what, *map(int, numbers))


class Spending:
    """The rules and the file of the workers of one device or gateway; without a file for tests and simulations."""

    def __init__(self, contract: Contract, path: Path | None = None) -> None:
        self._contract = contract
        self._latest: dict[int, tuple[int, int]] = {}  # round and attempt that each worker began last
        self._spent: dict[int, int] = {}
        self._frames: dict[int, dict[int, int]] = {}  # kind of the frame that a worker sent, by worker and round
        self._waiting: list[Entry] | None = None
        self._digest = _digest("", _head(contract))
        if path is not None and not path.is_file():
            raise ProtocolError(f"{path}: the ledger of this run is missing, and what was spent is not known; {_MEND}")
        self._file = GrowingFile(path)
        try:
            self._read()
        except ProtocolError:
            self.close()
            raise

    @classmethod
    def create(cls, contract: Contract, path: Path) -> None:
        """Write the first line of a ledger, once, when a run is set up."""
        if path.exists():
            raise ProtocolError(f"{path}: is there already; a ledger is begun once for each run")
        file = GrowingFile(path)
        file.append(_head(contract).encode() + b"\n")
        file.close()

    def _read(self) -> None:
        content, path = self._file.content(), self._file.path
        if path is None:
            return
        if b"\n" not in content:
            raise ProtocolError(f"{path}: the ledger has lost its first line; {_MEND}")
        head, *lines, cut_off = content.decode("ascii", errors="replace").split("\n")
        if head != _head(self._contract):
            raise ProtocolError(f"{path}: is the ledger of another run; give each run a folder of its own")
        for number, line in enumerate(lines, start=2):
            text, _, digest = line.rpartition(" ")
            self._digest = _digest(self._digest, text)
            try:
                if digest != self._digest:
                    raise ValueError(line)
                self._count(Entry.of(text))
            except ValueError:
                raise ProtocolError(
                    f"{path}: line {number} is damaged or follows a line that is lost, and what was spent is not "
                    "known; this worker sends nothing more in this run"
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
        self._note(Entry(_BEGAN, worker, number, attempt))

    def reserve(self, worker: int, number: int, attempt: int, kind: int) -> None:
        """Spend what a frame costs, before it is sent; refuse it where the budget does not cover it."""
        if self._latest.get(worker) != (number, attempt):
            raise ProtocolError(f"round {number}, attempt {attempt}: is not the one that this worker began last")
        self._check_covered(worker, number, kind)
        self._note(Entry(_SPENT, worker, number, attempt, kind, self._contract.kinds[kind].cost))

    def _check_covered(self, worker: int, number: int, kind: int) -> None:
        agreed, already = self._contract.kinds[kind], list(self._frames.get(worker, {}).values()).count(kind)
        self._check_unsent(worker, number)
        if already >= agreed.releases:
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
            self._write(self._waiting)
        finally:
            self._waiting = None

    def _note(self, entry: Entry) -> None:
        if self._waiting is None:
            self._write([entry])
        else:
            self._waiting.append(entry)
        self._count(entry)

    def _write(self, entries: Iterable[Entry]) -> None:
        lines = []
        for each in entries:
            self._digest = _digest(self._digest, each.text)
            lines.append(f"{each.text} {self._digest}\n")
        if lines:
            self._file.append("".join(lines).encode())

    def _count(self, entry: Entry) -> None:
        if entry.what == _BEGAN:
            self._latest[entry.worker] = (entry.round, entry.attempt)
        else:
            self._spent[entry.worker] = self.spent(entry.worker) + entry.cost
            self._frames.setdefault(entry.worker, {})[entry.round] = entry.kind


def _head(contract: Contract) -> str:
    return f"airmixml-spending/2 {contract.run.hex()}"


def _digest(before: str, text: str) -> str:
    """Return the digest of a line, and so of all lines before it."""
    return blake2b(f"{before} {text}".encode(), digest_size=_DIGEST_BYTES).hexdigest()
