"""Pictures inside pages: within the budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from airmixml.output.page import Picture
from airmixml.reports.pages import embed, pictures_in


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
