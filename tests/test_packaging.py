"""What is published is whole: the description of the package, and the versions that it is tested with."""

from __future__ import annotations

import email
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> email.message.Message:
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src/airmixml/version.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "built").mkdir()
    subprocess.run([sys.executable, "-c", BUILD, "built"], cwd=folder, check=True, capture_output=True)
    (found,) = folder.glob("built/*.dist-info/METADATA")
    return email.message_from_string(found.read_text(encoding="utf-8"))


def test_the_description_leads_nowhere_that_is_not_there(metadata: email.message.Message) -> None:
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert re.findall(r"!?\[[^]]*\]\((?!https://)|<img|<a |^\[[^]]*\]:", text, re.MULTILINE) == []


def test_the_description_has_all_other_words_of_the_read_me(metadata: email.message.Message) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line for line in readme.splitlines() if line and "](" not in line]
    assert len(shown) > 50
    assert [line for line in str(metadata.get_payload()).splitlines() if line in shown] == shown
    assert "Iris experiment of the paper (Koda" in str(metadata.get_payload())


PYPROJECT = """
[project]
dependencies = ["torch>=2.9", "NumPy>=2.0", "scikit_learn>=1.6", "click"]

[project.optional-dependencies]
masks = ["cryptography>=44"]
deploy = ["cryptography>=44", "paho-mqtt>=2"]
explore = []
onnx = ["onnx>=1.17"]
ray = ["ray>=2.40"]
dev = ["mypy>=1.15", "pytest>=8"]
"""
CONSTRAINTS = """# a remark with name==1
numpy==2.4.6
scikit-learn==1.9.1
torch==2.13.0
cryptography==50.0.2
mypy==2.4.1
pytest==9.2.0
Jinja2==3.1.6
"""


@pytest.fixture
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bounds", ROOT / "tools" / "bounds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "constraints.txt").write_text(CONSTRAINTS)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_lowest_versions_are_the_declared_ones(bounds: ModuleType) -> None:
    """Of the package and its extras; torch, and what only tests need, stay at the versions of the constraints."""
    declared = {"numpy": "2.0", "scikit-learn": "1.6", "cryptography": "44", "paho-mqtt": "2", "onnx": "1.17"}
    kept = {"mypy": "2.4.1", "pytest": "9.2.0", "jinja2": "3.1.6"}
    assert bounds.chosen("lowest") == declared | kept | {"torch": "2.13.0"}
    assert bounds.chosen("lowest", torch="2.9.0") == declared | kept | {"torch": "2.9.0"}


def test_newest_versions_are_left_free_but_for_tools(bounds: ModuleType) -> None:
    assert bounds.chosen("newest") == {"mypy": "2.4.1", "pytest": "9.2.0", "torch": "2.13.0"}


def test_two_bounds_of_a_package_are_refused(bounds: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bounds.main("newest") == 0
    assert capsys.readouterr().out.splitlines() == ["mypy==2.4.1", "pytest==9.2.0", "torch==2.13.0"]
    with pytest.raises(SystemExit, match="cryptography >= 45 and >= 44"):
        bounds.bounds(["cryptography>=44", "cryptography>=45"])
