"""Tables and figures of a reproduction, as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airmixml.study.files import write_text
from airmixml.study.reproduction import pictures
from airmixml.study.reproduction.results import CellResult
from airmixml.study.reproduction.tables import claims_table, results_csv, results_table, side_by_side

if TYPE_CHECKING:
    from airmixml.study.reproduction.reproduce import Reproduction

__all__ = ["write_reproduction"]

_TITLES: Final = {"table1": "Table I", "table2": "Table II", "fig3": "Fig. 3", "fig4": "Fig. 4"}
_DRAWINGS: Final[dict[str, Callable[..., list[Path]]]] = {
    "table1": pictures.draw_accuracies,
    "table2": pictures.draw_energies,
    "fig3": pictures.draw_path_loss,
    "fig4": pictures.draw_fading,
}


def write_reproduction(reproduction: Reproduction) -> list[Path]:
    """Write all files and return them: each table as Markdown, CSV and LaTeX, each figure as PNG and SVG."""
    out, files, sections = reproduction.out, [], ["# The paper, run again\n"]
    for suffix in (".md", ".csv", ".tex"):  # claims and report are those of the last request
        (out / f"claims{suffix}").unlink(missing_ok=True)
    if reproduction.request.quick:
        sections.append("A small version, with too few slots, epochs and seeds: it says nothing about the paper.\n")
    if reproduction.claims:
        claims = claims_table(reproduction.claims)
        texts = {".md": claims.to_markdown(), ".csv": claims.to_csv(), ".tex": claims.to_latex()}
        files += _write_all(out / "claims", texts)
        sections.append(claims.to_markdown())
    if reproduction.ratios:
        files += pictures.draw_ratios_figure(reproduction.ratios, out, "fig2")
        sections.append("![Fig. 2](fig2.png)\n")
    for (target, dataset), results in reproduction.parts().items():
        name = f"{target}-{dataset}" if target.startswith("table") else target
        title = f"{_TITLES[target]}, {results[0].cell.scenario.workers.dataset}"
        matrix, table = side_by_side(title, results), results_table(f"{title}, entry by entry", results)
        texts = {".md": table.to_markdown(), ".csv": results_csv(results), ".tex": table.to_latex()}
        files += _write_all(out / name, texts)
        files += _DRAWINGS[target](results, out, name, _about(results))
        sections += [matrix.to_markdown(), f"![{title}]({name}.png)\n", table.to_markdown()]
    texts = {
        ".md": "\n".join(sections),
        ".json": json.dumps(reproduction.to_dict(), indent=1, allow_nan=False) + "\n",
    }
    return files + _write_all(out / "report", texts)


def _write_all(stem: Path, texts: dict[str, str]) -> list[Path]:
    paths = [stem.with_name(stem.name + suffix) for suffix in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def _about(results: Sequence[CellResult]) -> str:
    seeds = max((len(result.measured.seeds) for result in results if result.measured), default=0)
    return f"{results[0].cell.scenario.workers.dataset}, {seeds} seed{'s' if seeds != 1 else ''}"
