"""A ledger that lasts: what each worker has spent over all runs and mechanisms, and what it may still spend.

A mechanism is *reserved* before anything is sent: if it would pass anybody's budget, nothing is written and nothing may
be sent. Afterwards the reservation becomes what was really *spent*. A process that dies in between leaves the
reservation, which counts in full until a person says whether anything was sent (``settle``) or not (``release``).
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from airmixml.arrays import Integers
from airmixml.budgets.file import create_file, packed, transaction, unpacked
from airmixml.budgets.order import loss_to
from airmixml.budgets.rules import PARTS, Budget, Loss
from airmixml.errors import LedgerError, PrivacyError, private
from airmixml.privacy.mechanism import ADJACENCIES
from airmixml.wording import against, shown, shown_name

MODES: Final = ("protection", "simulation")
RESERVED, SPENT, RELEASED = "reserved", "spent", "released"
_COLUMNS: Final = ("squared_mu", "spent_epsilon", "spent_delta")  # of the table budgets, in the order of PARTS


@dataclass(frozen=True, kw_only=True)
class People:
    """Whose losses a ledger keeps.

    Attributes:
        label: what the numbers or names are of: a data set, a file, a column of names.
        count: how many there are, numbered from 0; 0 where they have names, of which new ones may come.
    """

    label: str
    count: int = 0

    @property
    def named(self) -> bool:
        """Whether they have names."""
        return not self.count

    def __str__(self) -> str:
        return f"workers by name, {self.label}" if self.named else f"{self.count:,} workers by number, {self.label}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A mechanism that somebody wants to run, or has run.

    Attributes:
        about: what it is, in words.
        losses: adversary to what each of its workers loses to it; of the shape of ``who``, or 1.
        who: numbers, or names, of the workers that take part, each once; None for all of a ledger by number.
        delta: at which an epsilon that would still fit is named.
        workers_each: on how many workers of the mechanism each of ``who`` is; None for one.
        key: of work that repeats itself exactly when it is done again; empty where it does not.
        details: plain values for the history.
    """

    about: str
    losses: Mapping[str, Loss | None]
    who: Integers | tuple[str, ...] | None = None
    delta: float = 0.0
    workers_each: Integers | None = None
    key: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the history; ``workers`` is None where all of a ledger by number took part."""

    number: int
    state: str
    about: str
    reserved_at: str
    ended_at: str
    reason: str
    workers: int | None
    details: dict[str, Any]
    largest: dict[str, dict[str, float]]  # adversary to the largest of each part of the loss


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the ledger says of all workers against one adversary, reservations included."""

    adversary: str
    budget: Budget
    spent: Loss
    names: tuple[str, ...]  # empty in a ledger by number

    def name_of(self, place: int) -> str:
        """Return what the worker at that place is called."""
        return self.names[place] if self.names else str(place)


