"""What ``airmix sweep`` does with a cell of a grid: one class for each command that can be swept."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from airmixml.data import DataSet, known_dataset
from airmixml.errors import ScenarioError
from airmixml.registries import ADVERSARIES, ATTACKS
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.streams import Streams
from airmixml.sweeps.batches import Part, Place, mixture_bytes, most_in_memory
from airmixml.sweeps.cells import CellKind, Metrics, fields_of, flat
from airmixml.wording import did_you_mean, shown

if TYPE_CHECKING:
    from airmixml.attacks.case_result import CaseResult
    from airmixml.audit import AuditResult, AuditSettings
    from airmixml.runs.results import RunResult

_MOST_IN_CLOSED_FORM: Final = 16  # each holds only its moments
# What is no result, what has a name of its own here, and what has many numbers.
_LEFT_OUT_OF_RUNS: Final = (
    *("name", "seed", "air", "privacy", "row_privacy", "row_statements", "versions", "run_dir", "device"),
    "ledger.histogram",
)
_STATED_OF_RUNS: Final = ("delta", "adversary", "adjacency", "accountant")
_LEFT_OUT_OF_ATTACKS: Final = ("label", "name", "air", "scenario", "left_out", "verdict", "details", "also", "words")
_SHOWN_OF_AUDITS: Final = ("epsilon_lower", "epsilon_claimed", "caught")
_STATED_OF_AUDITS: Final = (*_SHOWN_OF_AUDITS, "confidence", "delta", "adversary", "adjacency")


@dataclass(frozen=True)
class RunCells(CellKind):
    """``airmix run``: cells that share their draws are sent at once, and each learns what it would learn alone."""

    name: ClassVar[str] = "run"
    options: ClassVar[tuple[str, ...]] = ("ledger",)
    default_metrics: ClassVar[tuple[str, ...]] = (
        *("accuracy.final", "scores.r2", "scores.rmse", "scores.labels_right"),  # by the task
        *("epsilon", "epsilon_server", "energy_joules", "snr_db"),
    )
    open_names: ClassVar[tuple[str, ...]] = ("scores.",)

    def group(self, scenario: Scenario) -> Hashable:
        """Return what decides the draws; a mean that is estimated over the air depends on the target."""
        from airmixml.radio.draws import draws_key

        closed_form = scenario.learner.closed_form
        return scenario if scenario.workers.centre_on_air else (draws_key(scenario), closed_form)

    def most_at_once(self, scenario: Scenario, device: str) -> int:
        """Return how many have room at once; 1 for networks on data of unknown size."""
        if scenario.learner.closed_form:
            return _MOST_IN_CLOSED_FORM
        return 1 if known_dataset(scenario.workers.dataset) is None else most_in_memory(scenario, device)

    def bytes_needed(self, part: Part) -> int:
        """Return the memory of the mixtures of a network on data of known size."""
        (scenario,) = part.scenarios
        sized = not scenario.learner.closed_form and known_dataset(scenario.workers.dataset) is not None
        return mixture_bytes(scenario) if sized else 0

    def metric_names(self) -> Iterator[str]:
        """Return the fields of a run's result, and the epsilon against each adversary."""
        from airmixml.runs.results import RunResult

        yield from fields_of(RunResult, _LEFT_OUT_OF_RUNS)
        yield from (*_STATED_OF_RUNS, "epsilon_row", *(f"epsilon_{name}" for name in ADVERSARIES.names))

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Metrics]:
        """Send all at once, then learn one after the other."""
        import torch

        from airmixml.edge.training import learn_family
        from airmixml.runs.experiment import result_of

        first, scenarios = parts[0], [part.scenarios[0] for part in parts]
        made_with = f"{first.device} torch {torch.__version__}"
        checkpoints = [place.checkpoint(part, made_with) for part in parts]
        began = time.perf_counter()
        dataset = _dataset(scenarios[0].workers, scenarios[0].seed, first.data, place.data_dir, first.device)
        loading_seconds = (time.perf_counter() - began) / len(parts)
        for learned in learn_family(scenarios, dataset=dataset, context=context, checkpoints=checkpoints):
            seconds = loading_seconds + learned.over_the_air_seconds + learned.training_seconds
            yield _run_metrics(result_of(learned, seconds=seconds, device=first.device))


@lru_cache(maxsize=1)
def _dataset(workers: Workers, seed: int, _digest: str, data_dir: Path | None, device: str) -> DataSet:
    """Return the encoded data; the last are kept, since the cells of one seed follow each other."""
    from airmixml.workers import load_dataset

    return load_dataset(workers, Streams(seed), data_dir=data_dir, device=device)


