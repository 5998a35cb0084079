"""``airmix attack``: a scenario, itself at other values of a key and others beside it, attacked side by side.

Tables, pictures and figures are files of one folder; an interrupted command resumes.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.arrays import Integers
from airmixml.attacks.attack_page import attack_page, draw_attack
from airmixml.attacks.case_result import AttackResult, CaseResult, Found
from airmixml.attacks.claimed_epsilons import least_epsilons
from airmixml.attacks.target import Reader, Target
from airmixml.data import DataSet
from airmixml.devices import find_device, using_threads
from airmixml.engines import Engine
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.registries import ATTACKS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.consistency import require_classes
from airmixml.scenario.grid import parse_varied
from airmixml.scenario.toml import folder_stem
from airmixml.storage.files import Arrays, ResultStore, write_text, writing_to
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, Finish, claim, identity_of
from airmixml.storage.study import Study
from airmixml.streams import Streams
from airmixml.wording import did_you_mean, shown, shown_name
from airmixml.workers import deploy, load_dataset, settle

_EXAMPLES: Final = 10
_DATA_KEYS: Final = ("dataset", "train_samples", "input_lower", "input_upper", "feature_columns", "label_column")
# Against these every setting has a claim, whether they attack or not.
_NOISY: Final = "everyone"
_ADVERSARIES: Final = ("server", "release", "eavesdropper")

Part = tuple[int, str]
"""Number of a setting, and name of an attack on it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A scenario under attack, and what tables and pictures call it."""

    label: str
    scenario: Scenario


def choose_parts(asked: str | None, scenarios: Iterable[Scenario] = ()) -> tuple[str, ...]:
    """Return the attacks named with commas between them, in the order of the registry; all by default.

    Those of everyone must be named, or workers of some scenario bring noise: nothing else hides anybody from it.
    """
    names = [name.strip() for name in asked.split(",")] if asked is not None else list(ATTACKS.names)
    if asked is None and not any(each.privacy.noise_kind.brought for each in scenarios):
        names = [name for name in names if ATTACKS.load(name).adversary != _NOISY]
    for name in names:
        if name not in ATTACKS:
            raise ScenarioError(
                f"--attacks {shown(name)}: must be some of {', '.join(ATTACKS.names)}"
                f"{did_you_mean(name, ATTACKS.names)}"
            )
    return tuple(name for name in ATTACKS.names if name in names)


def read_cases(scenario: Scenario, vary: str | None, beside: str | None) -> list[Case]:
    """Return the cases that the arguments name, in that order.

    Args:
        scenario: what is attacked.
        vary: KEY=V1,V2,...: instead of the scenario itself, it at these values. Those of ``privacy.epsilon`` set
            ``mixing.power = "dp"``, and one may be "max", which is ``mixing.power = "max"``.
        beside: presets or scenario files, with commas between them.
    """
    cases = [Case(label=scenario.name, scenario=scenario)] if vary is None else _varied(scenario, vary)
    for name in [] if beside is None else [part.strip() for part in beside.split(",")]:
        if not name:
            raise ScenarioError("--beside: must be presets or scenario files, with commas between them")
        other = Scenario.load(Path(name)) if name.endswith(".toml") else Scenario.preset(name)
        other = settle(other.with_seed(scenario.seed))
        for key in _DATA_KEYS:  # nothing of other data could be shown side by side
            ours, theirs = (getattr(each.workers, key) for each in (scenario, other))
            if ours != theirs:
                raise ScenarioError(
                    f"--beside {shown_name(name)}: has other data (workers.{key} = {shown(theirs)}): must be that of "
                    f"{scenario.name}, {shown(ours)}"
                )
        cases.append(Case(label=other.name, scenario=other))
    return cases


def _varied(scenario: Scenario, asked: str) -> list[Case]:
    key, values = parse_varied(asked, "privacy.epsilon=max,1e5,10")
    if key in ("name", "seed", *(f"workers.{name}" for name in _DATA_KEYS)):
        raise ScenarioError(f"--vary {key}: must leave the data as they are; attack other data with another command")
    cases = []
    for value in values:
        if (key, value) == ("privacy.epsilon", "max"):
            cases.append(Case(label="maximum power", scenario=scenario.with_overrides("mixing.power=max")))
            continue
        # An epsilon decides nothing while the power does not follow from it.
        follows = ("mixing.power=dp",) if key == "privacy.epsilon" else ()
        name = key.rpartition(".")[2].replace("_", " ")
        cases.append(Case(label=f"{name} {value}", scenario=scenario.with_overrides(*follows, f"{key}={value}")))
    return cases


def attack(
    cases: Sequence[Case] | Scenario,
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
    """Attack the cases, write the folder, and return what was found.

    Args:
        cases: settings of the same data, or one scenario.
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
    chosen = Engine.of(engine, jobs)
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress, engine=chosen)
    find_device(context.speed.device)
    if isinstance(cases, Scenario):
        cases = [Case(label=cases.name, scenario=cases)]
    cases = [replace(case, scenario=settle(case.scenario, data_dir=data_dir, progress=progress)) for case in cases]
    parts = parts or choose_parts(None, (case.scenario for case in cases))
    check_attackable(cases, parts)
    first = cases[0].scenario
    attacked = [[case.label, case.scenario.to_json()] for case in cases]
    identity = {**identity_of(first), "attacked": attacked, "parts": list(parts)}
    started = time.perf_counter()
    name = f"attack-{folder_stem(first.name, first.air)}-seed{first.seed}"
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force, again=again) as folder:
        results = attack_each(cases, parts, folder=folder.work / "parts", context=context)
        seconds = time.perf_counter() - started
        result = AttackResult(cases=results, seconds=seconds, device=context.speed.device, run_dir=folder.final)
        plain = result.to_dict()
        write_text(folder.work / SCENARIO, first.to_toml())
        write_text(folder.work / "attack.md", attack_page(plain, first).to_markdown())
        if pictures:
            draw_attack(result, folder.work)
        write_text(folder.work / METRICS, json.dumps(plain, indent=2, allow_nan=False) + "\n")
        folder.publish(replace=force, finish=finish)
    return result


