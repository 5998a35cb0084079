"""Folders of every kind, made once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from folders_for_tests import COMMANDS, Finished, Page


@pytest.fixture(scope="session")
def read_page() -> Callable[[Path], Page]:
    return lambda path: Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def made(
    airmix_in: Callable[..., Finished], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Finished, Path]]:
    """Return what a command of that kind printed, and its folder, made once for all tests, which do not change it."""
    found: dict[str, tuple[Finished, Path]] = {}

    def make(kind: str) -> tuple[Finished, Path]:
        if kind not in found:
            where = tmp_path_factory.mktemp(kind)
            done = airmix_in(*COMMANDS[kind], "--out", "here", cwd=where)
            assert done.returncode == 0, done.stderr
            found[kind] = done, where / "here"
        return found[kind]

    return make


@pytest.fixture
def copy_of(made: Callable[[str], tuple[Finished, Path]], tmp_path: Path) -> Callable[..., Path]:
    """Return a folder of that kind that a test may change."""

    def copy(kind: str, name: str = "") -> Path:
        return Path(shutil.copytree(made(kind)[1], tmp_path / (name or kind)))

    return copy
