"""Table, pictures and figures of an attack, as files of its folder."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.cases import Case
from airmixml.attacks.claimed_epsilons import claims_of_case
from airmixml.attacks.parts import LISTENERS, PARTS, Attacker, Part, PartStore, part_refusal
from airmixml.attacks.pictures import draw_attack
from airmixml.attacks.public_knowledge import Reader
from airmixml.attacks.reconstruction import RECONSTRUCTIONS
from airmixml.attacks.tables import attack_csv, attack_markdown
from airmixml.attacks.verdict import GRADES, grade_listener, grade_server, server_share, verdict_of, worst_grade
from airmixml.data import DataSet
from airmixml.devices import find_device, using_threads
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.scenario import Scenario, Speed
from airmixml.storage.files import write_text, writing_to
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, claim, identity_of
from airmixml.streams import Streams
from airmixml.wording import nearest, shown
from airmixml.workers import deploy, load_dataset

_EXAMPLES: Final = 10


_PARTS_FOLDER: Final = "parts"


@dataclass(frozen=True, kw_only=True)
class _Means:
    speed: Speed
    data_dir: Path | None
    progress: Progress


def choose_parts(asked: str | None) -> tuple[str, ...]:
    """Return the attacks named with commas between them; all by default."""
    if asked is None:
        return PARTS
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in PARTS:
            raise ScenarioError(
                f"--attacks {shown(name)}: must be some of {', '.join(PARTS)}; did you mean "
                f"{nearest(name.lower(), list(PARTS))}?"
            )
    return tuple(name for name in PARTS if name in names)


def attack(
    cases: Sequence[Case] | Scenario,
    parts: Sequence[str] = PARTS,
    *,
    out: Path | str | None = None,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Attack the cases, write the folder, and return its metrics (those of ``metrics.json``).

    Args:
        cases: settings of the same data, or one scenario.
        parts: which attacks.
        out: folder to make (default: a free name below ``runs``).
        force: replace ``out`` where it exists.
        speed: device, block size and threads.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
    """
    means = _Means(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    find_device(means.speed.device)
    if isinstance(cases, Scenario):
        cases = [Case(label=cases.name, scenario=cases)]
    for case in cases:
        check_privacy_target(case.scenario)
        _check_any_fits(case, parts)
    first = cases[0].scenario
    identity = {
        **identity_of(first),
        "attacked": [[case.label, case.scenario.to_dict()] for case in cases],
        "parts": list(parts),
    }
    started = time.perf_counter()
    name = f"attack-{first.name}-seed{first.seed}"
    with (
        writing_to(out or RUNS_FOLDER),
        claim(out, name, identity, force=force) as folder,
        using_threads(means.speed.threads),
    ):
        store = PartStore(folder.work / _PARTS_FOLDER)
        dataset = load_dataset(first.workers, Streams(first.seed), data_dir=data_dir, progress=progress)
        examples = _choose_examples(cases, dataset)
        found = _attack_all(cases, parts, store, examples, means)
        results = [
            _result(case, by_name, refused, claims_of_case(store, number, case.scenario, dataset))
            for number, (case, (by_name, refused)) in enumerate(zip(cases, found, strict=True))
        ]
        metrics = {
            "name": first.name,
            "seed": first.seed,
            "cases": results,
            "verdict": results[0]["verdict"],
            "grade": results[0]["grade"],
            "seconds": time.perf_counter() - started,
            "device": means.speed.device,
            "run_dir": str(folder.final),
        }
        write_attack(first, metrics, [by_name for by_name, _ in found], folder.work)
        folder.publish(replace=force)
    return metrics


def _check_any_fits(case: Case, parts: Sequence[str]) -> None:
    """Refuse a setting that none of the attacks fits: what was not attacked must not look hidden."""
    refusals = {name: part_refusal(name, case.scenario) for name in parts}
    if all(refusals.values()):
        why = "; ".join(f"{name} ({why})" for name, why in refusals.items())
        raise ScenarioError(f"--attacks: none fits {case.label}: {why}; choose others of {', '.join(PARTS)}")


def _attack_all(
    cases: Sequence[Case], parts: Sequence[str], store: PartStore, examples: NDArray[np.int64], means: _Means
) -> list[tuple[dict[str, Part], dict[str, str]]]:
    """Run what is not there yet; for each case the finished parts, and why others were left out."""
    readers: dict[Any, Reader] = {}
    found = []
    for number, case in enumerate(cases):
        attacker = Attacker(
            scenario=case.scenario,
            examples=examples,
            speed=means.speed,
            data_dir=means.data_dir,
            progress=means.progress,
            readers=readers,
        )
        by_name: dict[str, Part] = {}
        refused: dict[str, str] = {}
        for place, name in enumerate(parts):
            means.progress("attacks", number * len(parts) + place, len(cases) * len(parts))
            refusal = part_refusal(name, case.scenario)
            if refusal:
                refused[name] = refusal
                continue
            part = store.load(number, name)
            if part is None:
                part = attacker.run(name)
                store.save(number, name, part)
            by_name[name] = part
        found.append((by_name, refused))
    means.progress("attacks", len(cases) * len(parts), len(cases) * len(parts))
    return found


def _choose_examples(cases: Sequence[Case], dataset: DataSet) -> NDArray[np.int64]:
    """Return samples that some worker holds in every case, class after class; rows of the pool."""
    held = np.arange(dataset.train_samples)
    for case in cases:
        scenario = case.scenario
        population = deploy(scenario.workers, dataset.train_samples, Streams(scenario.seed))
        held = np.intersect1d(held, population.sample_index)
    if not len(held):
        raise ScenarioError("--vary, --beside: no sample is held in every setting to be shown; deploy more workers")
    labels = dataset.train_labels[held]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    rank = np.arange(len(order)) - starts  # how many of its class come before it
    return np.asarray(held[order[np.argsort(rank, kind="stable")[:_EXAMPLES]]])


def _result(case: Case, found: dict[str, Part], refused: dict[str, str], claims: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one case, with its claims and its verdict."""
    scenario = case.scenario
    methods = {name: found[name].figures for name in RECONSTRUCTIONS if name in found}
    server = None
    if methods:
        best = max(methods, key=lambda name: (server_share(methods[name]), methods[name]["explained"]))
        grade = max((grade_server(figures) for figures in methods.values()), key=GRADES.index)
        server = {"best": best, "grade": grade, "methods": methods}
    listeners = {
        name: {**found[name].figures, "grade": grade_listener(found[name].figures)} if name in found else None
        for name in LISTENERS
    }
    result = {
        "label": case.label,
        "name": scenario.name,
        "workers": scenario.workers.count,
        "slots": scenario.radio.slots,
        "scheduled": scenario.radio.scheduled,
        "eavesdropper_distance_metres": scenario.privacy.eavesdropper_distance_metres,
        "server": server,
        **listeners,
        "claimed": claims,
        "left_out": refused,
        "scenario": scenario.to_dict(),
    }
    return {**result, "grade": worst_grade(result), "verdict": verdict_of(result)}


def write_attack(scenario: Scenario, metrics: dict[str, Any], found: list[dict[str, Part]], folder: Path) -> None:
    """Write everything that belongs to a finished attack."""
    write_text(folder / SCENARIO, scenario.to_toml())
    write_text(folder / "attack.md", attack_markdown(metrics))
    write_text(folder / "attack.csv", attack_csv(metrics))
    draw_attack(metrics, found, folder)
    write_text(folder / METRICS, json.dumps(metrics, indent=2, allow_nan=False) + "\n")
