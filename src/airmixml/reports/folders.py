"""Which kind of folder it is, its files, and the command that makes it again: as typed, or as the files tell it."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

from airmixml.errors import RunFolderError, ScenarioError
from airmixml.output.page import COMMAND, GENERATOR
from airmixml.reading import Read, read_regular
from airmixml.scenario import Scenario
from airmixml.storage.files import corrupt_file
from airmixml.storage.run_folder import METRICS, PARTIAL, REPORT, SCENARIO
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
    telling = {"cases": "attack", "audits": "audit", "feasible": "plan"} if file.name == METRICS else {}
    kind = next((kind for key, kind in telling.items() if key in plain), _KINDS[file.name])
    return FoundFolder(path=path, kind=kind, file=file, plain=plain)


_BEGINNING: Final = 20_000  # bytes of a page, in which it says what it is
_META: Final = re.compile(r'<meta name="([^"]*)" content="([^"]*)">')
_LEFT_OUT: Final = {"--json": 0, "--force": 0, "--out": 1}  # options that decide no result, and how many words follow


def typed_command() -> tuple[str, ...]:
    """Return the words of the command line, without what decides only where results go."""
    words, kept = iter(sys.argv[1:]), ["airmix"]
    for word in words:
        name, _, value = word.partition("=")
        if name not in _LEFT_OUT:
            kept.append(word)
        elif not value and _LEFT_OUT[name]:
            next(words, None)
    return tuple(kept)


def recorded_command(folder: Path) -> tuple[str, ...]:
    """Return the command that an earlier report of the folder names; empty where there is none."""
    try:
        words = json.loads(_about(folder / REPORT).get(COMMAND, "[]"))
    except ValueError:
        return ()
    return tuple(words) if isinstance(words, list) and all(isinstance(word, str) for word in words) else ()


def is_report(path: Path) -> bool:
    """Whether a file is a page of ours."""
    return _about(path).get("generator", "").startswith(GENERATOR)


def _about(path: Path) -> dict[str, str]:
    """Return what a page of ours says about itself; nothing where it cannot be read."""
    try:
        text = read_regular(path, _BEGINNING).decode("utf-8", errors="replace")
    except OSError:
        return {}
    return {name: unescape(content) for name, content in _META.findall(text)}
