"""What is done with scenarios: cells of a grid, each by itself, and many scenarios of one seed at once.

A cell is what a command gives for one scenario, in memory, as metrics by name. A metric is a number or word of the
command's JSON, with dots between the levels. There is one class for each command that can be swept. For the paper's
tables there are energies, and networks that are trained as one stack.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airmixml.data import DataSet
from airmixml.engines.processes import Tell
from airmixml.messages import AirMixError, ScenarioError, did_you_mean, one_line, shown
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.streams import Streams
from airmixml.sweeps.batches import Kind, Outcome, Part, Place, dimensions, may_be_mended, silent_share
from airmixml.workers import load_dataset

if TYPE_CHECKING:
    from airmixml.audit import AuditSettings

# What is no result, what has a name of its own here, and what has many numbers.
_LEFT_OUT_OF_RUNS: Final = (
    *("name", "seed", "air", "privacy", "row_privacy", "row_statements", "versions", "run_dir", "device"),
)
_STATED_OF_RUNS: Final = ("delta", "adversary", "adjacency", "accountant")
_LEFT_OUT_OF_ATTACKS: Final = ("name", "seed", "mode", "left_out", "verdict", "device", "run_dir")
_SHOWN_OF_AUDITS: Final = ("epsilon_lower", "epsilon_claimed", "caught")
_STATED_OF_AUDITS: Final = (*_SHOWN_OF_AUDITS, "confidence", "delta", "adversary", "adjacency")

Metric = float | int | bool | str | None
Metrics = dict[str, Metric]


def flat(values: dict[str, Any], leave_out: Iterable[str] = (), prefix: str = "") -> Metrics:
    """Return the numbers and words of nested dictionaries; lists are left out, and what is no number is None.

    Names in ``leave_out`` are left out, with all that lies below them.
    """
    found: Metrics = {}
    for name, value in values.items():
        if f"{prefix}{name}" in leave_out:
            continue
        if isinstance(value, dict):
            found |= flat(value, leave_out, f"{prefix}{name}.")
        elif isinstance(value, int | float | str) or value is None:
            found[f"{prefix}{name}"] = None if isinstance(value, float) and math.isnan(value) else value
    return found


@dataclass(frozen=True)
class RunCells(Kind):
    """``airmix run``: cells that share their draws are sent at once, and each learns what it would learn alone.

    ``epsilon`` is the scenario's own statement. ``epsilon_ADVERSARY`` is the least that any accountant states against
    that adversary, for the same neighbours and delta; ``epsilon_row`` holds for a row of data on several workers.
    """

    name: ClassVar[str] = "run"
    default_metrics: ClassVar[tuple[str, ...]] = (
        *("accuracy.final", "scores.r2", "scores.rmse", "scores.labels_right"),  # by the task
        *("epsilon", "epsilon_server", "energy_joules", "snr_db"),
    )

    def group(self, scenario: Scenario) -> Hashable:
        from airmixml.radio.draws import draws_key

        closed_form = scenario.learner.closed_form
        # A mean that is estimated over the air depends on the target.
        return scenario if scenario.workers.centre_on_air else (draws_key(scenario), closed_form)

    def first_names(self) -> set[str]:
        from airmixml.runs.results import RunResult

        names = {each.name for each in fields(RunResult)}.difference(_LEFT_OUT_OF_RUNS)
        return {"epsilon", *_STATED_OF_RUNS, *names}

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Outcome]:
        import torch

        from airmixml.edge.training import learn_family
        from airmixml.runs.results import result_of

        first, scenarios = parts[0], [part.scenarios[0] for part in parts]
        made_with = f"{first.device} torch {torch.__version__}"
        checkpoints = [place.checkpoint(part, made_with) for part in parts]
        began = time.perf_counter()
        dataset = _dataset(scenarios[0].workers, scenarios[0].seed, first.data, place.data_dir, first.device)
        loading_seconds = (time.perf_counter() - began) / len(parts)
        for learned in learn_family(scenarios, dataset=dataset, context=context, checkpoints=checkpoints):
            seconds = loading_seconds + learned.over_the_air_seconds + learned.training_seconds
            result = result_of(learned, seconds=seconds, device=first.device)
            own, found = result.privacy[0], flat(result.to_dict(), _LEFT_OUT_OF_RUNS)
            found |= {"epsilon": own.epsilon, **{name: getattr(own, name) for name in _STATED_OF_RUNS}}
            for stated in result.privacy:
                if (stated.adjacency, stated.delta) == (own.adjacency, own.delta):
                    name = f"epsilon_{stated.adversary}"
                    known = found.get(name)
                    found[name] = min(stated.epsilon, known) if isinstance(known, float) else stated.epsilon
            if result.row_privacy is not None:
                found["epsilon_row"] = result.row_privacy.epsilon
            yield found


@lru_cache(maxsize=1)
def _dataset(workers: Workers, seed: int, _digest: str, data_dir: Path | None, device: str) -> DataSet:
    """Return the encoded data; the last are kept, since the cells of one seed follow each other."""
    return load_dataset(workers, Streams(seed), data_dir=data_dir, device=device)


@dataclass(frozen=True)
class AttackCells(Kind):
    """``airmix attack`` with the attacks of these names.

    The metric ``server.X`` is figure X of the server's best attack; others go by their names.
    """

    name: ClassVar[str] = "attack"
    default_metrics: ClassVar[tuple[str, ...]] = (
        *("grade", "server.recognised_share", "server.copied_share", "release.linkage.auc", "claimed.server"),
    )
    attacks: tuple[str, ...]

    @property
    def asked(self) -> str:
        return json.dumps({"attacks": list(self.attacks)})

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Outcome]:
        from airmixml.attacks.run_attacks import check_attackable, run_attacks

        (part,) = parts
        (scenario,) = part.scenarios
        check_attackable(scenario, self.attacks)
        began = time.perf_counter()
        with ExitStack() as stack:
            folder = place.beginnings(part) or Path(stack.enter_context(TemporaryDirectory()))
            result = run_attacks(scenario, self.attacks, folder=folder, context=context)
        found = flat(result.to_dict(), _LEFT_OUT_OF_ATTACKS)
        if result.server is not None:
            found |= flat(result.server.best.findings.to_dict(), prefix="server.")
        yield {**found, "seconds": time.perf_counter() - began}


@dataclass(frozen=True)
class AuditCells(Kind):
    """``airmix audit`` with these settings: metrics of the scenario's own adversary, then of each that was audited."""

    name: ClassVar[str] = "audit"
    default_metrics: ClassVar[tuple[str, ...]] = _SHOWN_OF_AUDITS
    note: ClassVar[str] = "the confidence holds for each cell; among many cells some may be refuted by chance"
    settings: AuditSettings

    @property
    def asked(self) -> str:
        return json.dumps({**vars(self.settings), "fault": self.settings.fault.name}, sort_keys=True)

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Outcome]:
        from airmixml.audit.auditor import audit_scenario
        from airmixml.audit.trials import Keeper

        (part,) = parts
        (scenario,) = part.scenarios
        self.settings.check(scenario)
        keeper = Keeper(place.beginnings(part))
        plain = audit_scenario(scenario, self.settings, context=context, keeper=keeper, run_dir=Path()).to_dict()
        found: Metrics = {name: plain[name] for name in _STATED_OF_AUDITS}
        for each in plain["audits"]:
            found |= {f"{each['adversary']}.{name}": each[name] for name in _SHOWN_OF_AUDITS}
        yield {**found, **flat(plain["noise_check"], prefix="noise_check."), "seconds": plain["seconds"]}


