"""A ledger that lasts: what each worker has spent over all runs and mechanisms, and what it may still spend.

A mechanism is *reserved* before anything is sent: if it would pass a worker's budget, nothing is written, and nothing
may be sent. Afterwards the reservation becomes what was really *spent*. A process that dies in between leaves the
reservation, which counts in full until a person says whether anything was sent (``settle``) or not (``release``).
"""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from airmixml.arrays import Integers
from airmixml.budgets.file import MODES, PROTECTION, create_file
from airmixml.budgets.rows import RELEASED, RESERVED, SPENT, Entry, People, Rows, added, finite, open_rows
from airmixml.budgets.rules import PARTS, Budget, Loss, loss_to, root_up
from airmixml.messages import LedgerError, NameWarning, PrivacyError, against, plural, private, shown, shown_name
from airmixml.names import similar_names
from airmixml.privacy.gaussian import ADJACENCIES

_PAIRS_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A mechanism that is to be run, or was run."""

    about: str  #: what it is, in words
    #: Adversary to what each of its workers loses to it; of the shape of ``who``, or 1.
    losses: Mapping[str, Loss | None]
    #: Numbers, or names, of the workers that take part, each once; None for all of a ledger by number.
    who: Integers | tuple[str, ...] | None = None
    delta: float = 0.0  #: at which an epsilon that would still fit is named
    workers_each: Integers | None = None  #: on how many workers of the mechanism each of ``who`` is; None for one
    key: str = ""  #: of work that repeats itself exactly when it is done again; empty where it does not
    details: dict[str, Any] = field(default_factory=dict)  #: plain values for the history


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

    def summary(self, top: int) -> dict[str, Any]:
        """Return budget, spread and the fullest workers as plain values."""
        budget, epsilons = self.budget, self.budget.epsilons(self.spent)
        return {
            "adversary": self.adversary,
            **asdict(budget),
            "workers": len(epsilons),
            "over_budget": int((epsilons > budget.epsilon * (1.0 + 1e-9)).sum()),
            "median_spent": finite(np.median(epsilons)) if len(epsilons) else 0.0,
            "fullest": [
                {
                    "worker": self.name_of(place),
                    "spent": finite(epsilons[place]),
                    "left": budget.epsilon_left(self.spent.of_workers([place]), delta=budget.delta),
                    **{name: float(part[place]) for name, part in self.spent.parts.items()},
                }
                for place in np.argsort(-epsilons, kind="stable")[:top].tolist()
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each worker, for CSV and JSON."""
        epsilons, spent = self.budget.epsilons(self.spent), self.spent
        return [
            {
                "worker": self.name_of(place),
                "adversary": self.adversary,
                "budget_epsilon": self.budget.epsilon,
                "budget_delta": self.budget.delta,
                "epsilon_spent": finite(epsilons[place]),
                "squared_mu": float(spent.squared_mu[place]),
                "epsilon_of_rest": float(spent.epsilon[place]),
                "delta_of_rest": float(spent.delta[place]),
            }
            for place in range(len(epsilons))
        ]