def check_attackable(cases: Sequence[Case], parts: Sequence[str]) -> None:
    """Refuse a target that cannot be certified, and a setting that none of the attacks fits."""
    for case in cases:
        require_classes(case.scenario.workers, "an attack", single_rows=False)
        check_privacy_target(case.scenario)
        refusals = _refusals(case, parts)
        if all(refusals.values()):  # what was not attacked must not look hidden
            why = "; ".join(f"{name} ({why})" for name, why in refusals.items())
            others = ", ".join(ATTACKS.names)
            raise ScenarioError(f"--attacks: none fits {case.label}: {why}; choose others of {others}")


def _refusals(case: Case, parts: Iterable[str]) -> dict[str, str]:
    """Return why each attack does not fit a setting, empty where it does."""
    return {name: ATTACKS.load(name).refusal(case.scenario) for name in parts}


def attack_each(cases: Sequence[Case], parts: Sequence[str], *, folder: Path, context: RunContext) -> list[CaseResult]:
    """Run the attacks of these names that the folder does not hold yet on each case, and return what was found."""
    first, store = cases[0].scenario, ResultStore(folder)
    with using_threads(context.speed.threads):
        dataset = load_dataset(first.workers, Streams(first.seed), data_dir=context.data_dir, progress=context.progress)
        deployed = [deploy(case.scenario.workers, dataset, Streams(case.scenario.seed)) for case in cases]
        held = [np.unique(population.sample_index) for population in deployed]
        refused = [_refusals(case, parts) for case in cases]
        every = [(number, name) for number in range(len(cases)) for name in parts]
        shared = [case.scenario for case in cases], _choose_examples(held, dataset)
        found = Study(
            cells=[(number, name) for number, name in every if not refused[number][name]],
            task=_AttackTask(shared, store, context, len(every)),
            reducer=lambda found, _kept: found,
        ).run()
        results = []
        for number, case in enumerate(cases):
            own = case.scenario.privacy.adversary
            adversaries = dict.fromkeys((*_ADVERSARIES, own, *(ATTACKS.load(name).adversary for name in parts)))
            claimed = least_epsilons(case.scenario, dataset, deployed[number], adversaries)
            results.append(
                CaseResult(
                    label=case.label,
                    scenario=case.scenario,
                    held=len(held[number]),
                    **claimed,
                    found={name: found[number, name] for name in parts if (number, name) in found},
                    left_out={name: why for name, why in refused[number].items() if why},
                )
            )
    return results


