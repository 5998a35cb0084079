"""``airmix audit``: attack a scenario, write a folder with verdict, table, scores and picture; resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.audit import SOUND, Audit, Auditor, Fault
from airmixml.audit.picture import draw_audit
from airmixml.audit.words import audit_table, verdict_of
from airmixml.errors import ScenarioError
from airmixml.privacy import ADJACENCIES
from airmixml.progress import Progress, silent
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.scenario import Scenario, Speed
from airmixml.storage.files import write_arrays, write_text, writing_to
from airmixml.storage.results import ResultStore
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, RunFolder, claim, identity_of
from airmixml.streams import Streams
from airmixml.workers import load_dataset

AUDITED: Final = ("release", "server")
CONFIDENCE_OF: Final = "all lower bounds on all audited adversaries together"
_KEPT: Final = "trials.npz"
_SECONDS_BETWEEN_SAVES: Final = 2.0


class FileKeeper:
    """Keeps finished blocks of trials in one file, written every few seconds."""

    def __init__(self, folder: Path, every_seconds: float = _SECONDS_BETWEEN_SAVES) -> None:
        self._store, self._every_seconds = ResultStore(folder), every_seconds
        self._saved_at = time.monotonic()
        self._blocks: dict[str, list[NDArray[np.float64]]] = self._store.load(_KEPT, _kept_blocks) or {}
        self.resumed_blocks = sum(map(len, self._blocks.values()))

    def load(self, name: str) -> list[NDArray[np.float64]]:
        """Return the finished blocks of that name in order."""
        return list(self._blocks.get(name, []))

    def save(self, name: str, blocks: list[NDArray[np.float64]]) -> None:
        """Keep the finished blocks; on the disk a few seconds later."""
        self._blocks[name] = list(blocks)
        if time.monotonic() - self._saved_at < self._every_seconds:
            return
        counts = {key: len(every) for key, every in self._blocks.items()}
        named = {f"{key}/{number}": each for key, every in self._blocks.items() for number, each in enumerate(every)}
        self._store.save(_KEPT, counts, named)
        self._saved_at = time.monotonic()


def _kept_blocks(counts: dict[str, int], arrays: dict[str, NDArray[Any]]) -> dict[str, list[NDArray[np.float64]]]:
    """Return the blocks of each name; a ValueError says what is odd about them."""
    blocks = {name: [arrays.pop(f"{name}/{number}") for number in range(count)] for name, count in counts.items()}
    for name, every in blocks.items():
        shape = every[0].shape
        if arrays or any(each.dtype != np.float64 or each.shape != shape or np.isnan(each).any() for each in every):
            raise ValueError(f"{name} must be blocks of numbers, all of one size")
        if len(shape) != 2 or shape[0] != 2:
            raise ValueError(f"{name} has blocks of {shape}, not of 2 x trials")
    return blocks


def audit(
    scenario: Scenario,
    *,
    adversaries: Sequence[str] = AUDITED,
    adjacency: str = "",
    trials: int = 10_000,
    canaries: int = 1000,
    confidence: float = 0.95,
    fault: Fault = SOUND,
    out: Path | str | None = None,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Audit a scenario, write its folder, and return what was found (the folder's ``metrics.json``).

    Args:
        scenario: what to audit.
        adversaries: as whom to attack, "release" and "server".
        adjacency: which neighbours; empty for the scenario's own.
        trials: of which half have the canary.
        canaries: workers that are canaries in one real run; 0 for no such run.
        confidence: with which all lower bounds on all these adversaries hold together.
        fault: what is broken on purpose; claims are those of the sound mechanism.
        out: folder to make (default: a free name below ``runs``).
        force: replace ``out`` where it exists.
        speed: threads and block size.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
    """
    adjacency = adjacency or scenario.privacy.adjacency
    _check(scenario, adversaries, adjacency, trials, canaries, confidence, fault)
    started = time.perf_counter()
    identity = {
        **identity_of(scenario),
        "audit": [list(adversaries), adjacency, trials, canaries, confidence, fault.name],
    }
    name = f"audit-{scenario.name}{'-' * bool(fault.name)}{fault.name}-seed{scenario.seed}"
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force) as folder:
        dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
        keeper = FileKeeper(folder.work)
        auditor = Auditor(
            scenario,
            dataset,
            adjacency=adjacency,
            trials=trials,
            canaries=canaries,
            confidence=confidence,
            adversaries=len(adversaries),
            fault=fault,
            speed=speed,
            keeper=keeper,
            progress=progress,
        )
        audits = [auditor.audit(adversary) for adversary in adversaries]
        result = _result(scenario, audits, fault)
        result["resumed_blocks"] = keeper.resumed_blocks
        result["seconds"] = time.perf_counter() - started
        _write(scenario, audits, result, folder, replace=force)
    return result


