"""Finished batches on disk: one file each, whole or not there, found again by what was asked."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from airmixml.storage.files import write_text
from airmixml.sweeps.batches import Batch
from airmixml.sweeps.work import Outcome


class BatchStore:
    """Keeps the outcomes of batches in a folder; a damaged file counts as not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, batch: Batch) -> list[Outcome] | None:
        """Return the outcomes of a finished batch, or None."""
        try:
            content = json.loads(self._file(batch).read_text(encoding="utf-8"))
            outcomes: list[Outcome] = content["outcomes"]
            if content["checksum"] != _checksum(outcomes) or len(outcomes) != len(batch.scenarios):
                return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        self._forget_beginnings(batch)
        return outcomes

    def save(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Keep the outcomes of a finished batch."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = {
            "kind": batch.kind,
            "seed": batch.seed,
            "device": batch.device,
            "checksum": _checksum(outcomes),
            "outcomes": outcomes,
        }
        write_text(self._file(batch), json.dumps(content) + "\n")
        self._forget_beginnings(batch)

    def _forget_beginnings(self, batch: Batch) -> None:
        shutil.rmtree(self.checkpoints(batch), ignore_errors=True)

    def checkpoints(self, batch: Batch) -> Path:
        """Return the folder for the beginnings of a batch."""
        return self._folder / f"{batch.digest}.partial"

    def _file(self, batch: Batch) -> Path:
        return self._folder / f"{batch.digest}.json"


def _checksum(outcomes: list[Outcome]) -> str:
    return hashlib.sha256(json.dumps(outcomes, sort_keys=True).encode()).hexdigest()