class LedgerFile:
    """A ledger in a file; every method is one transaction, and no connection stays open in between."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        epsilon: float,
        delta: float,
        adversaries: Sequence[str] = ("server",),
        adjacency: str = "remove-one",
        mode: str = "protection",
        people: People | None = None,
    ) -> Self:
        """Create a ledger with the same budget against each adversary; without ``people`` the first run says whose."""
        budget = Budget(epsilon=epsilon, delta=delta)
        if adjacency not in ADJACENCIES:
            raise LedgerError(f"adjacency = {shown(adjacency)}: must be one of {', '.join(ADJACENCIES)}")
        if mode not in MODES:
            raise LedgerError(f"mode = {shown(mode)}: must be one of {', '.join(MODES)}")
        if not adversaries:
            raise LedgerError("adversaries: a ledger keeps a budget against at least one")
        ledger, nothing = cls(path), packed(np.zeros(0))

        def fill(file: sqlite3.Connection) -> None:
            _set(file, adjacency=adjacency, mode=mode, created_at=_now())
            if people is not None:
                _set(file, label=people.label, count=people.count)
            rows = [(name, budget.epsilon, budget.delta, *3 * (nothing,)) for name in dict.fromkeys(adversaries)]
            file.executemany("INSERT INTO budgets VALUES (?, ?, ?, ?, ?, ?)", rows)

        create_file(ledger.path, fill)
        return ledger

    def facts(self) -> dict[str, Any]:
        """Return what the ledger is about: mode, adjacency, people, budgets."""
        with transaction(self.path, write=False) as file:
            return _facts(file)

    def check_kind(self, *, mode: str, adjacency: str, protect: str = "") -> None:
        """Refuse a mechanism that the ledger cannot count: of the other mode, or for other neighbours.

        ``protect`` says how a simulation would become protection; empty where it cannot.
        """
        facts = self.facts()
        if facts["mode"] != mode:
            wanted = f"create one with{'' if mode == 'simulation' else 'out'} --simulation"
            wanted = protect if mode == "simulation" and protect else wanted
            raise LedgerError(f"{self.path}: keeps what {facts['mode']} spends, and this is {mode}; {wanted}")
        if facts["adjacency"] != adjacency:
            raise LedgerError(
                f"{self.path}: keeps losses for {facts['adjacency']} neighbours, and privacy.adjacency = {adjacency}: "
                f"they do not add up; set privacy.adjacency = {facts['adjacency']} or use another ledger"
            )

    def standings(self) -> list[Standing]:
        """Return what all workers have spent or reserved, against each adversary."""
        with transaction(self.path, write=False) as file:
            facts, names = _facts(file), _names(file)
            workers = len(names) or facts["workers"]
            return [
                Standing(adversary=name, budget=budget, spent=_spent(file, name, workers), names=names)
                for name, budget in _budgets(file).items()
            ]

    def reserve(
        self, requests: Sequence[Request], people: People, *, already_sent: bool = False, check_only: bool = False
    ) -> list[int]:
        """Reserve all requests or none, and return the numbers of their entries.

        What was ``already_sent`` is spent at once and never refused: a loss that happened is a fact. Work that repeats
        itself (``Request.key``) costs nothing more: it gets the entry that it has. With ``check_only`` nothing is
        written.
        """
        with transaction(self.path, write=not check_only) as file:
            numbers = self._reserve(file, requests, people, already_sent=already_sent)
            if check_only:
                file.execute("ROLLBACK")
                file.execute("BEGIN")
        return numbers

    def _reserve(
        self, file: sqlite3.Connection, requests: Sequence[Request], people: People, *, already_sent: bool
    ) -> list[int]:
        self._bind(file, people)
        placed = [(each, _places(file, each.who)) for each in requests]
        workers = _workers(file)
        for request, who in placed:
            _check_shapes(request.losses, workers if who is None else len(who))
        known = {each.key: found for each in requests if (found := _entry_with(file, each.key)) is not None}
        reserved = [number for number, state in known.values() if state == RESERVED]
        unspent = [(each, who) for each, who in placed if known.get(each.key, (0, ""))[1] != SPENT]
        for adversary, budget in {} if already_sent or not unspent else _budgets(file).items():
            spent = _spent(file, adversary, workers, without=reserved)
            self._check(file, adversary, budget, spent, unspent)
        numbers = []
        for request, who in placed:
            number, state = known.get(request.key, (0, ""))
            if not number:
                number = _new_entry(file, request, who)
                _write_losses(file, number, {name: loss_to(name, request.losses) for name in _budgets(file)})
            if already_sent and state != SPENT:
                _spend(file, number, workers, "")
            numbers.append(number)
        return numbers

    def settle(
        self,
        number: int,
        losses: Mapping[str, Loss | None] | None = None,
        *,
        reason: str = "",
        repeated: bool = False,
    ) -> None:
        """Replace a reservation by what was really spent; without ``losses`` that is all that was reserved.

        What may be ``repeated`` work is left as it is where it is settled already.
        """
        with transaction(self.path, write=True) as file:
            if repeated and _state(file, number) == SPENT:
                return
            self._require_reserved(file, number)
            if losses is not None:
                who = _who_of(file, number)
                _check_shapes(losses, _workers(file) if who is None else len(who))
                file.execute("DELETE FROM losses WHERE entry = ?", (number,))
                _write_losses(file, number, {name: loss_to(name, losses) for name in _budgets(file)})
            _spend(file, number, _workers(file), reason)

    def settle_open(self, key: str) -> None:
        """Settle in full what repeatable work reserved and then finished, if its process died in between."""
        with transaction(self.path, write=True) as file:
            number, state = _entry_with(file, key) or (0, "")
            if state == RESERVED:
                _spend(file, number, _workers(file), "")

    def release(self, number: int, *, reason: str) -> None:
        """Give a reservation back, since nothing was sent: only a person can know that, and says why."""
        if not reason.strip():
            raise LedgerError("reason: must say why nothing of this entry was sent; give it")
        with transaction(self.path, write=True) as file:
            self._require_reserved(file, number)
            ended = (RELEASED, _now(), reason, number)
            file.execute("UPDATE entries SET state = ?, ended_at = ?, reason = ? WHERE number = ?", ended)

    def entries(self) -> list[Entry]:
        """Return the history, oldest first."""
        with transaction(self.path, write=False) as file:
            return [_entry(file, row) for row in file.execute("SELECT * FROM entries ORDER BY number")]

    def _require_reserved(self, file: sqlite3.Connection, number: int) -> None:
        state = _state(file, number)
        if not state:
            raise LedgerError(f"{self.path}: has no entry {number}; `airmix ledger history` lists them")
        if state != RESERVED:
            raise LedgerError(f"{self.path}: entry {number} is {state} already; only a reserved one can change")

    def _bind(self, file: sqlite3.Connection, people: People) -> None:
        facts = _facts(file)
        if facts["people"] is None:
            _set(file, label=people.label, count=people.count)
        elif facts["people"] != people:
            raise LedgerError(
                f"{self.path}: is about {facts['people']}; this is about {people}: use another ledger, since losses of "
                "different people do not add up"
            )

    def _check(
        self,
        file: sqlite3.Connection,
        adversary: str,
        budget: Budget,
        spent: Loss,
        placed: Sequence[tuple[Request, Integers | None]],
    ) -> None:
        """Raise a PrivacyError that names the fullest worker if the requests together pass anybody's budget."""
        workers, after = len(spent.squared_mu), spent
        for request, who in placed:
            after = _added(after, loss_to(adversary, request.losses), who)
        passed = np.flatnonzero(~budget.keeps(after))
        if not len(passed):
            return
        fullest = int(passed[budget.fullest(after.of_workers(passed))])
        own = Loss.nothing(workers)
        for request, who in placed:
            own = _added(own, loss_to(adversary, request.losses), who)
        before, adds, total = (budget.epsilons(each.of_workers([fullest]))[0] for each in (spent, own, after))
        others = f" (and {len(passed) - 1:,} more would)" if len(passed) > 1 else ""
        # A sum is rounded up: ten tenths are just above 1.
        near = "just above " if f"{total:.6g}" == f"{budget.epsilon:.6g}" else ""
        left = _advice(budget, adversary, spent.of_workers([fullest]), own.of_workers([fullest]), placed, fullest)
        raise PrivacyError(
            f"{self.path}: {private(f'worker {shown_name(_name(file, fullest))}', 'a worker')} would pass its budget "
            f"{against(adversary)}{others}: spent epsilon = {before:.4g}, this adds {adds:.4g}, together "
            f"{near}{total:.6g} of {budget.epsilon:g} at delta = {budget.delta:g}; nothing was sent; {left}"
        )