def _check(
    scenario: Scenario,
    adversaries: Sequence[str],
    adjacency: str,
    trials: int,
    canaries: int,
    confidence: float,
    fault: Fault,
) -> None:
    """Refuse in one line what cannot be audited."""
    if not adversaries or any(adversary not in AUDITED for adversary in adversaries):
        raise ScenarioError(f"adversary = {', '.join(adversaries)!r}: must be release, server or both")
    if adjacency not in ADJACENCIES:
        raise ScenarioError(f"adjacency = {adjacency!r}: must be one of {', '.join(ADJACENCIES)}")
    if not 100 <= trials <= 10**8:
        raise ScenarioError(f"trials = {trials}: must be at least 100, half of them with the canary, and at most 10^8")
    if not 0 <= canaries <= 10**6:
        raise ScenarioError(f"canaries = {canaries}: must be at least 0 (no run with many canaries) and at most 10^6")
    if not 0.5 <= confidence < 1.0:
        raise ScenarioError(f"confidence = {confidence:g}: must be at least 0.5 and below 1, such as 0.95")
    if fault.schedule_revealed and "release" not in adversaries:
        raise ScenarioError(
            f"fault = {fault.name!r}: the server knows the schedule anyway; audit the release (--adversary release)"
        )
    check_privacy_target(scenario)


def _result(scenario: Scenario, audits: list[Audit], fault: Fault) -> dict[str, Any]:
    own = next((each for each in audits if each.adversary == scenario.privacy.adversary), audits[0])
    found = own.to_dict()
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "verdict": verdict_of(audits, fault),
        **{
            key: found[key]
            for key in ("epsilon_lower", "epsilon_claimed", "confidence", "delta", "adversary", "adjacency")
        },
        "confidence_of": CONFIDENCE_OF,
        "caught": any(each.caught for each in audits),
        "noise_check": own.noise_check.to_dict(),
        "fault": fault.name or None,
        "audits": [each.to_dict() for each in audits],
    }


def _write(
    scenario: Scenario, audits: list[Audit], result: dict[str, Any], folder: RunFolder, *, replace: bool
) -> None:
    """Write what makes the folder whole and give it its name."""
    result["run_dir"] = str(folder.final)
    scores: dict[str, NDArray[Any]] = {
        f"{each.adversary}_{world}": values
        for each in audits
        for world, values in (("with_canary", each.trials.scores_in), ("without", each.trials.scores_out))
    }
    for each in audits:
        if each.one_run is not None:
            scores[f"{each.adversary}_one_run"] = each.one_run.scores
            scores[f"{each.adversary}_one_run_coins"] = each.one_run.coins
    write_arrays(folder.work / "scores.npz", scores)
    write_text(folder.work / "audit.md", audit_table(result))
    draw_audit(scenario.name, audits, result["verdict"], folder.work / "audit.png")
    write_text(folder.work / SCENARIO, scenario.to_toml())
    write_text(folder.work / METRICS, json.dumps(result, indent=2, allow_nan=False) + "\n")
    folder.publish(replace=replace, leave_out=(_KEPT,))
