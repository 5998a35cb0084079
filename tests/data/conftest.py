from __future__ import annotations

from pathlib import Path

import pytest
import tiny_mnist

from airmixml.data import mnist_files, mnist_sources


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cut every test off from the network, the user's cache and the real npm; return MNIST's cache folder."""
    monkeypatch.setenv("AIRMIX_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(mnist_sources, "MIRRORS", ())
    return tmp_path / "cache" / "mnist"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let six training and three test images pass for MNIST."""
    monkeypatch.setattr(mnist_files, "MNIST_FILES", tiny_mnist.FILES)
