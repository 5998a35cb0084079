"""Pictures of the gallery: figures of pyplot, and those that our drawing functions return under the name ``figure``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

GALLERY = "generated/gallery"
_DOTS_PER_INCH = 110


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save what the block drew and return the lines that show it."""
    drawn = block_vars["example_globals"].get("figure")
    # pyplot keeps a manager for its own figures, which the usual scraper finds.
    if not isinstance(drawn, Figure) or drawn.canvas.manager is not None or getattr(drawn, "is_shown", False):
        return str(matplotlib_scraper(block, block_vars, gallery_conf, dpi=_DOTS_PER_INCH))
    drawn.is_shown = True  # type: ignore[attr-defined]
    path = next(block_vars["image_path_iterator"])
    drawn.savefig(path, dpi=_DOTS_PER_INCH, facecolor="white")
    return str(figure_rst([path], gallery_conf["src_dir"]))


class ByStory:
    """Sorts examples in the order in which a newcomer reads them; those that are not listed come last."""

    order = (
        "first_run",
        "mixing_ratios",
        "power_and_privacy",
        "what_an_eavesdropper_sees",
        "trust_nobody",
        "your_own_table",
        "scikit_learn_pipeline",
        "an_imperfect_air",
        "planning",
        "own_power_policy",
        "own_channel",
        "own_path_loss",
        "own_impairment",
        "own_schedule",
        "own_ratios",
        "own_assignment",
        "own_encoder",
        "own_learner",
        "own_adversary",
        "own_loop",
    )

    def __init__(self, src_dir: str) -> None:
        """Sphinx-gallery names the folder; the order does not depend on it."""

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return what to sort by."""
        name = Path(filename).stem
        return (self.order.index(name) if name in self.order else len(self.order), name)
