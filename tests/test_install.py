"""The installer behind ``make``: uv is told what pip was told, and pip takes over where uv fails."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

INSTALLER = Path(__file__).parents[1] / "tools" / "install.py"


@pytest.fixture
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", INSTALLER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_uv_is_told_what_pip_was_told(installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_")) or name == "SSL_CERT_FILE"]:
        monkeypatch.delenv(name)
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://one.example/simple\ncert = /certificates.crt\n"
        "extra-index-url = file:///two file:///three\nfind-links = /four /five\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")  # the environment is above the file
    told = installer.uv_settings(installer.pip_settings())
    assert told["UV_DEFAULT_INDEX"] == "https://one.example/simple"
    assert told["UV_INDEX"].split() == ["file:///two", "file:///three"]
    assert told["UV_FIND_LINKS"].split(",") == ["/wheels", "/more"]
    assert told["SSL_CERT_FILE"] == "/certificates.crt"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine.example/simple")  # what uv itself was told stays
    assert "UV_DEFAULT_INDEX" not in installer.uv_settings(installer.pip_settings())


@pytest.mark.long
def test_pip_takes_over_where_uv_cannot_be_had(tmp_path: Path) -> None:
    nowhere = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "made"], check=True)
    python = tmp_path / "made" / "bin" / "python"
    done = subprocess.run([python, INSTALLER, "pip"], env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # pip finds itself installed
    done = subprocess.run([python, INSTALLER, "no-such-package"], env=nowhere, capture_output=True, check=False)
    assert done.returncode != 0
