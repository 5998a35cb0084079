"""Pictures of runs: what is drawn is whole, and can be read."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airmixml import Scenario, run, simulate, train
from airmixml.runs.pictures import run_figure

PRIVATE = Scenario.preset("private-iris")
PAPER = Scenario.preset("paper-iris").with_overrides("radio.slots=40", "learner.epochs=3")


@pytest.fixture(scope="module")
def drawn() -> dict[str, Figure]:
    figures = {}
    for name, scenario in (("paper", PAPER), ("private", PRIVATE)):
        mixtures = simulate(scenario)
        figures[name] = run_figure(mixtures, train(mixtures).history)
    return figures


def axes_of(figure: Figure, title: str) -> Axes:
    return next(axis for axis in figure.axes if axis.get_title().startswith(title))


def test_no_marker_is_cut_at_the_edge_of_its_panel(drawn: dict[str, Figure]) -> None:
    for slot in range(1, 9):
        axis = axes_of(drawn["paper"], f"slot {slot}:")
        (low, high), (bottom, top) = axis.get_xlim(), axis.get_ylim()
        for line in axis.lines[:2]:
            x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
            if len(x) > 2:  # the dots; the dotted line between inputs and labels runs through
                assert low < x.min() - 0.5
                assert x.max() + 0.5 < high
                assert bottom < y.min()
                assert y.max() < top


def test_accuracies_start_at_zero_beside_what_guessing_gives(drawn: dict[str, Figure]) -> None:
    for name, title in (("paper", "Learning curve"), ("private", "Accuracy of each class")):
        axis = axes_of(drawn[name], title)
        assert axis.get_ylim()[0] == 0
        labels = [text.get_text() for text in axis.get_legend().get_texts()]
        # 20 of the 50 test flowers of seed 0 are of the most frequent class.
        assert "guessing 40 %" in labels


def test_equal_shares_are_called_so(drawn: dict[str, Figure]) -> None:
    assert axes_of(drawn["private"], "slot 1:").get_title() == "slot 1: equal shares"


def test_releases_have_a_picture_of_what_they_reveal_together(tmp_path: Path) -> None:
    run(PRIVATE, seeds=2, private=True, out=tmp_path / "real")
    assert (tmp_path / "real" / "figures" / "privacy.png").exists()


def test_a_single_epoch_is_a_curve_of_one_point() -> None:
    mixtures = simulate(PAPER.with_overrides("learner.epochs=1"))
    axis = axes_of(run_figure(mixtures, train(mixtures).history), "Learning curve")
    assert len(axis.lines[0].get_xdata()) == 1
