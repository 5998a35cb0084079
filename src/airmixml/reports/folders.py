"""Which kind of folder it is, and its files; whatever else a folder holds is somebody's own and is not read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airmixml.errors import RunFolderError, ScenarioError
from airmixml.reading import Read, read_regular
from airmixml.scenario import Scenario
from airmixml.storage.results import corrupt_file
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

    def scenario(self) -> Scenario:
        """Return what was run: of the TOML file, or of the JSON file where there is none."""
        toml = self.path / SCENARIO
        there = os.path.lexists(toml)
        try:
            return Scenario.load(toml) if there else Scenario.from_json(self.plain["scenario"])
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
    telling = {"cases": "attack", "audits": "audit", "feasible": "plan"} if file.name == METRICS else {}
    kind = next((kind for key, kind in telling.items() if key in plain), _KINDS[file.name])
    return FoundFolder(path=path, kind=kind, file=file, plain=plain)