def _advice(
    budget: Budget,
    adversary: str,
    spent: Loss,
    own: Loss,
    placed: Sequence[tuple[Request, Integers | None]],
    worker: int,
) -> str:
    """Return what of the first request, made as often as asked, would still fit the worker that is fullest."""
    (request, who), times = placed[0], len(placed)
    loss = loss_to(adversary, request.losses)
    gaussian = not loss.epsilon.any()
    delta = (request.delta or budget.delta) if gaussian else float(loss.delta.max())
    if request.workers_each is not None and who is not None:
        times *= int(request.workers_each[who == worker].max(initial=1)) ** 2
    kept = spent + Loss.of(delta=own.delta) if gaussian else spent  # what may fail stays as it is
    left = budget.epsilon_left(kept, delta=delta, gaussian=gaussian, times=times)
    each = " each" if len(placed) > 1 else ""
    if left:
        return f"at most epsilon = {_down(left)} at delta = {delta:g}{each} would fit"
    unspent = max(budget.delta - float(spent.delta[0]), 0.0)
    return "nothing more fits" if gaussian else f"nothing fits at delta = {delta:g}: {unspent:.3g} of delta is left"


def _down(value: float) -> str:
    """Return four digits of a number, rounded down."""
    text = f"{value:.4g}"
    return text if float(text) <= value else f"{value * (1.0 - 1e-3):.4g}"


