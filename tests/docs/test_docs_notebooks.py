"""The example notebooks: stored without outputs, and every cell runs."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def executed(name: str, folder: Path) -> list[dict[str, Any]]:
    """Run a notebook in the folder; return what its cells show, by kind of content."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [each for each in outputs if each.get("name") == "stderr"]
    return [each.get("data", {"text/plain": each.get("text", "")}) for each in outputs]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_stored_without_outputs(name: str) -> None:
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.long
def test_the_first_run(tmp_path: Path) -> None:
    shown = executed("first_run.ipynb", tmp_path)
    assert sum("image/png" in each for each in shown) == 3
    tables = " ".join(each.get("text/html", "") for each in shown)
    assert "Mixtures of private-iris" in tables
    assert "epsilon 5, delta 0.01 for a worker" in tables


@pytest.mark.long
def test_your_own_table(tmp_path: Path) -> None:
    shown = executed("your_own_table.ipynb", tmp_path)
    tables = " ".join(each.get("text/html", "") for each in shown)
    assert tables.count("for a worker") + tables.count("for a row") >= 2
    text = " ".join(each["text/plain"] for each in shown)
    accuracy = float(text.partition("public rows: ")[2].partition(" %")[0])
    assert accuracy > 80.0
    assert "protection" in tables
