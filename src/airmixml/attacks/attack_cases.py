"""``airmix attack``: a scenario, itself at other values of a key and others beside it, attacked side by side.

Tables, pictures and figures are files of one folder; an interrupted command resumes.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.attack_figure import draw_attack
from airmixml.attacks.attack_report import AttackResult, CaseResult, Found, attack_csv, attack_markdown
from airmixml.attacks.claimed_epsilons import LeastEpsilons, least_epsilons
from airmixml.attacks.target import Attack, Reader, Target
from airmixml.data import DataSet
from airmixml.devices import find_device, using_threads
from airmixml.engines import Engine
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.registries import ATTACKS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.consistency import require_classes, require_real_numbers
from airmixml.scenario.grid import parse_varied
from airmixml.storage.files import write_text, writing_to
from airmixml.storage.results import Arrays, ResultStore, from_plain
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, Finish, claim, identity_of
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
        _check_same_data(scenario, other, name)
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


def _check_same_data(first: Scenario, other: Scenario, name: str) -> None:
    """Refuse other data: nothing could be shown side by side."""
    for key in _DATA_KEYS:
        ours, theirs = (getattr(each.workers, key) for each in (first, other))
        if ours != theirs:
            raise ScenarioError(
                f"--beside {shown_name(name)}: has other data (workers.{key} = {shown(theirs)}): must be that of "
                f"{first.name}, {shown(ours)}"
            )


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
    """
    chosen = Engine.of(engine, jobs)
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress, engine=chosen)
    find_device(context.speed.device)
    if isinstance(cases, Scenario):
        cases = [Case(label=cases.name, scenario=cases)]
    cases = [replace(case, scenario=settle(case.scenario, data_dir=data_dir, progress=progress)) for case in cases]
    attacks = load_attacks(parts or choose_parts(None, (case.scenario for case in cases)))
    check_attackable(cases, attacks)
    first = cases[0].scenario
    attacked = [[case.label, case.scenario.to_json()] for case in cases]
    identity = {**identity_of(first), "attacked": attacked, "parts": list(attacks)}
    started = time.perf_counter()
    with (
        writing_to(out or RUNS_FOLDER),
        claim(out, f"attack-{first.name}-seed{first.seed}", identity, force=force) as folder,
    ):
        results = attack_each(cases, attacks, store=PartStore(folder.work / "parts"), context=context)
        seconds = time.perf_counter() - started
        result = AttackResult(cases=results, seconds=seconds, device=context.speed.device, run_dir=folder.final)
        write_text(folder.work / SCENARIO, first.to_toml())
        write_text(folder.work / "attack.md", attack_markdown(result))
        write_text(folder.work / "attack.csv", attack_csv(result))
        if pictures:
            draw_attack(result, folder.work)
        write_text(folder.work / METRICS, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
        folder.publish(replace=force, finish=finish)
    return result


def load_attacks(parts: Sequence[str]) -> dict[str, Attack]:
    """Return attacks by name."""
    return {name: ATTACKS.load(name) for name in parts}


def check_attackable(cases: Sequence[Case], attacks: Mapping[str, Attack]) -> None:
    """Refuse a target that cannot be certified, and a setting that none of the attacks fits."""
    for case in cases:
        require_classes(case.scenario.workers, "an attack", single_rows=False)
        require_real_numbers(case.scenario.privacy, "an attack")
        check_privacy_target(case.scenario)
        refusals = {name: each.refusal(case.scenario) for name, each in attacks.items()}
        if all(refusals.values()):  # what was not attacked must not look hidden
            why = "; ".join(f"{name} ({why})" for name, why in refusals.items())
            others = ", ".join(ATTACKS.names)
            raise ScenarioError(f"--attacks: none fits {case.label}: {why}; choose others of {others}")


class PartStore:
    """Finished attacks and claims of each case, kept so that an interrupted command resumes with what is missing."""

    def __init__(self, folder: Path) -> None:
        self._store = ResultStore(folder)

    def load(self, case: int, name: str) -> tuple[dict[str, Any], Arrays] | None:
        """Return figures and arrays of a finished part; None where there is none, or a damaged one."""
        return self._store.load(f"{case + 1:02d}-{name}.npz", _checked)

    def save(self, case: int, name: str, figures: dict[str, Any], arrays: Arrays) -> None:
        """Keep a finished part."""
        self._store.save(f"{case + 1:02d}-{name}.npz", *_checked(figures, arrays))

    def found(self, case: int, name: str, attack: Attack) -> Found | None:
        """Return what an attack found; None where that is not kept, or not what the attack finds nowadays."""
        figures, arrays = self.load(case, name) or ({}, {})
        try:
            seconds = float(figures["seconds"])
            findings = attack.findings.from_dict({key: value for key, value in figures.items() if key != "seconds"})
        except (TypeError, KeyError, ValueError, AttributeError):
            return None
        return Found(attack=name, adversary=attack.adversary, findings=findings, arrays=arrays, seconds=seconds)

    def claims(self, case: int) -> LeastEpsilons | None:
        """Return what is claimed of a case; None where that is not kept."""
        kept = self.load(case, "claims")
        with suppress(ValueError):
            if kept is not None:
                known: LeastEpsilons = from_plain(LeastEpsilons, kept[0])
                return known
        return None


def _checked(figures: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return both; refuse figures that are no result."""
    if not isinstance(figures, dict):
        raise ValueError("figures must have names")
    json.dumps(figures, allow_nan=False)  # raises for NaN and infinite ones
    return figures, arrays


def attack_each(
    cases: Sequence[Case], attacks: Mapping[str, Attack], *, store: PartStore, context: RunContext
) -> list[CaseResult]:
    """Run the attacks that the store does not hold yet on each case, and return what was found."""
    first = cases[0].scenario
    with using_threads(context.speed.threads):
        dataset = load_dataset(first.workers, Streams(first.seed), data_dir=context.data_dir, progress=context.progress)
        deployed = [deploy(case.scenario.workers, dataset, Streams(case.scenario.seed)) for case in cases]
        held = [np.unique(population.sample_index) for population in deployed]
        refused = [{name: each.refusal(case.scenario) for name, each in attacks.items()} for case in cases]
        found = _found_in_each(cases, attacks, refused, _choose_examples(held, dataset), store=store, context=context)
        results = []
        for number, case in enumerate(cases):
            claimed = store.claims(number)
            if claimed is None:
                own = case.scenario.privacy.adversary
                adversaries = dict.fromkeys((*_ADVERSARIES, own, *(each.adversary for each in attacks.values())))
                claimed = least_epsilons(case.scenario, dataset, deployed[number], adversaries)
                store.save(number, "claims", asdict(claimed), {})
            results.append(
                CaseResult(
                    label=case.label,
                    scenario=case.scenario,
                    held=len(held[number]),
                    claimed=claimed.worker,
                    claimed_per_row=claimed.row,
                    copies=claimed.copies,
                    found={name: found[number, name] for name in attacks if (number, name) in found},
                    left_out={name: why for name, why in refused[number].items() if why},
                )
            )
    return results


def _found_in_each(
    cases: Sequence[Case],
    attacks: Mapping[str, Attack],
    refused: list[dict[str, str]],
    examples: NDArray[np.int64],
    *,
    store: PartStore,
    context: RunContext,
) -> dict[Part, Found]:
    """Return what attacks that fit find, by case and name; those that the store lacks run on the context's engine."""
    every = [(number, name) for number in range(len(cases)) for name in attacks]
    wanted = [(number, name) for number, name in every if not refused[number][name]]
    kept = {(number, name): store.found(number, name, attacks[name]) for number, name in wanted}
    found = {part: known for part, known in kept.items() if known is not None}
    missing = [part for part in wanted if part not in found]
    done, on_gpu = len(every) - len(missing), context.speed.device != "cpu"
    context.progress("attacks", done, len(every))
    inside = context
    if not context.engine.here:  # each process runs the slots of its setting for itself
        speed = context.speed if on_gpu else replace(context.speed, threads=1)
        inside = RunContext(speed=speed, data_dir=context.data_dir)
    settings = Settings(scenarios=[case.scenario for case in cases], examples=examples, context=inside)
    with closing(context.engine.run(prepare_attacks, settings, missing, on_gpu=on_gpu)) as finishing:
        for number, known in finishing:
            part = missing[number]
            store.save(*part, known.to_dict(), known.arrays)
            found[part], done = known, done + 1
            context.progress("attacks", done, len(every))
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """What all parts share; ``examples`` are those of ``Target``."""

    scenarios: Sequence[Scenario]
    examples: NDArray[np.int64]
    context: RunContext


def prepare_attacks(settings: Settings) -> Callable[[Part], Found]:
    """Return what attacks a setting; the last setting is kept, since parts of one setting follow each other."""
    context = settings.context
    readers: dict[Any, Reader] = {}
    targets: dict[int, Target] = {}

    def attacked(part: Part) -> Found:
        number, name = part
        if number not in targets:
            targets.clear()
            scenario = settings.scenarios[number]
            targets[number] = Target(scenario=scenario, examples=settings.examples, context=context, readers=readers)
        attack, started = ATTACKS.load(name), time.perf_counter()
        with using_threads(context.speed.threads):
            outcome = attack.run(targets[number])
        seconds = time.perf_counter() - started
        return Found(attack=name, adversary=attack.adversary, seconds=seconds, **vars(outcome))

    return attacked


def _choose_examples(held_in_cases: Sequence[NDArray[np.int64]], dataset: DataSet) -> NDArray[np.int64]:
    """Return samples that some worker holds in every case, class after class; rows of the pool."""
    held = reduce(np.intersect1d, held_in_cases)
    if not len(held):
        raise ScenarioError("--vary, --beside: no sample is held in every setting to be shown; deploy more workers")
    labels = dataset.train_labels[held]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    rank = np.arange(len(order)) - starts  # how many of its class come before it
    return np.asarray(held[order[np.argsort(rank, kind="stable")[:_EXAMPLES]]])
