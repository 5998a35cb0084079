"""The folder of a comparison: every finished result is kept, so that the same command goes on where it stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from airmixml.errors import RunFolderError
from airmixml.storage.files import TEMPORARY_SUFFIX, write_text
from airmixml.storage.run_folder import take_lock

_IDENTITY: Final = "identity.json"
_LOCK: Final = ".lock"
_RESULTS: Final = "results"
_NEEDED: Final = frozenset({"accuracy", "privacy", "uplink_symbols", "energy_joules", "seconds"})


class ComparisonFolder:
    """Results of one comparison, one file for each method (or value) and seed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, name: str, seed: int) -> dict[str, Any] | None:
        """Return a finished result; None where there is none, or a damaged one."""
        try:
            result = json.loads(self._file(name, seed).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        whole = isinstance(result, dict) and set(result) >= _NEEDED
        return result if whole and _is_share(result["accuracy"]) else None

    def save(self, name: str, seed: int, result: dict[str, Any]) -> None:
        """Keep a finished result, whole or not at all."""
        file = self._file(name, seed)
        file.parent.mkdir(exist_ok=True)
        write_text(file, json.dumps(result, indent=1, allow_nan=False) + "\n")

    def _file(self, name: str, seed: int) -> Path:
        return self.path / _RESULTS / f"{re.sub(r'[^A-Za-z0-9.+-]', '_', name)}-seed{seed}.json"


def _is_share(value: object) -> bool:
    return isinstance(value, float | int) and 0.0 <= value <= 1.0


@contextmanager
def enter_folder(path: Path, identity: dict[str, Any], *, force: bool) -> Iterator[ComparisonFolder]:
    """Lock the folder; it may hold results of the same comparison, and with ``force`` those of another are removed."""
    if os.path.lexists(path) and not path.is_dir():
        raise RunFolderError(f"{path}: is not a folder; choose another --out")
    known, text = path / _IDENTITY, json.dumps(identity, sort_keys=True) + "\n"
    if path.is_dir() and not known.exists() and any(entry.name != _LOCK for entry in path.iterdir()):
        raise RunFolderError(f"{path}: exists and was not made by airmix compare; choose another --out")
    path.mkdir(parents=True, exist_ok=True)
    lock = take_lock(path / _LOCK)
    if lock is None:
        raise RunFolderError(f"{path}: another process is writing it; wait for it or choose another --out")
    try:
        if known.exists() and known.read_bytes() != text.encode("utf-8"):
            if not force:
                raise RunFolderError(
                    f"{path}: holds a comparison with other settings; choose another --out, or --force to replace it"
                )
            for entry in path.iterdir():
                if entry.name != _LOCK:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for half_written in path.rglob(f"*{TEMPORARY_SUFFIX}"):
            half_written.unlink()
        write_text(known, text)
        yield ComparisonFolder(path)
    finally:
        (path / _LOCK).unlink(missing_ok=True)
        lock.close()
