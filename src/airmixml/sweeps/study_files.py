"""The files that every study writes: its page, what that is made of, and its picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.files import writing_to
from airmixml.output.figures import save_png_and_svg
from airmixml.output.page import Page
from airmixml.output.tables import write_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARE: Final = {"box": None, "padding": (0, 1, 0, 0)}  # a table of many columns: on a terminal every bar saved helps
SIMULATED_SEEDS: Final = "Simulation: noise and schedule follow from the seeds, so anyone can remove them."


def write_study(stem: Path, page: Page, plain: dict[str, Any], figure: Figure | None, **texts: str) -> list[Path]:
    """Write the page as Markdown, its JSON, other ``texts`` by suffix, and the picture where there is one."""
    pictures = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "svg")]
    content = {
        ".md": page.to_markdown() + (f"\n![{page.title}]({pictures[0].name})\n" if figure else ""),
        ".json": json.dumps(plain, indent=1, allow_nan=False) + "\n",
        **{f".{suffix}": text for suffix, text in texts.items()},
    }
    with writing_to(stem.parent):
        if figure is None:
            for path in pictures:  # of an earlier command, which they no longer fit
                path.unlink(missing_ok=True)
        return write_all(stem, content) + (save_png_and_svg(figure, stem) if figure else [])