def kind_of(command: str, *, attacks: Sequence[str] | None = None, audit: AuditSettings | None = None) -> Kind:
    """Return what the command does with a cell; refuse options of another command, and attacks that do not exist."""
    commands = ("run", "attack", "audit")
    if command not in commands:
        near = did_you_mean(str(command), commands)
        raise ScenarioError(f"--command = {shown(command)}: must be one of {', '.join(commands)}{near}")
    for owner, option, given in (("attack", "attacks", attacks), ("audit", "audit", audit)):
        if given is not None and owner != command:
            raise ScenarioError(f"--{option}: belongs to --command {owner}, not to {command}; leave it out")
    if command == "attack":
        from airmixml.attacks import choose_parts

        return AttackCells(tuple(choose_parts(None if attacks is None else ",".join(attacks))))
    if command == "audit":
        from airmixml.audit import AuditSettings

        settings = audit or AuditSettings()
        return AuditCells(replace(settings, adversaries=tuple(settings.adversaries)))
    return RunCells()


@dataclass(frozen=True)
class Energies(Kind):
    """Adds up the energy of sending (``energy_joules``, of all workers); no data are needed."""

    name: ClassVar[str] = "energy"
    stacked: ClassVar[bool] = True
    needs_data: ClassVar[bool] = False

    def check(self, scenario: Scenario) -> None:
        dimensions(scenario)  # refuses data of unknown size

    def group(self, scenario: Scenario) -> Hashable:
        return scenario.seed, scenario.workers, scenario.learner

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Outcome]:
        from airmixml.radio.tally import rehearse_family

        (part,) = parts
        input_dim, label_dim = dimensions(part.scenarios[0])
        rehearse = partial(rehearse_family, input_dim=input_dim, label_dim=label_dim)
        for each in _by_shared_draws(part.scenarios, rehearse, place.tell):
            yield each if isinstance(each, dict) else {"energy_joules": each.energy_joules}