def _added(spent: Loss, loss: Loss, who: Integers | None) -> Loss:
    """Return what all have lost once those in ``who`` lose this too."""
    if who is None:
        return spent + loss
    parts = {name: part.copy() for name, part in spent.parts.items()}
    more = spent.of_workers(who) + loss
    for name in PARTS:
        parts[name][who] = more.parts[name]
    return Loss(**parts)


def _check_shapes(losses: Mapping[str, Loss | None], workers: int) -> None:
    """Refuse losses that are neither one for all who take part nor one for each of them."""
    for adversary, loss in losses.items():
        for name, part in {} if loss is None else loss.parts.items():
            if len(part) not in (1, workers):
                raise LedgerError(
                    f"{name} of the loss to {adversary}: has {len(part):,} numbers; must have one, or one for each "
                    f"worker that takes part ({workers:,})"
                )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _set(file: sqlite3.Connection, **facts: Any) -> None:
    file.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def _facts(file: sqlite3.Connection) -> dict[str, Any]:
    facts = {row["name"]: row["value"] for row in file.execute("SELECT * FROM facts")}
    if not {"mode", "adjacency", "created_at"} <= facts.keys():
        raise sqlite3.DatabaseError("malformed: it does not say what it is about")
    people = People(label=facts["label"], count=facts["count"]) if "label" in facts else None
    return {
        "mode": facts["mode"],
        "adjacency": facts["adjacency"],
        "created_at": facts["created_at"],
        "people": people,
        "workers": _workers(file),
        "budgets": _budgets(file),
    }


def _workers(file: sqlite3.Connection) -> int:
    row = file.execute("SELECT value FROM facts WHERE name = 'count'").fetchone()
    if row is not None and row["value"]:
        return int(row["value"])
    return int(file.execute("SELECT COUNT(*) AS workers FROM workers").fetchone()["workers"])


