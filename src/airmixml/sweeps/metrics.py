"""Metrics of a cell by name: the numbers and words of a command's JSON, with dots between the levels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args, get_origin, get_type_hints

from airmixml.doors import ADVERSARIES, ATTACKS
from airmixml.errors import ScenarioError
from airmixml.sweeps.batches import Metric
from airmixml.wording import did_you_mean, shown_name

if TYPE_CHECKING:
    from airmixml.attacks.attack_report import CaseResult
    from airmixml.audit import AuditResult
    from airmixml.runs.results import RunResult

Metrics = dict[str, Metric]

# What the tables show unless asked for others, as far as there is such a metric.
DEFAULT_METRICS: Final = {
    "run": (
        *("accuracy.final", "scores.r2", "scores.rmse", "scores.labels_right"),  # by the task
        *("epsilon", "epsilon_server", "energy_joules", "snr_db"),
    ),
    "attack": ("grade", "server.recognised_share", "server.copied_share", "release.linkage.auc", "claimed.server"),
    "audit": ("epsilon_lower", "epsilon_claimed", "caught"),
}
# Of a run: what is no result, what has a name of its own here, and what has many numbers.
_NOT_OF_RUN: Final = (
    "name",
    "seed",
    "air",
    "privacy",
    "row_privacy",
    "row_statements",
    "versions",
    "run_dir",
    "device",
    "ledger.histogram",
)
_STATED: Final = ("delta", "adversary", "adjacency", "accountant")
# What follows depends on the data, or on other packages.
_OPEN_NAMES: Final = {"run": ("scores.",), "attack": ("other_attacks.",), "audit": ()}
_NOT_OF_ATTACK: Final = ("label", "name", "air", "scenario", "left_out", "verdict")
_OF_AUDIT: Final = ("epsilon_lower", "epsilon_claimed", "caught", "confidence", "delta", "adversary", "adjacency")


def run_metrics(result: RunResult) -> Metrics:
    """Return the metrics of a run.

    ``epsilon`` is the scenario's own statement. ``epsilon_ADVERSARY`` is the least that any accountant states against
    that adversary, for the same neighbours and delta; ``epsilon_row`` holds for a row of data on several workers.
    """
    own = result.privacy[0]
    found: Metrics = {name: value for name, value in _flat(result.to_dict()) if not _is_one_of(name, _NOT_OF_RUN)}
    found |= {"epsilon": own.epsilon, **{name: getattr(own, name) for name in _STATED}}
    for stated in result.privacy:
        if (stated.adjacency, stated.delta) == (own.adjacency, own.delta):
            name = f"epsilon_{stated.adversary}"
            known = found.get(name)
            found[name] = min(stated.epsilon, known) if isinstance(known, float) else stated.epsilon
    if result.row_privacy is not None:
        found["epsilon_row"] = result.row_privacy.epsilon
    return found


def attack_metrics(case: CaseResult) -> Metrics:
    """Return the metrics of attacks; ``server.X`` is figure X of the server's best attack, others by their names."""
    found: Metrics = {name: value for name, value in _flat(case.to_dict()) if not _is_one_of(name, _NOT_OF_ATTACK)}
    if case.server is not None:
        found |= {f"server.{name}": value for name, value in _flat(case.server.best.findings.to_dict())}
    return found


def audit_metrics(result: AuditResult) -> Metrics:
    """Return the metrics of an audit: those of the scenario's own adversary, then of each that was audited."""
    plain = result.to_dict()
    found: Metrics = {name: plain[name] for name in _OF_AUDIT}
    for each in plain["audits"]:
        found |= {f"{each['adversary']}.{name}": each[name] for name in ("epsilon_lower", "epsilon_claimed", "caught")}
    found |= {f"noise_check.{name}": value for name, value in _flat(plain["noise_check"])}
    return {**found, "seconds": plain["seconds"]}


def check_metrics(asked: Iterable[str], command: str) -> None:
    """Refuse a metric that no cell of the command can have, before anything is run."""
    known = sorted(set(_names_of(command)))
    for name in asked:
        if name not in known and not name.startswith(_OPEN_NAMES[command]):
            raise ScenarioError(
                f"--metric {shown_name(name)}: airmix {command} has none of that name{did_you_mean(name, known)}"
            )


def _names_of(command: str) -> Iterator[str]:
    """Return the names of all metrics that a command may give."""
    yield from ("seconds", *DEFAULT_METRICS[command])
    if command == "run":
        from airmixml.runs.results import RunResult

        yield from (name for name in _fields_of(RunResult) if not _is_one_of(name, _NOT_OF_RUN))
        yield from (*_STATED, "epsilon_row", *(f"epsilon_{name}" for name in ADVERSARIES.names))
    elif command == "attack":
        yield from ("workers", "slots", "scheduled", "server.best", "server.grade")
        yield from (f"claimed.{name}" for name in ("delta", "adjacency", *ADVERSARIES.names))
        yield from ("copies", *(f"claimed_per_row.{name}" for name in ADVERSARIES.names))
        for attack in ATTACKS.names:
            one = ATTACKS.load(attack)
            groups = ("server", f"server.methods.{attack}") if one.adversary == "server" else (attack,)
            if one.findings.kind == "informed":
                groups = (f"informed.{one.adversary}",)
            names = (*_fields_of(one.findings), "seconds", "grade")
            yield from (f"{group}.{name}" for group in groups for name in names)
    else:
        from airmixml.audit.noise_check import NoiseCheck

        yield from _OF_AUDIT
        yield from (f"noise_check.{name}" for name in (*_fields_of(NoiseCheck), "passed", "why_not"))
        for adversary in ("release", "server"):
            yield from (f"{adversary}.{name}" for name in ("epsilon_lower", "epsilon_claimed", "caught"))


def _fields_of(kind: Any, prefix: str = "") -> Iterator[str]:
    """Return the names of all plain fields of a dataclass, with those of dataclasses in it."""
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is ClassVar:
            continue
        inner = next((each for each in get_args(hint) if is_dataclass(each)), hint) if _is_union(hint) else hint
        if is_dataclass(inner):
            yield from _fields_of(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _is_union(hint: Any) -> bool:
    return get_origin(hint) is UnionType


def _is_one_of(name: str, names: Iterable[str]) -> bool:
    """Return whether it is one of the names, or lies below one."""
    return any(name == each or name.startswith(f"{each}.") for each in names)


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Metric]]:
    """Return the numbers and words of nested dictionaries; lists are left out, and what is no number is None."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float | str) or value is None:
            yield f"{prefix}{name}", None if isinstance(value, float) and math.isnan(value) else value
