"""The state of an interrupted training, kept in the folder of its run."""

from __future__ import annotations

import hashlib
import io
import time
from pathlib import Path
from typing import Any

import torch

from airmixml.storage.files import write_bytes

CHECKPOINT = "checkpoint.pt"
_DIGEST_BYTES = 32


class FileCheckpoint:
    """Keeps the state of a training in the folder being filled, at most once in a few seconds.

    ``made_with`` says on what it was made (device, versions); a state made on something else is not gone on from, since
    the run would then end elsewhere than an uninterrupted one. A checksum guards against damage.
    """

    def __init__(self, folder: Path, *, made_with: str = "", every_seconds: float = 5.0) -> None:
        self._path = folder / CHECKPOINT
        self._made_with = made_with
        self._every_seconds = every_seconds
        self._last_save = time.monotonic()
        self.resumed_epoch = 0

    def load(self) -> dict[str, Any] | None:
        """Return the last state, or None if there is none to go on from."""
        if not self._path.exists():
            return None
        content = self._path.read_bytes()
        payload = content[_DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() != content[:_DIGEST_BYTES]:
            return None  # damaged: only costs the epochs it held
        state: dict[str, Any] = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        if state["made_with"] != self._made_with:
            return None
        self.resumed_epoch = int(state["epoch"])
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state, unless the last one is only seconds old."""
        if time.monotonic() - self._last_save < self._every_seconds:
            return
        buffer = io.BytesIO()
        torch.save({**state, "made_with": self._made_with}, buffer)
        payload = buffer.getvalue()
        write_bytes(self._path, hashlib.sha256(payload).digest() + payload)
        self._last_save = time.monotonic()