def _file(number: int, name: str) -> str:
    return f"{number + 1:02d}-{name}.npz"


@dataclass(frozen=True)
class _AttackTask:
    """Runs attacks on the context's engine, and keeps what each of them found in a file."""

    shared: tuple[list[Scenario], Integers]  # the settings, and the ``examples`` of ``Target``
    store: ResultStore
    context: RunContext
    total: int

    def load(self, part: Part) -> Found | None:
        number, name = part
        attack = ATTACKS.load(name)

        def read(figures: Any, arrays: Arrays) -> Found | None:
            with suppress(TypeError, KeyError, ValueError, AttributeError):  # whole, but something else
                seconds = float(figures.pop("seconds"))
                known = {"findings": attack.findings.from_dict(figures), "arrays": arrays}
                return Found(attack=name, adversary=attack.adversary, seconds=seconds, **known)
            return None

        return self.store.load(_file(number, name), read)

    def save(self, part: Part, found: Found) -> bool:
        self.store.save(_file(*part), found.to_dict(), found.arrays)
        return True

    def run(self, unfinished: Iterable[Part], finished: Callable[[Part, Found], None]) -> None:
        """Run what is left; in other processes each runs the slots of its setting for itself."""
        missing, inside = list(unfinished), self.context
        kept, on_gpu, progress = self.total - len(missing), inside.speed.device != "cpu", inside.progress
        progress("attacks", kept, self.total)
        if not inside.engine.here:
            speed = inside.speed if on_gpu else replace(inside.speed, threads=1)
            inside = RunContext(speed=speed, data_dir=inside.data_dir)
        shared = self.shared, inside
        with closing(self.context.engine.run(prepare_attacks, shared, missing, on_gpu=on_gpu)) as finishing:
            for done, (number, found) in enumerate(finishing, start=kept + 1):
                finished(missing[number], found)
                progress("attacks", done, self.total)


def prepare_attacks(shared: tuple[tuple[list[Scenario], Integers], RunContext]) -> Callable[[Part], Found]:
    """Return what attacks a setting; the last setting is kept, since parts of one setting follow each other."""
    (scenarios, examples), context = shared
    readers: dict[Any, Reader] = {}
    targets: dict[int, Target] = {}

    def attacked(part: Part) -> Found:
        number, name = part
        if number not in targets:
            targets.clear()
            targets[number] = Target(scenarios[number], examples, context, readers)
        attack, started = ATTACKS.load(name), time.perf_counter()
        with using_threads(context.speed.threads):
            outcome = attack.run(targets[number])
        seconds = time.perf_counter() - started
        return Found(attack=name, adversary=attack.adversary, seconds=seconds, **vars(outcome))

    return attacked


def _choose_examples(held_in_cases: Sequence[Integers], dataset: DataSet) -> Integers:
    """Return samples that some worker holds in every case, class after class; rows of the pool."""
    held = reduce(np.intersect1d, held_in_cases)
    if not len(held):
        raise ScenarioError("--vary, --beside: no sample is held in every setting to be shown; deploy more workers")
    labels = dataset.train_labels[held]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    rank = np.arange(len(order)) - starts  # how many of its class come before it
    return np.asarray(held[order[np.argsort(rank, kind="stable")[:_EXAMPLES]]])