@dataclass(frozen=True)
class Trainings(Energies):
    """Trains a network on the mixtures of each scenario, all of them as one stack.

    ``curve`` is the accuracy on the clean test set after each epoch.
    """

    name: ClassVar[str] = "training"
    needs_data: ClassVar[bool] = True

    def check(self, scenario: Scenario) -> None:
        super().check(scenario)
        workers, learner = scenario.workers, scenario.learner
        if learner.closed_form:
            raise ScenarioError(
                f"learner.model = {learner.model!r}: a sweep trains networks; run each scenario by itself"
            )
        if workers.centre_on_air:
            raise ScenarioError(
                f"workers.centre = {workers.centre!r}: each target has data of its own; run each scenario by itself"
            )

    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Outcome]:
        import torch

        from airmixml.edge import train_stack
        from airmixml.radio.transmission import simulate_family

        (part,) = parts
        first = part.scenarios[0]
        dataset = load_dataset(first.workers, Streams(first.seed), data_dir=place.data_dir, device=part.device)
        outcomes = _by_shared_draws(part.scenarios, partial(simulate_family, dataset=dataset, context=context))
        sent = [number for number, each in enumerate(outcomes) if not isinstance(each, dict)]
        if sent:
            inputs = torch.stack([outcomes[number].inputs for number in sent])
            labels = torch.stack([outcomes[number].labels for number in sent])
            for number in sent:  # what is stacked need not be held twice
                outcomes[number] = {"energy_joules": outcomes[number].report.energy_joules}
            histories = train_stack(
                first.learner,
                dataset,
                inputs,
                labels,
                seed=first.seed,
                speed=context.speed,
                progress=context.progress,
                checkpoint=place.checkpoint(part, f"{part.digest} {part.device} torch {torch.__version__}"),
            )
            for number, history in zip(sent, histories, strict=True):
                outcomes[number]["curve"] = list(history.test_accuracy)
                if not all(map(math.isfinite, history.loss)):
                    why = "training: the loss stopped being a number; the mixtures are too noisy"
                    outcomes[number] = {"error": why}
        yield from outcomes


def _by_shared_draws(
    scenarios: Sequence[Scenario], run: Callable[[list[Scenario]], list[Any]], tell: Tell = silent_share
) -> list[Any]:
    """Run scenarios that share their draws together, and return what each gives.

    Where one is refused, the others are run alone, and its result is the error. What is not of a scenario's making, and
    may be mended, is raised: the same command tries again.
    """
    from airmixml.radio.draws import draws_key

    shared: dict[tuple[object, ...], list[int]] = {}
    for number, scenario in enumerate(scenarios):
        shared.setdefault(draws_key(scenario), []).append(number)
    waiting, found = list(shared.values()), dict[int, Any]()
    while waiting:
        numbers = waiting.pop(0)
        try:
            found |= zip(numbers, run([scenarios[number] for number in numbers]), strict=True)
        except AirMixError as problem:
            if may_be_mended(problem):
                raise
            if len(numbers) > 1:
                waiting[:0] = [[number] for number in numbers]
            else:
                found[numbers[0]] = {"error": one_line(str(problem))}
        tell(len(found) / len(scenarios))
    return [found[number] for number in range(len(scenarios))]
