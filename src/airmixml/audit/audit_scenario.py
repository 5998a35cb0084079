"""``airmix audit``: attack a scenario, write a folder with verdict, table, scores and picture; resumable."""

import json
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.audit.auditor import Auditor
from airmixml.audit.findings import AuditResult
from airmixml.audit.picture import draw_audit
from airmixml.audit.settings import AuditSettings
from airmixml.audit.words import audit_markdown, verdict_of
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.storage.files import write_arrays, write_text, writing_to
from airmixml.storage.results import ResultStore
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, claim, identity_of
from airmixml.streams import Streams
from airmixml.workers import load_dataset

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
    settings: AuditSettings | None = None,
    *,
    out: Path | str | None = None,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """Audit a scenario, write its folder, and return what was found (the folder's ``metrics.json``).

    Args:
        scenario: what to audit.
        settings: adversaries, neighbours, trials, canaries, confidence and fault.
        out: folder to make (default: a free name below ``runs``).
        force: replace ``out`` where it exists.
        speed: threads and block size.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
    """
    settings = settings or AuditSettings()
    settings.check(scenario)
    fault, started = settings.fault, time.perf_counter()
    asked = [settings.trials, settings.canaries, settings.confidence, fault.name]
    identity = {
        **identity_of(scenario),
        "audit": [list(settings.adversaries), settings.neighbours(scenario), *asked],
    }
    name = f"audit-{scenario.name}{'-' * bool(fault.name)}{fault.name}-seed{scenario.seed}"
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force) as folder:
        dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
        keeper = FileKeeper(folder.work)
        auditor = Auditor(scenario, dataset, settings, context=context, keeper=keeper)
        audits = [auditor.audit(adversary) for adversary in settings.adversaries]
        result = AuditResult(
            scenario=scenario,
            fault=fault,
            audits=audits,
            verdict=verdict_of(audits, fault),
            resumed_blocks=keeper.resumed_blocks,
            seconds=time.perf_counter() - started,
            run_dir=folder.final,
        )
        _write(result, folder.work)
        folder.publish(replace=force, leave_out=(_KEPT,))
    return result


def _write(result: AuditResult, folder: Path) -> None:
    """Write what makes the folder whole."""
    scores: dict[str, NDArray[Any]] = {}
    for each in result.audits:
        scores[f"{each.adversary}_with_canary"] = each.trials.scores_in
        scores[f"{each.adversary}_without"] = each.trials.scores_out
    for each in result.audits:
        if each.one_run is not None:
            scores[f"{each.adversary}_one_run"] = each.one_run.scores
            scores[f"{each.adversary}_one_run_coins"] = each.one_run.coins
    write_arrays(folder / "scores.npz", scores)
    write_text(folder / "audit.md", audit_markdown(result))
    draw_audit(result, folder / "audit.png")
    write_text(folder / SCENARIO, result.scenario.to_toml())
    write_text(folder / METRICS, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
