"""How a case is played, command by command, and what is a finding in it."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from soak_cases import PRIVATE, RESUME, Case
from soak_worker import DIED, HUNG, KILLED, Outcome

from airmixml.scenario.toml import all_keys

REFUSAL_SECONDS: Final = 3.0  # of a processor, without imports
_TAIL: Final = 2000
# A refusal tells what to do in words such as these, or names the key that is to change.
_ADVICE: Final = re.compile(
    r"\b(must|needs?|use|set|choose|leave|add|remove|give|try|lower|raise|instead|at (least|most)|or|without)\b|--[a-z]"
)
_HIDDEN_TRACEBACK: Final = ("in the code that private rows went through", "the output cannot be written")
_MAY_DIFFER: Final = {"seconds", "run_dir", "resumed_from_epoch"}
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command of a case."""

    words: tuple[str, ...]
    kill_after: float = math.inf  #: seconds of a processor


Record = dict[str, Any]
Play = Generator[Step, Outcome, Record]


def play(case: Case, folder: Path) -> Play:
    """Yield the commands of a case, take how each ended, and return what is to be recorded."""
    whole, again = folder / "whole", folder / "again"
    first = yield Step(words=(*case.words, "--out", str(whole)))
    metrics = _metrics(whole)
    found = finding(case, first, whole, metrics)
    if case.kind == RESUME and not found and first.code == 0:
        words = (*case.words, "--out", str(again))
        killed = yield Step(words=words, kill_after=case.killed_at * first.cpu_seconds)
        resumed = yield Step(words=words)
        found = finding(case, resumed, again, _metrics(again)) or difference(whole, again)
        if found:
            found = f"{found} (killed after {killed.cpu_seconds:.2f} s of CPU time, then resumed)"
    own = (metrics.get("privacy") or [{}])[0]
    epsilons: dict[str, float] = {}
    for each in metrics.get("privacy", ()):
        if each["adjacency"] == own["adjacency"]:
            epsilons[each["adversary"]] = min(each["epsilon"], epsilons.get(each["adversary"], math.inf))
    base = metrics.get("baselines") or {}
    return {
        **{name: getattr(case, name) for name in ("kind", "preset", "air", "seed", "size", "device")},
        "command": case.command,
        "identity": case.identity,
        "exit_code": first.code,
        "seconds": round(first.seconds, 3),
        "cpu_seconds": round(first.cpu_seconds, 3),
        "accuracy": (metrics.get("accuracy") or {}).get("final"),
        "guess": base.get("guess"),
        "gain": base.get("gain"),
        "gain_error": base.get("gain_error"),
        "epsilon": own.get("epsilon"),
        "target": own.get("target_epsilon"),
        "epsilons": epsilons,
        "refusal": first.error.strip()[-_TAIL:] if first.code == 2 else "",
        "finding": found,
        "error": first.error[-_TAIL:] if found and first.code != 2 else "",
    }


def finding(case: Case, outcome: Outcome, folder: Path, metrics: Record) -> str:
    """Return in one line what is wrong with how a command ended; empty: nothing."""
    last = " ".join((outcome.error.strip().splitlines() or ["nothing on stderr"])[-1].split())
    if outcome.how in (HUNG, KILLED):
        return f"hang: no end after {outcome.seconds:.0f} s, {outcome.cpu_seconds:.0f} s of them computing"
    if outcome.code == 2 and outcome.how != DIED:
        return _of_refusal(outcome, last, folder)
    if outcome.code or outcome.how == DIED:
        return f"{'died' if outcome.how == DIED else 'traceback'}: exit code {outcome.code}: {last}"
    if bad := next(not_finite(folder), ""):
        return f"not finite: {bad}"
    own = metrics["privacy"][0] if case.kind == PRIVATE and metrics.get("privacy") else {}
    target = own.get("target_epsilon")
    if target is not None and not own["epsilon"] <= target * (1.0 + _ROUNDING):
        return f"epsilon {own['epsilon']:.6g} above its target {target:g} in protection"
    return ""


def _of_refusal(outcome: Outcome, last: str, folder: Path) -> str:
    lines = [line for line in outcome.error.splitlines() if line and not line.startswith("airmix: warning: ")]
    if len(lines) != 1 or not last.startswith("airmix: error: "):
        return f"refusal: not one line of error: {last}"
    if any(words in last for words in _HIDDEN_TRACEBACK):
        return f"traceback, hidden: {last}"
    if folder.exists():
        return f"refusal: leaves its folder behind: {last}"
    if outcome.cpu_seconds > REFUSAL_SECONDS:
        return f"refusal: after {outcome.cpu_seconds:.1f} s of CPU time: {last}"
    said = last.removeprefix("airmix: error: ")
    if not _ADVICE.search(said) and not any(name in said.partition(":")[2] for name in all_keys()):
        return f"refusal: does not say which change would make it run: {last}"
    return ""


def not_finite(folder: Path) -> Iterator[str]:
    """Yield files of a run folder that hold a number that is not finite."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json" and re.search(r"\b(NaN|Infinity)\b", path.read_text(encoding="utf-8")):
            yield path.name
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                kept = {name: arrays[name] for name in arrays.files}
            yield from (
                f"{path.name}: {name}"
                for name, values in kept.items()
                if np.issubdtype(values.dtype, np.inexact) and not np.isfinite(values).all()
            )
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as rows:
                if any(cell.lower() in ("nan", "inf", "-inf") for row in csv.reader(rows) for cell in row):
                    yield path.name


def difference(whole: Path, again: Path) -> str:
    """Return what differs between a run and one that was killed and resumed; empty: nothing that may not."""
    if unequal := next(_unequal(_metrics(whole), _metrics(again), ""), ""):
        return f"resumed run differs: metrics.json: {unequal}"
    for pattern in ("*.csv", "*.npz"):
        names = [{path.relative_to(each) for path in each.rglob(pattern)} for each in (whole, again)]
        if names[0] != names[1]:
            return f"resumed run differs: files {sorted(map(str, names[0] ^ names[1]))}"
        for name in sorted(names[0]):
            if pattern == "*.csv" and (whole / name).read_bytes() != (again / name).read_bytes():
                return f"resumed run differs: {name}"
            if pattern == "*.npz":
                with np.load(whole / name) as one, np.load(again / name) as other:
                    if any(not np.array_equal(one[part], other[part]) for part in one.files):
                        return f"resumed run differs: {name}"
    return ""


def _unequal(one: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other} - _MAY_DIFFER):
            yield from _unequal(one.get(name), other.get(name), f"{where}.{name}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _unequal(left, right, f"{where}[{place}]")
    elif one != other:
        yield f"{where}: {one} and {other}"


def _metrics(folder: Path) -> Record:
    try:
        read: Record = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read


def clear(folder: Path) -> None:
    """Remove what a case wrote."""
    shutil.rmtree(folder, ignore_errors=True)