def _names(file: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(row["name"] for row in file.execute("SELECT name FROM workers ORDER BY number"))


def _name(file: sqlite3.Connection, number: int) -> str:
    row = file.execute("SELECT name FROM workers WHERE number = ?", (number,)).fetchone()
    return str(number) if row is None else str(row["name"])


def _budgets(file: sqlite3.Connection) -> dict[str, Budget]:
    rows = file.execute("SELECT adversary, epsilon, delta FROM budgets ORDER BY adversary")
    found = {row["adversary"]: Budget(epsilon=row["epsilon"], delta=row["delta"]) for row in rows}
    if not found:
        raise sqlite3.DatabaseError("malformed: it holds no budget")
    return found


def _places(file: sqlite3.Connection, who: Integers | tuple[str, ...] | None) -> Integers | None:
    """Return the numbers of these workers; names that are new get the next ones."""
    if who is not None and len(set(who) if isinstance(who, tuple) else np.unique(who)) < len(who):
        (twice, times), *_ = Counter(who if isinstance(who, tuple) else who.tolist()).most_common(1)
        which = private(f"worker {shown_name(str(twice))} is named {times} times", "a worker is named twice or more")
        raise LedgerError(f"who: {which}; name each once")
    if not isinstance(who, tuple):
        workers = _workers(file)
        if who is not None and not (len(who) and who.min() >= 0 and who.max() < workers):
            raise LedgerError(f"who: workers must be numbers from 0 to {workers - 1:,} of the ledger, at least one")
        everybody = who is not None and len(who) == workers and bool((who == np.arange(workers)).all())
        return None if everybody else who
    known = {row["name"]: row["number"] for row in file.execute("SELECT number, name FROM workers")}
    new = [name for name in dict.fromkeys(who) if name not in known]
    known |= {name: len(known) + place for place, name in enumerate(new)}
    file.executemany("INSERT INTO workers VALUES (?, ?)", ((known[name], name) for name in new))
    return np.array([known[name] for name in who], dtype=np.int64)


def _entry_with(file: sqlite3.Connection, key: str) -> tuple[int, str] | None:
    """Return number and state of the entry of repeatable work that is spent, or else reserved; None where none is."""
    for state in (SPENT, RESERVED) if key else ():
        found = file.execute("SELECT number FROM entries WHERE state = ? AND key = ?", (state, key)).fetchone()
        if found is not None:
            return int(found["number"]), state
    return None


def _state(file: sqlite3.Connection, number: int) -> str:
    row = file.execute("SELECT state FROM entries WHERE number = ?", (number,)).fetchone()
    return "" if row is None else str(row["state"])


def _new_entry(file: sqlite3.Connection, request: Request, who: Integers | None) -> int:
    values = (RESERVED, request.about, request.key, json.dumps(request.details), _now())
    places = None if who is None else packed(who.astype(np.int64))
    made = file.execute(
        "INSERT INTO entries (state, about, key, details, reserved_at, who) VALUES (?, ?, ?, ?, ?, ?)",
        (*values, places),
    )
    return int(made.lastrowid or 0)


def _write_losses(file: sqlite3.Connection, number: int, losses: Mapping[str, Loss]) -> None:
    rows = [(number, name, *(packed(loss.parts[part]) for part in PARTS)) for name, loss in losses.items()]
    file.executemany("INSERT INTO losses VALUES (?, ?, ?, ?, ?)", rows)


def _spend(file: sqlite3.Connection, number: int, workers: int, reason: str) -> None:
    """Add an entry to what is spent for good."""
    who = _who_of(file, number)
    for row in file.execute("SELECT * FROM losses WHERE entry = ?", (number,)).fetchall():
        total = _added(_spent_for_good(file, row["adversary"], workers), _loss(row), who)
        values = (*(packed(total.parts[part]) for part in PARTS), row["adversary"])
        file.execute(f"UPDATE budgets SET {', '.join(f'{each} = ?' for each in _COLUMNS)} WHERE adversary = ?", values)
    ended = (SPENT, _now(), reason, number)
    file.execute("UPDATE entries SET state = ?, ended_at = ?, reason = ? WHERE number = ?", ended)


def _spent(file: sqlite3.Connection, adversary: str, workers: int, without: Sequence[int] = ()) -> Loss:
    """Return what each worker has spent, with all that is reserved but for the entries that are left out."""
    total = _spent_for_good(file, adversary, workers)
    reserved = file.execute(
        "SELECT losses.*, who FROM losses JOIN entries ON entry = number WHERE state = 'reserved' AND adversary = ?",
        (adversary,),
    )
    for row in reserved:
        if row["entry"] not in without:
            total = _added(total, _loss(row), _who(row))
    return total


def _spent_for_good(file: sqlite3.Connection, adversary: str, workers: int) -> Loss:
    row = file.execute("SELECT * FROM budgets WHERE adversary = ?", (adversary,)).fetchone()
    parts = {}
    for name, column in zip(PARTS, _COLUMNS, strict=True):
        parts[name] = np.zeros(workers)
        values = unpacked(row[column])
        parts[name][: len(values)] = values  # those who came by name since then have spent nothing
    return Loss(**parts)


def _who_of(file: sqlite3.Connection, number: int) -> Integers | None:
    return _who(file.execute("SELECT who FROM entries WHERE number = ?", (number,)).fetchone())


def _who(row: sqlite3.Row) -> Integers | None:
    return None if row["who"] is None else unpacked(row["who"], np.int64)


def _loss(row: sqlite3.Row) -> Loss:
    return Loss(**{part: unpacked(row[part]) for part in PARTS})


def _entry(file: sqlite3.Connection, row: sqlite3.Row) -> Entry:
    losses = file.execute("SELECT * FROM losses WHERE entry = ? ORDER BY adversary", (row["number"],))
    who = _who(row)
    return Entry(
        **{name: row[name] for name in ("number", "state", "about", "reserved_at", "ended_at", "reason")},
        workers=None if who is None else len(who),
        details=json.loads(row["details"]),
        largest={
            each["adversary"]: {name: float(part.max(initial=0.0)) for name, part in _loss(each).parts.items()}
            for each in losses
        },
    )
