"""Pictures inside pages: within the budget, fewer colours before fewer pictures, and curves that say what they show."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from airmixml.output.page import Picture
from airmixml.reports.content import Curve, _ticks, curve_table, draw_curves, embed, picture_in, read_curve


def noise_picture(path: Path, side: int) -> Picture:
    """Random colours, which no PNG makes smaller: 3 bytes for each pixel, or 1 with 256 colours."""
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    (picture,) = picture_in(path.parent, path.name, "noise", "nothing but noise")
    return picture


def test_what_fits_is_as_it_is(tmp_path: Path) -> None:
    drawing = noise_picture(tmp_path / "a.png", 20)
    (found,) = embed([drawing])
    assert found.content == (tmp_path / "a.png").read_bytes()


def test_too_many_bytes_lose_colours_then_pictures(tmp_path: Path) -> None:
    drawings = [noise_picture(tmp_path / f"{name}.png", 100) for name in "abc"]  # 30 kB each, or 10
    found = embed(drawings, 35_000)
    assert all(each.content for each in found)
    picture = Image.open(io.BytesIO(found[0].content))
    assert (picture.mode, picture.size) == ("P", (100, 100))
    assert [bool(each.content) for each in embed(drawings, 15_000)] == [True, False, False]
    assert embed(drawings, 15_000)[1].file == "b.png"


def test_curves_over_each_other_in_words() -> None:
    first = Curve(
        label="one", columns={"test_accuracy": ((1, 0.25), (2, 0.75), (3, 0.5)), "training_loss": ((1, 2.0),)}
    )
    second = Curve(label="two $x$", columns={"test_accuracy": ((1, 0.9),)})
    drawn = draw_curves([first, second], named=True)
    assert drawn is not None
    assert (
        "one: test accuracy goes from 25 % after epoch 1 to 50 % after epoch 3, between 25 % and 75 %." in drawn.shows
    )
    assert "two $x$: test accuracy 90 %, without epochs." in drawn.shows
    svg = ElementTree.fromstring(drawn.content)
    lines = [each.get("points") or "" for each in svg.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(each.split()) for each in lines] == [3, 2]  # a curve, and a level line
    heights = [float(point.partition(",")[2]) for point in lines[0].split()]
    # Accuracies have an axis from 0 to 100 %: 75 % is twice as far above 25 % as 50 % is.
    assert heights[0] - heights[1] == pytest.approx(2 * (heights[0] - heights[2]))
    assert "two $x$" in "".join(svg.itertext())
    assert draw_curves([second]) is None  # a single point is no curve


@pytest.mark.parametrize("epochs", [2, 11, 12, 13, 500])
def test_a_table_of_a_curve_has_both_ends_and_few_rows(epochs: int) -> None:
    curve = Curve(label="c", columns={"training_loss": tuple((n, 1.0 / n) for n in range(1, epochs + 1))})
    table = curve_table(curve)
    assert (table.rows[0][0], table.rows[-1][0]) == ("1", f"{epochs:,}")
    assert len(table.rows) == len(set(table.rows)) <= 13


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (0.0, 3.0), (0.1234, 0.1239), (-7.0, 1e6), (0.0, 1.0)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = _ticks(low, high)
    assert 3 <= len(found) <= 11
    assert low - 1e-9 <= found[0] < found[-1] <= high * (1 + 1e-9)


def test_rounds_are_drawn_from_the_model_before_them(tmp_path: Path) -> None:
    (tmp_path / "learning_curve.csv").write_text("round,training_loss,test_accuracy\n0,,0.5\n1,,0.75\n2,,1.0\n")
    rounds = read_curve(tmp_path, "rounds")
    assert rounds is not None
    drawn = draw_curves([rounds])
    assert drawn is not None
    assert "from 50 % after round 0 to 100 % after round 2" in drawn.shows
    svg = ElementTree.fromstring(drawn.content)
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "round" in texts
    assert "epoch" not in texts
    (line,) = svg.iter("{http://www.w3.org/2000/svg}polyline")
    places = [float(point.partition(",")[0]) for point in (line.get("points") or "").split()]
    assert places[2] - places[1] == pytest.approx(places[1] - places[0])
    assert [row[0] for row in curve_table(rounds).rows] == ["0", "1", "2"]
    assert curve_table(rounds).columns == ("round", "accuracy on the test set (%)")


def test_epochs_and_rounds_share_a_picture() -> None:
    epochs = Curve(label="epochs", columns={"test_accuracy": ((1, 0.25), (2, 0.5))})
    rounds = Curve(label="rounds", columns={"test_accuracy": ((0, 0.5), (1, 1.0))}, step="round")
    drawn = draw_curves([epochs, rounds])
    assert drawn is not None
    assert b">epoch or round<" in drawn.content
    assert "after epoch 2" in drawn.shows
    assert "after round 1" in drawn.shows
