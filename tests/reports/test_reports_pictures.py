"""Pictures inside pages: within the budget, fewer colours before fewer pictures, and curves over each other."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from airmixml.output.page import Picture
from airmixml.reports.curves import draw_curves
from airmixml.reports.pictures import embed, pictures_in


def noise_picture(path: Path, side: int) -> Picture:
    """Random colours, which no PNG makes smaller: 3 bytes for each pixel, or 1 with 256 colours."""
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return next(each for each in pictures_in(path.parent) if each.file == path.name)


def test_what_fits_is_as_it_is(tmp_path: Path) -> None:
    drawing = noise_picture(tmp_path / "a.png", 20)
    (found,) = embed([drawing])
    assert found.content == (tmp_path / "a.png").read_bytes()


def test_pictures_that_do_not_fit_are_named(tmp_path: Path) -> None:
    drawings = [noise_picture(tmp_path / f"{name}.png", 100) for name in "abc"]  # 30 kB each
    assert [bool(each.content) for each in embed(drawings, 35_000)] == [True, False, False]
    assert embed(drawings, 35_000)[1].file == "b.png"


def test_scores_of_runs_over_each_other_in_words(tmp_path: Path) -> None:
    for name, text in {
        "epochs": "epoch,training_loss,test_accuracy\n1,2,0.25\n2,1,0.75\n3,1,0.5\n",
        "rounds $x$": "round,training_loss,test_accuracy\n0,,0.5\n1,,1.0\n",
        "none": "epoch,training_loss,test_accuracy\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "learning_curve.csv").write_text(text)
    folders = {path.name: path for path in sorted(tmp_path.iterdir())}
    (drawn,) = draw_curves(folders)
    assert drawn.shows == (
        "Learning curves, test accuracy (%). epochs: 25 after epoch 1, 50 last; rounds $x$: 50 after round 0, 100 last."
    )
    assert Image.open(io.BytesIO(drawn.content)).size[0] > 500
    assert draw_curves({"none": tmp_path / "none"}) == ()