class LedgerFile:
    """A ledger in a file; every method is one transaction, and no connection stays open in between."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._own: dict[int, Request] = {}  # what this object has reserved, by the number of its entry

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
        strict_names: bool = False,
    ) -> Self:
        """Create a ledger with the same budget against each adversary; without ``people`` the first run says whose.

        With ``strict_names`` a new name that looks like another one's is refused, not only warned of.
        """
        budget = Budget(epsilon=epsilon, delta=delta)
        if adjacency not in ADJACENCIES:
            raise LedgerError(f"adjacency = {shown(adjacency)}: must be one of {', '.join(ADJACENCIES)}")
        if mode not in MODES:
            raise LedgerError(f"mode = {shown(mode)}: must be one of {', '.join(MODES)}")
        if not adversaries:
            raise LedgerError("adversaries: a ledger keeps a budget against at least one")
        facts: dict[str, Any] = {"adjacency": adjacency, "mode": mode}
        facts |= {"strict_names": 1} if strict_names else {}
        facts |= {} if people is None else asdict(people)
        ledger = cls(path)
        create_file(ledger.path, lambda file: Rows(file).create(budget, adversaries, **facts))
        return ledger

    def facts(self) -> dict[str, Any]:
        """Return what the ledger is about: mode, adjacency, people, budgets."""
        with open_rows(self.path, write=False) as rows:
            return {**rows.facts(), "workers": rows.workers}

    def plain_facts(self) -> dict[str, Any]:
        """Return the same as plain values."""
        facts = self.facts()
        people = None if facts["people"] is None else str(facts["people"])
        return {**facts, "people": people, "budgets": {name: asdict(each) for name, each in facts["budgets"].items()}}

    def check_kind(self, *, mode: str, adjacency: str, protect: str = "") -> None:
        """Refuse a mechanism of the other mode, which ``protect`` says how to change, or one for other neighbours."""
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
        with open_rows(self.path, write=False) as rows:
            return [
                Standing(adversary=name, budget=budget, spent=rows.spent(name), names=tuple(rows.names))
                for name, budget in rows.budgets().items()
            ]

    def reserve(
        self, requests: Sequence[Request], people: People, *, already_sent: bool = False, check_only: bool = False
    ) -> list[int]:
        """Reserve all requests or none, and return the numbers of their entries.

        What was ``already_sent`` is spent at once and never refused: a loss that happened is a fact. Work that repeats
        itself (``Request.key``) costs nothing more: it gets the entry that it has. With ``check_only`` nothing is
        written.
        """
        # Without a key of its own an entry gets one that no other has: numbers come again when a copy is restored.
        keyed = [replace(each, key=each.key or f"entry-{secrets.randbits(64)}") for each in requests]
        with open_rows(self.path, write=True) as rows:
            numbers = self._reserve(rows, keyed, people, already_sent=already_sent)
            adversaries = list(rows.budgets())
            if check_only:
                rows.undo()
        if not (check_only or already_sent):
            for number, each in zip(numbers, keyed, strict=True):
                self._own[number] = replace(each, losses={name: loss_to(name, each.losses) for name in adversaries})
        return numbers

    def _reserve(self, rows: Rows, requests: Sequence[Request], people: People, *, already_sent: bool) -> list[int]:
        strict = self._bind(rows, people)
        known_names = list(rows.names)
        placed = [(each, rows.places(each.who, people)) for each in requests]
        workers = rows.workers
        for request, who in placed:
            _check_shapes(request.losses, workers if who is None else len(who))
        known = {each.key: found for each in requests if (found := rows.entry_with(each.key)) is not None}
        reserved = [number for number, state in known.values() if state == RESERVED]
        unspent = [(each, who) for each, who in placed if known.get(each.key, (0, ""))[1] != SPENT]
        for adversary, budget in {} if already_sent or not unspent else rows.budgets().items():
            self._check(rows, adversary, budget, rows.spent(adversary, without=reserved), unspent)
        new_names = list(rows.names)[len(known_names) :]
        self._check_names(rows, similar_names(new_names, known_names), strict=strict and not already_sent)
        numbers = []
        for request, who in placed:
            number, state = known.get(request.key, (0, ""))
            if not number:
                details = json.dumps(request.details)
                number = rows.write_entry(who, about=request.about, key=request.key, details=details)
                rows.write_losses(number, request.losses)
            if already_sent and state != SPENT:
                rows.spend(number, "")
            numbers.append(number)
        return numbers

    def settle(
        self, number: int, losses: Mapping[str, Loss | None] | None = None, *, reason: str = "", repeated: bool = False
    ) -> None:
        """Replace a reservation by what was really spent; without ``losses`` that is all that was reserved.

        What may be ``repeated`` work is left as it is where it is settled already. What this object reserved counts
        even if it was settled or released elsewhere in the meantime: a loss that happened is a fact.
        """
        request = self._own.get(number)
        if request is not None and not self.path.exists():
            raise self._uncounted(number, request, losses)
        with open_rows(self.path, write=True) as rows:
            state, key, released = rows.texts_of(number)
            if request is not None and key != request.key:
                raise self._uncounted(number, request, losses)
            if (repeated or request is not None) and state == SPENT:
                self._own.pop(number, None)
                return
            if request is not None and state == RELEASED:
                reason = reason or f"sent after all; it was released: {released}"
            else:
                self._require_reserved(rows, number)
            if losses is not None:
                who = rows.who_of(number)
                _check_shapes(losses, rows.workers if who is None else len(who))
                rows.write_losses(number, losses)
            rows.spend(number, reason)
        self._own.pop(number, None)

    def release(self, number: int, *, reason: str) -> None:
        """Give a reservation back, since nothing was sent: only a person can know that, and says why."""
        if not reason.strip():
            raise LedgerError("reason: must say why nothing of this entry was sent; give it")
        with open_rows(self.path, write=True) as rows:
            self._require_reserved(rows, number)
            rows.end_entry(number, RELEASED, reason)
        self._own.pop(number, None)

    def entries(self) -> list[Entry]:
        """Return the history, oldest first."""
        with open_rows(self.path, write=False) as rows:
            return rows.entries()

    def _uncounted(self, number: int, request: Request, losses: Mapping[str, Loss | None] | None) -> LedgerError:
        """Return what a person must count by hand: it was sent, and its reservation is gone."""
        sent = [loss_to(name, losses or request.losses).worst() for name in request.losses]
        mu2, epsilon, delta = (max(float(loss.parts[part][0]) for loss in sent) for part in PARTS)
        options = [f"--mu {float(root_up(mu2))!r}"] * bool(mu2)
        options += [f"--epsilon {epsilon!r} --delta {delta!r}"] * bool(epsilon or delta)
        adversary = next(iter(request.losses)) if len(sent) == 1 else "everyone"
        return LedgerError(
            f"{self.path}: has entry {number} of {shown(request.about)} no more, and this was sent; count it for all "
            f"who took part: airmix ledger spend {self.path} --already-sent --adversary {adversary} --about ... "
            f"{', and the same with '.join(options) or '--mu 0'}"
        )

    def _require_reserved(self, rows: Rows, number: int) -> None:
        state, _, _ = rows.texts_of(number)
        if not state:
            raise LedgerError(f"{self.path}: has no entry {shown(number)}; `airmix ledger history` lists them")
        if state != RESERVED:
            raise LedgerError(f"{self.path}: entry {number} is {state} already; only a reserved one can change")

    def _bind(self, rows: Rows, people: People) -> bool:
        """Note whose losses these are; refuse other people's. Return whether names must not look alike."""
        facts = rows.facts()
        if facts["people"] is None:
            rows.set_facts(**asdict(people))
        elif facts["people"] != people:
            raise LedgerError(
                f"{self.path}: is about {facts['people']}; this is about {people}: use another ledger, since losses of "
                "different people do not add up"
            )
        return bool(facts["strict_names"])

    def _check_names(self, rows: Rows, pairs: Sequence[tuple[str, str]], *, strict: bool) -> None:
        """Warn of names that look like another one's, or refuse them; a log has no names that are protected."""
        if not pairs:
            return
        told = ", ".join(f"{shown(one)} and {shown(other)}" for one, other in pairs[:_PAIRS_SHOWN])
        more = f" (and {len(pairs) - _PAIRS_SHOWN:,} more)" if len(pairs) > _PAIRS_SHOWN else ""
        said = LedgerError(
            f"{self.path}: {private(told + more, plural(len(pairs), 'pair') + ' of names')} look like one person, and "
            f"each name has a budget of its own; spell a name always the same{'; nothing was sent' if strict else ''}"
        )
        if strict:
            raise said
        protected = rows.facts()["mode"] == PROTECTION
        warnings.warn(said.public if protected else str(said), NameWarning, stacklevel=4)

    def _check(
        self, rows: Rows, adversary: str, budget: Budget, spent: Loss, placed: Sequence[tuple[Request, Integers | None]]
    ) -> None:
        """Raise a PrivacyError that names the fullest worker if the requests together pass any budget."""
        workers, after = len(spent.squared_mu), spent
        for request, who in placed:
            after = added(after, loss_to(adversary, request.losses), who)
        passed = np.flatnonzero(~budget.keeps(after))
        if not len(passed):
            return
        fullest = int(passed[budget.fullest(after.of_workers(passed))])
        own = Loss.nothing(workers)
        for request, who in placed:
            own = added(own, loss_to(adversary, request.losses), who)
        before, adds, total = (budget.epsilons(each.of_workers([fullest]))[0] for each in (spent, own, after))
        others = f" (and {len(passed) - 1:,} more would)" if len(passed) > 1 else ""
        # A sum is rounded up: ten tenths are just above 1.
        near = "just above " if f"{total:.6g}" == f"{budget.epsilon:.6g}" else ""
        left = _advice(budget, adversary, spent.of_workers([fullest]), own.of_workers([fullest]), placed, fullest)
        raise PrivacyError(
            f"{self.path}: {private(f'worker {shown_name(rows.name_of(fullest))}', 'a worker')} would pass its budget "
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


def _check_shapes(losses: Mapping[str, Loss | None], workers: int) -> None:
    """Refuse losses that are neither one for all who take part nor one for each of them."""
    for adversary, loss in losses.items():
        for name, part in {} if loss is None else loss.parts.items():
            if len(part) not in (1, workers):
                raise LedgerError(
                    f"{name} of the loss to {adversary}: has {len(part):,} numbers; must have one, or one for each "
                    f"worker that takes part ({workers:,})"
                )
