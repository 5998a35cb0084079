"""The folder of a comparison: every finished result is kept, so that the same command resumes where it stopped."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from airmixml.compare.work import Outcome
from airmixml.errors import RunFolderError
from airmixml.storage.results import ResultStore, from_plain
from airmixml.storage.run_folder import PARTIAL, hold_folder

_RESULTS: Final = "results"
_OWN: Final = frozenset({_RESULTS, *(f"compare.{suffix}" for suffix in ("md", "csv", "tex", "json", "png", "svg"))})


class ComparisonFolder:
    """Results of one comparison, one file for each method (or value) and seed."""

    def __init__(self, path: Path) -> None:
        self._store = ResultStore(path / _RESULTS)

    def load(self, name: str, seed: int) -> dict[str, Any] | None:
        """Return a finished result; None where there is none, or a damaged one."""
        return self._store.load(_file(name, seed), lambda result, _: _checked(result))

    def save(self, name: str, seed: int, result: dict[str, Any]) -> None:
        """Keep a finished result, whole or not at all."""
        self._store.save(_file(name, seed), result)


def _file(name: str, seed: int) -> str:
    return f"{re.sub(r'[^A-Za-z0-9.+-]', '_', name)}-seed{seed}.json"


def _checked(result: dict[str, Any]) -> dict[str, Any]:
    outcome: Outcome = from_plain(Outcome, result)
    if not 0.0 <= outcome.accuracy <= 1.0 or not outcome.privacy:
        raise ValueError(f"accuracy = {outcome.accuracy}, with {len(outcome.privacy)} statements of privacy")
    return result


@contextmanager
def enter_folder(path: Path, identity: dict[str, Any], *, force: bool) -> Iterator[ComparisonFolder]:
    """Lock the folder; it may hold results of the same comparison, and with ``force`` those of another are removed."""
    if path.name.endswith(PARTIAL):
        raise RunFolderError(f"{path}: belongs to an interrupted run; choose an --out that does not end in {PARTIAL}")
    with hold_folder(path, identity, holds="a comparison", force=force, own=_OWN):
        yield ComparisonFolder(path)
