"""One style for all figures, and how they get into files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airmixml.doors import ACCOUNTANTS
from airmixml.storage.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, YELLOW = "#3b6ea8", "#d1603d", "#4a8f5d", "#8a63a8", "#e0a030"
_ACCOUNTANT_COLOURS: Final = (ORANGE, YELLOW, PURPLE, BLUE, GREEN)


def accountant_colour(name: str) -> str:
    """Return the colour that stands for an accountant in every figure; more than there are colours share them."""
    return _ACCOUNTANT_COLOURS[ACCOUNTANTS.names.index(name) % len(_ACCOUNTANT_COLOURS)]


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure whole or not at all."""
    from matplotlib import rc_context

    content = io.BytesIO()
    kind = path.suffix.lstrip(".").lower() or "png"
    with rc_context({"svg.hashsalt": "airmixml"}):  # the same picture is the same file
        figure.savefig(content, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content.getvalue())
