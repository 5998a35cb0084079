"""Which kind of folder it is, its learning curve, and whether a file is a report."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airmixml.errors import RunFolderError, ScenarioError
from airmixml.files import Read, corrupt_file, read_regular
from airmixml.output.page import GENERATOR
from airmixml.scenario import Scenario
from airmixml.storage.run_folder import METRICS, PARTIAL, SCENARIO
from airmixml.wording import reason

# The file that makes a folder what it is, in the order in which they are looked for.
_KINDS: Final = {
    METRICS: "run",
    "compare.json": "comparison",
    "sweep.json": "sweep",
    "tolerances.json": "tolerances",
    "report.json": "reproduction",
}
_LARGEST_BYTES: Final = 256_000_000  # a sweep of very many cells; nothing that airmix writes is larger


@dataclass(frozen=True, kw_only=True)
class FoundFolder:
    """A folder that a command has made."""

    path: Path
    kind: str  # run, attack, audit, plan, comparison, sweep, tolerances or reproduction
    file: Path  # the JSON file that says so
    plain: dict[str, Any]  # its content

    def scenario(self) -> Scenario | None:
        """Return what was run: of the TOML file, or of the JSON file where there is none; None of a reproduction."""
        if self.kind == "reproduction":
            return None
        toml = self.path / SCENARIO
        there = os.path.lexists(toml)
        try:
            scenario = Scenario.load(toml) if there else Scenario.from_json(self.plain["scenario"])
            if self.kind == "run" and scenario.name != self.plain.get("name", scenario.name):
                raise ScenarioError(f'name = "{scenario.name}": is the scenario of another run')
            return scenario
        except ScenarioError as problem:
            raise corrupt_file(toml if there else self.file, problem, f"the folder {self.path}") from None


def find_folder(path: Path | str, work: Path | None = None, read: Read = read_regular) -> FoundFolder:
    """Return what a folder holds; refuse one that airmix did not make, or whose results were changed.

    ``work`` is where its files are before it gets its name; ``read`` reads one.
    """
    path = Path(path)
    if path.absolute().name.endswith(PARTIAL):
        raise RunFolderError(f"{path}: an interrupted run; run the same command again to finish it")
    path = work or path
    if not path.is_dir():
        there = "is no folder" if path.exists() else "there is no such folder"
        raise RunFolderError(f"{path}: {there}; give one that airmix made, such as runs/NAME")
    file = next((path / name for name in _KINDS if (path / name).is_file()), None)
    if file is None:
        raise RunFolderError(
            f"{path}: holds none of {', '.join(_KINDS)}; give a folder that airmix run, attack, audit, plan, compare, "
            "sweep, tolerances or reproduce made"
        )
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise ValueError("it is too large")
        plain = json.loads(read(file))
        if not isinstance(plain, dict):
            raise ValueError("not a JSON object")
    except OSError as problem:
        raise RunFolderError(f"{file}: cannot be read ({reason(problem)})") from None
    except (ValueError, RecursionError) as problem:
        raise corrupt_file(file, problem, delete=f"the folder {path}") from None
    telling = {"naming_bound": "attack", "audits": "audit", "feasible": "plan"} if file.name == METRICS else {}
    kind = next((kind for key, kind in telling.items() if key in plain), _KINDS[file.name])
    return FoundFolder(path=path, kind=kind, file=file, plain=plain)


_MOST_STEPS: Final = 10**12
# What a curve may count, and where that begins: the first model of a run with rounds is that before them.
_FIRST: Final = {"epoch": 1, "round": 0}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learning curve: per column of the CSV file (training_loss, test_accuracy, ...) the steps and values."""

    columns: dict[str, tuple[tuple[int, float], ...]]
    step: str  # what is counted; see ``_FIRST``


def read_curve(folder: Path, read: Read = read_regular) -> Curve | None:
    """Return the learning curve of a run folder, one point without epochs or rounds; None where there is no curve."""
    path = folder / "learning_curve.csv"
    columns: dict[str, tuple[tuple[int, float], ...]] = {}
    try:
        rows = list(csv.DictReader(io.StringIO(read(path).decode("utf-8-sig"), newline="")))
        step = next((step for step in _FIRST if rows and step in rows[0]), "epoch")
        for name in rows[0] if rows else ():
            points = [(int(row[step]), float(row[name])) for row in rows if name != step and row[name]]
            if not all(_FIRST[step] <= at <= _MOST_STEPS for at, _ in points):
                raise ValueError(f"{step}s must be from {_FIRST[step]} to {_MOST_STEPS}")
            if points:
                columns[name] = tuple((at, value) for at, value in points if math.isfinite(value))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise RunFolderError(f"{path}: cannot be read ({reason(problem)})") from None
    except (ValueError, KeyError, TypeError, csv.Error) as problem:
        raise corrupt_file(path, problem, delete=f"the folder {folder}") from None
    return Curve(columns=columns, step=step) if columns else None


_BEGINNING: Final = 20_000  # bytes of a page, in which it says what it is


def is_report(path: Path) -> bool:
    """Whether a file is a page of ours."""
    try:
        text = read_regular(path, _BEGINNING).decode("utf-8", errors="replace")
    except OSError:
        return False
    return f'<meta name="generator" content="{GENERATOR}' in text