def _run_metrics(result: RunResult) -> Metrics:
    """Return the metrics of a run.

    ``epsilon`` is the scenario's own statement. ``epsilon_ADVERSARY`` is the least that any accountant states against
    that adversary, for the same neighbours and delta; ``epsilon_row`` holds for a row of data on several workers.
    """
    own = result.privacy[0]
    found = flat(result.to_dict(), _LEFT_OUT_OF_RUNS)
    found |= {"epsilon": own.epsilon, **{name: getattr(own, name) for name in _STATED_OF_RUNS}}
    for stated in result.privacy:
        if (stated.adjacency, stated.delta) == (own.adjacency, own.delta):
            name = f"epsilon_{stated.adversary}"
            known = found.get(name)
            found[name] = min(stated.epsilon, known) if isinstance(known, float) else stated.epsilon
    if result.row_privacy is not None:
        found["epsilon_row"] = result.row_privacy.epsilon
    return found


@dataclass(frozen=True)
class AttackCells(CellKind):
    """``airmix attack`` with the attacks of these names."""

    name: ClassVar[str] = "attack"
    options: ClassVar[tuple[str, ...]] = ("attacks",)
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
        yield {**_attack_metrics(found), "seconds": time.perf_counter() - began}


def _attack_metrics(case: CaseResult) -> Metrics:
    """Return the metrics of attacks; ``server.X`` is figure X of the server's best attack, others by their names."""
    found = flat(case.to_dict(), _LEFT_OUT_OF_ATTACKS)
    if case.server is not None:
        found |= flat(case.server.best.findings.to_dict(), prefix="server.")
    return found


@dataclass(frozen=True)
class AuditCells(CellKind):
    """``airmix audit`` with these settings."""

    name: ClassVar[str] = "audit"
    options: ClassVar[tuple[str, ...]] = ("audit",)
    default_metrics: ClassVar[tuple[str, ...]] = _SHOWN_OF_AUDITS
    note: ClassVar[str] = "the confidence holds for each cell; among many cells some may be refuted by chance"
    settings: AuditSettings

    @classmethod
    def of(cls, *, audit: AuditSettings | None = None, **_others: Any) -> Self:
        """Return the kind for these settings, or the default ones."""
        from airmixml.audit import AuditSettings

        settings = audit or AuditSettings()
        return cls(replace(settings, adversaries=tuple(settings.adversaries)))

    @property
    def asked(self) -> str:
        """The settings, as JSON."""
        return json.dumps({**vars(self.settings), "fault": self.settings.fault.name}, sort_keys=True)

    def metric_names(self) -> Iterator[str]:
        """Return the bounds against each adversary, and what the check of the noise says."""
        from airmixml.audit.noise_check import NoiseCheck

        yield from _STATED_OF_AUDITS
        yield from (f"noise_check.{name}" for name in (*fields_of(NoiseCheck), "passed", "why_not"))
        yield from (f"{adversary}.{name}" for adversary in ("release", "server") for name in _SHOWN_OF_AUDITS)

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Metrics]:
        """Audit one cell."""
        from airmixml.audit.auditor import audit_scenario
        from airmixml.audit.trials import Keeper

        (part,) = parts
        (scenario,) = part.scenarios
        self.settings.check(scenario)
        keeper = Keeper(place.beginnings(part))
        yield _audit_metrics(audit_scenario(scenario, self.settings, context=context, keeper=keeper, run_dir=Path()))


def _audit_metrics(result: AuditResult) -> Metrics:
    """Return the metrics of an audit: those of the scenario's own adversary, then of each that was audited."""
    plain = result.to_dict()
    found: Metrics = {name: plain[name] for name in _STATED_OF_AUDITS}
    for each in plain["audits"]:
        found |= {f"{each['adversary']}.{name}": each[name] for name in _SHOWN_OF_AUDITS}
    return {**found, **flat(plain["noise_check"], prefix="noise_check."), "seconds": plain["seconds"]}


CELL_KINDS: Final[dict[str, type[CellKind]]] = {kind.name: kind for kind in (RunCells, AttackCells, AuditCells)}
"""The commands that can be swept, and what they do with a cell."""


def kind_of(command: str, **options: Any) -> CellKind:
    """Return what the command does with a cell; refuse options of another command."""
    check_word("command", command, tuple(CELL_KINDS))
    for name, given in options.items():
        owner = next(kind.name for kind in CELL_KINDS.values() if name in kind.options)
        if given is not None and owner != command:
            raise ScenarioError(f"--{name}: belongs to --command {owner}, not to {command}; leave it out")
    return CELL_KINDS[command].of(**options)


def check_word(option: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a word that an option does not take."""
    if value not in allowed:
        raise ScenarioError(
            f"--{option} = {shown(value)}: must be one of {', '.join(allowed)}{did_you_mean(str(value), allowed)}"
        )
