"""Table and picture of a comparison, as files."""

from __future__ import annotations

import json
from pathlib import Path

from airmixml.compare.comparison import Comparison
from airmixml.compare.pictures import draw_comparison
from airmixml.compare.tables import comparison_csv, comparison_table
from airmixml.storage.files import write_text, writing_to


def write_comparison(comparison: Comparison) -> list[Path]:
    """Write the table as Markdown, CSV, LaTeX and JSON and the picture as PNG and SVG; return the files."""
    stem = comparison.out / "compare"
    table = comparison_table(comparison)
    texts = {
        ".md": table.to_markdown() + "\n![comparison](compare.png)\n",
        ".csv": comparison_csv(comparison),
        ".tex": table.to_latex(),
        ".json": json.dumps(comparison.to_dict(), indent=1, allow_nan=False) + "\n",
    }
    with writing_to(comparison.out):
        for suffix, text in texts.items():
            write_text(stem.with_suffix(suffix), text)
        pictures = draw_comparison(comparison, stem)
    return [*(stem.with_suffix(suffix) for suffix in texts), *pictures]
