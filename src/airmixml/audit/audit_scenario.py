"""``airmix audit``: attack a scenario, write a folder with verdict, table, scores and picture; resumable."""

import json
import time
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from airmixml.audit.auditor import Auditor
from airmixml.audit.findings import AuditResult
from airmixml.audit.picture import draw_audit
from airmixml.audit.settings import AuditSettings
from airmixml.audit.trials import KEPT_FILES, Keeper
from airmixml.audit.words import audit_markdown, verdict_of
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.storage.files import write_arrays, write_text, writing_to
from airmixml.storage.run_folder import METRICS, RUNS_FOLDER, SCENARIO, claim, identity_of
from airmixml.streams import Streams
from airmixml.workers import load_dataset


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
    identity = {**identity_of(scenario), "audit": [list(settings.adversaries), settings.neighbours(scenario), *asked]}
    name = f"audit-{scenario.name}{'-' * bool(fault.name)}{fault.name}-seed{scenario.seed}"
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force) as folder:
        dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
        keeper = Keeper(folder.work)
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
        folder.publish(replace=force, leave_out=KEPT_FILES)
    return result


def _write(result: AuditResult, folder: Path) -> None:
    """Write what makes the folder whole."""
    scores: dict[str, NDArray[Any]] = {}
    for each in result.audits:
        scores[f"{each.adversary}_with_canary"] = each.trials.scores_in
        scores[f"{each.adversary}_without"] = each.trials.scores_out
        if each.one_run is not None:
            scores[f"{each.adversary}_one_run"] = each.one_run.scores
            scores[f"{each.adversary}_one_run_coins"] = each.one_run.coins
    write_arrays(folder / "scores.npz", scores)
    write_text(folder / "audit.md", audit_markdown(result))
    draw_audit(result, folder / "audit.png")
    write_text(folder / SCENARIO, result.scenario.to_toml())
    write_text(folder / METRICS, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
