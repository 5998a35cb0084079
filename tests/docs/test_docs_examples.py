"""The examples of the gallery: each runs, draws, and shows what its text says; each is also a valid notebook."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from nbclient import NotebookClient
from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
from sphinx_gallery.notebook import jupyter_notebook, save_notebook
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

EXAMPLES = Path(__file__).parents[2] / "examples"
NOT_IN_GALLERY = {"pretrained_encoder", "stream"}
QUICK = ("mixing_ratios", "power_and_privacy", "what_an_eavesdropper_sees")
GALLERY = sorted({path.stem for path in EXAMPLES.glob("*.py")} - NOT_IN_GALLERY)
Run = Callable[[str], tuple[dict[str, Any], str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run an example in an empty folder; return its names and what it printed."""

    def one(name: str) -> tuple[dict[str, Any], str]:
        import matplotlib.pyplot as plt

        printed = StringIO()
        with mpl.rc_context({"backend": "agg"}), chdir(tmp_path), redirect_stdout(printed):
            names = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        plt.close("all")
        assert isinstance(names["figure"], Figure)
        assert not os.listdir(tmp_path)
        return names, printed.getvalue()

    return one


def test_every_example_has_its_place_in_the_gallery() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES.parent / "docs" / "_ext")
        from gallery import ByStory  # type: ignore[import-not-found]
    assert sorted(ByStory.order) == GALLERY


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example(name: str, run: Run) -> None:
    names, printed = run(name)
    if name == "mixing_ratios":
        assert np.allclose(names["ratios"], 1 / names["WORKERS"], atol=0.02)  # of the last alpha, 1e5
    elif name == "power_and_privacy":
        assert np.all(np.diff(names["powers"]) > 0)  # a looser target allows more power
        stated = names["stated"]
        assert np.all(np.array(stated["release"]) <= names["EPSILONS"])  # no accountant is looser than the paper's
        assert np.all(np.array(stated["server"]) > stated["release"])
    else:
        epsilons = [float(line.split()[1].replace(",", "")) for line in printed.splitlines()]
        assert epsilons == sorted(epsilons)


def test_objects_of_ones_own(run: Run) -> None:
    names, printed = run("own_power_policy")
    epsilons = names["epsilons"]
    assert printed.startswith("share 1: epsilon 5, share 0.5: ")
    assert epsilons[0] == pytest.approx(5.0, rel=1e-6)
    assert np.all(np.diff(epsilons) < 0.0)  # less power reveals less
    assert np.all(np.diff(run("own_channel")[0]["energies"]) < 0.0)  # channels that fade less
    errors = run("own_impairment")[0]["errors"]
    assert errors[0] == 0.0
    assert np.all(np.diff(errors) > 0.0)


@pytest.mark.long
def test_further_objects_of_ones_own(run: Run) -> None:
    """Energy follows losses, shares and adversaries; the target of 5 is kept in all."""
    for name in ("own_path_loss", "own_ratios", "own_adversary"):
        names, _ = run(name)
        assert names["epsilons"] == pytest.approx([5.0] * 4, rel=1e-6)
        assert np.all(np.diff(names["energies"]) < 0.0)
    reports = run("own_schedule")[0]["reports"]
    assert set(reports["in turn"].ledger.participations.tolist()) == {4}  # 1,000 slots of 8 among 2,000 workers
    random, turns = (reports[name].privacy_against_server.epsilon for name in ("at random", "in turn"))
    assert turns < random
    draws = run("own_assignment")[0]["draws"]["to the weakest"]
    assert (draws.ratios.argmax(axis=1) == draws.magnitude.argmin(axis=1)).all()
    assert min(run("own_encoder")[0]["accuracies"]) > 85.0
    assert run("own_learner")[0]["finals"][16] > 0.8


def test_the_table_of_objects_names_every_example() -> None:
    text = (EXAMPLES.parent / "docs" / "extending.md").read_text(encoding="utf-8")
    assert [name for name in GALLERY if name.startswith("own_") and f"(../examples/{name}.py)" not in text] == []


@pytest.mark.long
def test_a_loop_of_ones_own(run: Run) -> None:
    assert run("own_loop")[0]["accuracies"][-1] > 0.8


@pytest.mark.long
def test_the_first_run(run: Run) -> None:
    names, _ = run("first_run")
    assert names["mixtures"].inputs.shape[0] == 1
    assert names["mixtures"].inputs.shape[1] + names["mixtures"].labels.shape[1] == 30
    assert names["trained"].history.final_accuracy > 0.8


@pytest.mark.long
def test_trust_nobody(run: Run) -> None:
    least = run("trust_nobody")[0]["least"]
    assert max(least["trustless-iris"]) <= 5.0
    assert least["private-iris"][1] <= 5.0 < least["private-iris"][2]
    assert np.isinf(least["private-iris"][3])


@pytest.mark.long
def test_your_own_table(run: Run) -> None:
    names, printed = run("your_own_table")
    assert float(printed.partition("public rows: ")[2].partition(" %")[0]) > 80.0
    assert names["model"].privacy_.epsilon <= 1.0
    assert "ledger.npz" not in printed


@pytest.mark.long
def test_in_a_pipeline(run: Run) -> None:
    names, _ = run("scikit_learn_pipeline")
    assert names["means"][-1] > names["means"][0]
    assert names["model"][-1].privacy_.epsilon <= 5.0


@pytest.mark.long
def test_an_imperfect_air(run: Run) -> None:
    names, _ = run("an_imperfect_air")
    assert max(names["epsilon"].values()) <= 5.0 + 1e-9
    assert min(np.mean(each) for each in names["accuracy"].values()) > 80.0


@pytest.mark.long
def test_a_plan(run: Run) -> None:
    names, _ = run("planning")
    assert names["plan"].feasible
    assert "radio.slots=1" in names["plan"].recommended.overrides


def notebook_of(name: str, folder: Path) -> nbformat.NotebookNode:
    """Return the notebook that the gallery makes of an example."""
    _, blocks = split_code_and_text_blocks(str(EXAMPLES / f"{name}.py"))
    save_notebook(jupyter_notebook(blocks, dict(DEFAULT_GALLERY_CONF), str(EXAMPLES)), folder / f"{name}.ipynb")
    return nbformat.read(folder / f"{name}.ipynb", as_version=4)


@pytest.mark.parametrize("name", GALLERY)
def test_each_is_a_notebook_without_outputs(name: str, tmp_path: Path) -> None:
    notebook = notebook_of(name, tmp_path)
    nbformat.validate(notebook)
    assert [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.long
def test_a_notebook_runs_and_shows_tables_and_pictures(tmp_path: Path) -> None:
    notebook = notebook_of("first_run", tmp_path)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [each for each in outputs if each.get("name") == "stderr"]
    shown = [each.get("data", {}) for each in outputs]
    assert sum("image/png" in each for each in shown) == 3
    tables = " ".join(each.get("text/html", "") for each in shown)
    assert "Trained model" in tables
    assert "epsilon 5, delta 0.01 for a worker" in tables
