"""``airmix attack``: what adversaries learn of a scenario's workers.

Tables and picture are files of one folder; an interrupted command resumes.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.arrays import Integers, find_device, using_threads
from airmixml.attacks.attack_page import attack_page, draw_attack
from airmixml.attacks.result import AttackResult, Found
from airmixml.attacks.target import Target
from airmixml.data import DataSet
from airmixml.engines import Engine
from airmixml.files import Arrays, ResultStore, from_plain, write_text, writing_to
from airmixml.messages import PrivacyError, ScenarioError, did_you_mean, shown
from airmixml.planning.account import state_slots
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.radio.privacy_target import target_question
from airmixml.radio.system import adversary_named
from airmixml.radio.tally import rehearse
from airmixml.registries import ATTACKS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.consistency import require_classes
from airmixml.scenario.scenario import identity_of
from airmixml.scenario.toml import folder_stem
from airmixml.storage.folders import RUNS_FOLDER, Finish, Study, claim, write_result
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, encoded_dim, load_dataset, settle

_EXAMPLES: Final = 10
# Against these every setting has a claim, whether they attack or not.
_NOISY: Final = "everyone"
_ADVERSARIES: Final = ("server", "release", "eavesdropper")


def choose_parts(asked: str | None, scenario: Scenario | None = None) -> tuple[str, ...]:
    """Return the attacks named with commas between them, in the order of the registry; all by default.

    Those of everyone must be named, or the scenario's workers bring noise: nothing else hides anybody from it.
    """
    names = [name.strip() for name in asked.split(",")] if asked is not None else list(ATTACKS.names)
    if asked is None and not (scenario and scenario.privacy.noise_kind.brought):
        names = [name for name in names if ATTACKS.load(name).adversary != _NOISY]
    for name in names:
        if name not in ATTACKS:
            raise ScenarioError(
                f"--attacks {shown(name)}: must be some of {', '.join(ATTACKS.names)}"
                f"{did_you_mean(name, ATTACKS.names)}"
            )
    return tuple(name for name in ATTACKS.names if name in names)


def attack(
    scenario: Scenario,
    parts: Sequence[str] | None = None,
    *,
    out: Path | str | None = None,
    force: bool = False,
    pictures: bool = True,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
    engine: str = "local",
    jobs: int | None = None,
    finish: Finish | None = None,
    again: bool = True,
) -> AttackResult:
    """Attack a scenario, write the folder, and return what was found.

    Args:
        scenario: what is attacked.
        parts: names of the attacks; by default those of ``choose_parts``.
        out: folder to make (default: a free name below ``runs``).
        force: replace ``out`` where it exists.
        pictures: draw ``attack.png`` and ``attack.svg``.
        speed: device, block size and threads.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
        engine: "local" for this machine, or "ray" for a Ray cluster.
        jobs: attacks at a time (default: one, in this process, or all that a Ray cluster takes).
        finish: called with the complete folder (a ``RunFolder``) before it gets its name, to add files to it.
        again: also make what a finished folder of the same settings holds; else that is a ``FinishedBefore``.
    """
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress, engine=Engine.of(engine, jobs))
    find_device(context.speed.device)
    scenario = settle(scenario, data_dir=data_dir, progress=progress)
    parts = parts or choose_parts(None, scenario)
    check_attackable(scenario, parts)
    identity, started = {**identity_of(scenario), "parts": list(parts)}, time.perf_counter()
    name = f"attack-{folder_stem(scenario.name, scenario.air)}-seed{scenario.seed}"
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force, again=again) as folder:
        found = run_attacks(scenario, parts, folder=folder.work / "parts", context=context)
        asked = () if tuple(parts) == choose_parts(None, scenario) else tuple(parts)
        result = replace(found, asked=asked, seconds=time.perf_counter() - started, run_dir=folder.final)
        plain = result.to_dict()
        write_text(folder.work / "attack.md", attack_page(plain, scenario).to_markdown())
        if pictures:
            draw_attack(result, folder.work)
        write_result(folder.work, scenario, plain)
        folder.publish(replace=force, finish=finish)
    return result


def check_attackable(scenario: Scenario, parts: Sequence[str]) -> None:
    """Refuse a target that cannot be certified, and a scenario that none of the attacks fits."""
    require_classes(scenario.workers, "an attack", single_rows=False)
    check_privacy_target(scenario)
    refusals = _refusals(scenario, parts)
    if all(refusals.values()):  # what was not attacked must not look hidden
        why = "; ".join(f"{name} ({why})" for name, why in refusals.items())
        others = ", ".join(ATTACKS.names)
        raise ScenarioError(f"--attacks: none fits {scenario.name}: {why}; choose others of {others}")


def _refusals(scenario: Scenario, parts: Iterable[str]) -> dict[str, str]:
    return {name: ATTACKS.load(name).refusal(scenario) for name in parts}


def run_attacks(scenario: Scenario, parts: Sequence[str], *, folder: Path, context: RunContext) -> AttackResult:
    """Run the attacks of these names that the folder does not hold yet, and return what was found."""
    with using_threads(context.speed.threads):
        streams = Streams(scenario.seed)
        dataset = load_dataset(scenario.workers, streams, data_dir=context.data_dir, progress=context.progress)
        population = deploy(scenario.workers, dataset, streams)
        held, refused = np.unique(population.sample_index), _refusals(scenario, parts)
        fitting = [name for name in parts if not refused[name]]
        target = scenario, _choose_examples(held, dataset)
        task = _AttackTask(target, ResultStore(folder), context, len(fitting))
        found, _ = Study(cells=fitting, task=task).run()
        known = (*_ADVERSARIES, scenario.privacy.adversary, *(ATTACKS.load(name).adversary for name in parts))
        return AttackResult(
            scenario=scenario,
            held=len(held),
            **least_epsilons(scenario, dataset, population, dict.fromkeys(known)),
            found=found,
            left_out={name: why for name, why in refused.items() if why},
            device=context.speed.device,
        )


def least_epsilons(
    scenario: Scenario, dataset: DataSet, population: Population, adversaries: Iterable[str]
) -> dict[str, Any]:
    """Return the least epsilons that the exact accountants certify against each adversary, for ``AttackResult``.

    They are for the schedule that was drawn, and together with the slot that estimates a mean.
    """
    several_rows, asked = scenario.workers.several_rows, target_question(scenario)
    dimensions = encoded_dim(scenario.workers, dataset.held_dim), dataset.label_dim
    tally = rehearse(scenario, *dimensions, holding=None if several_rows else population.sample_index)
    copies = int(np.bincount(population.sample_index).max())
    worker: dict[str, float | None] = {}
    by: dict[str, str] = {}
    row: dict[str, float | None] = {}
    for name in adversaries:
        asked, least = replace(asked, adversary=adversary_named(name, scenario)), math.inf
        worker[name], by[name], row[name] = None, "", None
        for accountant in ("gdp",) if name == "server" or tally.design.schedule_told else ("gdp", "pld"):
            with suppress(PrivacyError):
                epsilon = state_slots(replace(asked, accountant=accountant), tally.design, tally.centring).epsilon
                if epsilon < least:
                    worker[name], by[name], least = epsilon, accountant, epsilon
        if copies == 1 and not several_rows:
            row[name] = worker[name]  # a row is a worker
            continue
        with suppress(PrivacyError):
            row[name] = tally.privacy_of_a_row(copies, name).epsilon
    return {"claimed": worker, "claimed_by": by, "claimed_per_row": row, "copies": copies}


@dataclass(frozen=True)
class _AttackTask:
    """Runs attacks on the context's engine, and keeps what each of them found in a file."""

    target: tuple[Scenario, Integers]  # the scenario, and the ``examples`` of ``Target``
    store: ResultStore
    context: RunContext
    total: int

    def load(self, name: str) -> Found | None:
        attack = ATTACKS.load(name)

        def read(figures: Any, arrays: Arrays) -> Found | None:
            with suppress(TypeError, KeyError, ValueError, AttributeError):  # whole, but something else
                seconds = float(figures.pop("seconds"))
                known = {"findings": from_plain(attack.findings, figures), "arrays": arrays}
                return Found(attack=name, adversary=attack.adversary, seconds=seconds, **known)
            return None

        return self.store.load(f"{name}.npz", read)

    def save(self, name: str, found: Found) -> None:
        self.store.save(f"{name}.npz", found.to_dict(), found.arrays)

    def run(self, unfinished: Iterable[str], finished: Callable[[str, Found], None]) -> None:
        """Run what is left; in other processes each runs the slots for itself."""
        missing, inside = list(unfinished), self.context
        kept, on_gpu, progress = self.total - len(missing), inside.speed.device != "cpu", inside.progress
        progress("attacks", kept, self.total)
        if not inside.engine.here:
            speed = inside.speed if on_gpu else replace(inside.speed, threads=1)
            inside = RunContext(speed=speed, data_dir=inside.data_dir)
        shared = self.target, inside
        with closing(self.context.engine.run(prepare_attacks, shared, missing, on_gpu=on_gpu)) as finishing:
            for done, (name, found) in enumerate(finishing, start=kept + 1):
                finished(name, found)
                progress("attacks", done, self.total)


def prepare_attacks(shared: tuple[tuple[Scenario, Integers], RunContext]) -> Callable[[str, Any], Found]:
    """Return what runs the attack of a name."""
    (scenario, examples), context = shared
    target = Target(scenario, examples, context)

    def attacked(name: str, _tell: Any) -> Found:
        attack, started = ATTACKS.load(name), time.perf_counter()
        with using_threads(context.speed.threads):
            outcome = attack.run(target)
        seconds = time.perf_counter() - started
        return Found(attack=name, adversary=attack.adversary, seconds=seconds, **vars(outcome))

    return attacked


def _choose_examples(held: Integers, dataset: DataSet) -> Integers:
    """Return some samples that are held, class after class; rows of the pool."""
    labels = dataset.train_labels[held]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    rank = np.arange(len(order)) - starts  # how many of its class come before it
    return np.asarray(held[order[np.argsort(rank, kind="stable")[:_EXAMPLES]]])
