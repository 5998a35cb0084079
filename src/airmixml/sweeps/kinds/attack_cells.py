"""Cells of ``airmix attack``: each is attacked alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from airmixml.registries import ADVERSARIES, ATTACKS
from airmixml.scenario import RunContext
from airmixml.sweeps.batches import Part, Place
from airmixml.sweeps.kinds.cells import CellKind, Metrics, fields_of, flat

if TYPE_CHECKING:
    from airmixml.attacks.attack_report import CaseResult

_LEFT_OUT: Final = ("label", "name", "air", "scenario", "left_out", "verdict")


@dataclass(frozen=True)
class AttackCells(CellKind):
    """Attacks scenarios.

    Attributes:
        attacks: names of the attacks.
    """

    name: ClassVar[str] = "attack"
    default_metrics: ClassVar[tuple[str, ...]] = (
        *("grade", "server.recognised_share", "server.copied_share", "release.linkage.auc", "claimed.server"),
    )
    open_names: ClassVar[tuple[str, ...]] = ("other_attacks.",)
    attacks: tuple[str, ...]

    @classmethod
    def of(cls, *, attacks: Sequence[str] | None = None, **_others: Any) -> Self:
        """Return the kind for attacks of these names, all without any; refuse names that do not exist."""
        from airmixml.attacks import choose_parts

        return cls(tuple(choose_parts(None if attacks is None else ",".join(attacks))))

    @property
    def asked(self) -> str:
        """The attacks, as JSON."""
        return json.dumps({"attacks": list(self.attacks)})

    def metric_names(self) -> Iterator[str]:
        """Return the claims, and the figures of every attack that exists."""
        yield from ("workers", "slots", "scheduled", "server.best", "server.grade")
        yield from (f"claimed.{name}" for name in ("delta", "adjacency", *ADVERSARIES.names))
        yield from ("copies", *(f"claimed_per_row.{name}" for name in ADVERSARIES.names))
        for attack in ATTACKS.names:
            one = ATTACKS.load(attack)
            groups = {
                "server": ("server", f"server.methods.{attack}"),
                "listener": (attack,),
                "informed": (f"informed.{one.adversary}",),
            }.get(one.findings.kind, (f"other_attacks.{attack}",))
            names = (*fields_of(one.findings), "seconds", "grade")
            yield from (f"{group}.{name}" for group in groups for name in names)

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Metrics]:
        """Attack one cell."""
        from airmixml.attacks.attack_cases import Case, attack_each, check_attackable

        (part,) = parts
        (scenario,) = part.scenarios
        case = Case(label=scenario.name, scenario=scenario)
        check_attackable([case], self.attacks)
        began = time.perf_counter()
        with ExitStack() as stack:
            folder = place.beginnings(part) or Path(stack.enter_context(TemporaryDirectory()))
            (found,) = attack_each([case], self.attacks, folder=folder, context=context)
        yield {**attack_metrics(found), "seconds": time.perf_counter() - began}


def attack_metrics(case: CaseResult) -> Metrics:
    """Return the metrics of attacks; ``server.X`` is figure X of the server's best attack, others by their names."""
    found = flat(case.to_dict(), _LEFT_OUT)
    if case.server is not None:
        found |= flat(case.server.best.findings.to_dict(), prefix="server.")
    return found
