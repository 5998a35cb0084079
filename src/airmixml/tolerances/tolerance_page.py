"""Tolerances as tables for the terminal and in files, and as one picture: accuracy against each impairment's size."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    error_line,
    finish_axis,
    panel_grid,
    save_png_and_svg,
    shared_legend,
)
from airmixml.output.tables import Table, rows_csv, wide_table, write_all
from airmixml.storage.files import writing_to
from airmixml.tolerances.tolerance import Delivered, Tolerance, Tolerances
from airmixml.tolerances.unplanned_epsilon import SLACK
from airmixml.wording import NONE, duration, epsilon_text, plural, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MILLI: Final = 1e-3
_EVERYTHING: Final = "all"
_PANEL_INCHES: Final = (3.6, 2.7)
_CLASS_COLOURS: Final = (GREEN, PURPLE, ORANGE)
_CLASS_STYLES: Final = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_BELOW: Final = 12.0  # drops below the tolerated score that a panel shows at most


def write_tolerances(found: Tolerances) -> list[Path]:
    """Write the table as Markdown, the tried sizes as CSV, everything as JSON, and the picture; return the files."""
    stem = found.out / "tolerances"
    table = tolerances_table(found)
    picture = "\n![accuracy against the size of each impairment](tolerances.png)\n"
    hardware = "\n".join(f"- {each.ladder.name}: {each.ladder.hardware}." for each in found.found)
    texts = {
        ".md": f"{table.to_markdown()}{picture}\nWhat hardware has:\n\n{hardware}\n",
        ".csv": rows_csv(_tried_rows(found)),
        ".json": json.dumps(found.to_dict(), indent=1, allow_nan=False) + "\n",
    }
    with writing_to(found.out):
        return [*write_all(stem, texts), *draw_tolerances(found, stem)]


def _tried_rows(found: Tolerances) -> list[dict[str, Any]]:
    """Return one row for each size and seed."""
    names = ("key", "size", "seed", "score", "fall", "error")
    rows: list[tuple[Any, ...]] = [
        ("", "", seed, score, 0.0, "") for seed, score in zip(found.seeds, found.ideal, strict=True)
    ]
    for key, tried in ((f"air.{each.ladder.key}", tried) for each in found.found for tried in each.tried):
        rows += [(key, tried.size, "", "", "", tried.error)] if tried.error else []
        by_seed = zip(found.seeds, tried.scores, tried.falls, strict=False)
        rows += [(key, tried.size, seed, score, fall, "") for seed, score, fall in by_seed]
    return [dict(zip(names, row, strict=True)) for row in rows]


def notes(found: Tolerances) -> list[str]:
    """Return what a reader must know, in sentences."""
    ideal, seeds = statistics.fmean(found.ideal), plural(len(found.seeds), "seed")
    said = [
        f"{found.compared} on the ideal air {ideal:.2f} %; tolerated: it falls by at most {points(found.drop)}, mean "
        f"over {seeds}, compared seed by seed, or by no more than that and the standard error"
    ]
    if not found.scenario.air.is_ideal:
        said.append(f"on the base air it is {statistics.fmean(found.base):.2f} %")
    if any("resync_seconds" in has.along for each in found.found for has in each.delivered):
        said.append("in brackets: time between the resynchronisations of that hardware, which were in the run")
    if found.target is not None:
        said.append(
            f"privacy: sizes up to which a system whose power is set without any margin still keeps epsilon "
            f"{found.target:g} (within {100 * (SLACK - 1):.0f} %); airmix run takes the margin, so that it holds"
        )
    if found.needed is not None:
        needed = found.needed
        said.append(
            f"transmit power needed on the ideal air: {needed.lowest:.1f} dBm lowest, {needed.median:.1f} median, "
            f"{needed.largest:.1f} largest"
        )
    return said


def tolerances_table(found: Tolerances) -> Table:
    """Return one line for each impairment, with all there is to say."""
    note = " ".join(map(sentence, notes(found)))
    return Table(
        title=f"How bad each impairment may get, alone: {found.scenario.title}",
        note=f"{note} Simulation: it protects nobody's data.",
        columns=("impairment", "key", *_columns(found), *(f"{name} has" for name in _classes(found))),
        rows=tuple(
            (each.ladder.label, f"`air.{each.ladder.key}`", *_limits(found, each), *map(_delivered, each.delivered))
            for each in found.found
        ),
    )


def terminal_tolerances(found: Tolerances) -> Table:
    """Return the table for a terminal: what a class of hardware has is green or red."""
    from rich.markup import escape

    seeds = plural(len(found.seeds), "seed")
    return wide_table(
        ("impairment", *_columns(found), *_classes(found)),
        [
            [
                escape(each.ladder.label),
                *_limits(found, each),
                *(_coloured(has, escape(_delivered(has))) for has in each.delivered),
            ]
            for each in found.found
        ],
        words=20,
        title=f"{escape(found.scenario.title)}: how bad each may get, alone; {seeds}, simulation (protects nobody)",
    )


def _columns(found: Tolerances) -> tuple[str, ...]:
    return ("tolerated", "too much", *(("privacy",) if found.target is not None else ()))


def _classes(found: Tolerances) -> Sequence[str]:
    return [each.air for each in found.found[0].delivered]


def _limits(found: Tolerances, each: Tolerance) -> tuple[str, ...]:
    """Return what accuracy tolerates, what is too much for it, and what privacy tolerates."""
    tolerated = NONE if each.tolerated is None else size_text(each.tolerated)
    refused = _EVERYTHING if each.refused is None else size_text(each.refused)
    if each.why_not:
        tolerated, refused = "cannot be run", ""
    elif each.refused is None:
        tolerated, refused = _EVERYTHING, ""
    if found.target is None:
        return tolerated, refused
    if not each.asks_privacy:
        return tolerated, refused, "any"
    kept = "none" if each.private is None else size_text(each.private)
    return tolerated, refused, _EVERYTHING if each.revealing is None else kept


def _delivered(has: Delivered) -> str:
    """Return "0.2 ok", "10 (5 ms) too much", "2 epsilon 12"."""
    if has.size is None:
        return NONE
    resync = has.along.get("resync_seconds")
    along = f" ({duration(resync)})" if resync else ""
    problems = [] if has.tolerated else ["too much"]
    if has.target_kept is False:
        problems.append("no epsilon" if has.epsilon is None else f"epsilon {epsilon_text(has.epsilon)}")
    return f"{size_text(has.size)}{along} {', '.join(problems) or 'ok'}"


def _coloured(has: Delivered, text: str) -> str:
    return text if has.size is None else f"[{'green' if has.is_ok else 'red'}]{text}[/]"


def size_text(size: float) -> str:
    """Return a size with few digits: 0.05, 240, 1e-07."""
    return f"{size:.2g}" if 0.0 < abs(size) < _MILLI else f"{size:g}"


def draw_tolerances(found: Tolerances, stem: Path) -> list[Path]:
    """Draw the picture and return the files."""
    panels = [each for each in found.found if not each.why_not]
    if not panels:
        return []
    seeds = plural(len(found.seeds), "seed")
    title = f"{found.scenario.title}: {found.compared} against the size of each impairment, alone ({seeds}; simulation)"
    figure, axes = panel_grid(len(panels), title, inches=_PANEL_INCHES, narrowest=7.2, above=1.0, size=12)
    for axis, each in zip(axes, panels, strict=True):
        _draw_panel(axis, found, each)
    shared_legend(figure)
    return save_png_and_svg(figure, stem)


def _draw_panel(axis: Axes, found: Tolerances, each: Tolerance) -> None:
    ladder, ideal = each.ladder, statistics.fmean(found.ideal)
    tried = [one for one in each.tried if not one.error]
    axis.axhline(ideal, color=GREY, linewidth=1, zorder=1, label="ideal air")
    axis.axhline(found.floor, color=RED, linestyle="--", linewidth=1.2, zorder=1, label=f"{points(found.drop)} less")
    mildest, first = ladder.sizes[0], tried[0] if tried else None
    if first is not None and first.size != mildest:  # what lies between was not tried: it is no worse than the first
        ends = [mildest, first.size], [statistics.fmean(found.base), first.score]
        axis.plot(*ends, color=BLUE, linestyle=":", linewidth=1.2, zorder=3)
    spread = [one.standard_error for one in tried]
    places, scores = [one.size for one in tried], [one.score for one in tried]
    label = "measured (± standard error of the fall)"
    error_line(axis, places, scores, spread, color=BLUE, marker="o", zorder=4, label=label)
    if ladder.log:
        axis.set_xscale("log")
    _set_ranges(axis, found, each)
    for number, has in enumerate(each.delivered):
        if has.size is not None and math.isfinite(has.size):
            colour = _CLASS_COLOURS[number % len(_CLASS_COLOURS)]
            style = _CLASS_STYLES[number % len(_CLASS_STYLES)]
            axis.axvline(has.size, color=colour, linestyle=style, linewidth=1.6, zorder=2, label=has.air)
    if each.asks_privacy and each.revealing is not None:
        low, high = axis.get_xlim()
        axis.axvspan(each.revealing, high, color=RED, alpha=0.09, zorder=0, label="epsilon above the target, no margin")
        axis.set_xlim(low, high)
    if ladder.fewer_is_worse:
        axis.invert_xaxis()
    axis.set_xlabel(ladder.unit or "number", fontsize=9)
    axis.set_ylabel("%", fontsize=9)
    if ladder.unit == "bits":
        from matplotlib.ticker import MaxNLocator

        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.tick_params(labelsize=8)
    if each.refused is None:
        told: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": "0.35"}
        axis.text(0.5, 0.04, "no size up to the end of the range is too much", transform=axis.transAxes, **told)
    finish_axis(axis, ladder.name, size=10.5)


def points(drop: float) -> str:
    """Return "1 point", "2 points"."""
    return f"{drop:g} point{'' if drop == 1.0 else 's'}"


def _set_ranges(axis: Axes, found: Tolerances, each: Tolerance) -> None:
    """Show the whole ladder, and the fall around the tolerated score rather than all the way down."""
    shown = [*each.ladder.sizes, *(has.size for has in each.delivered if has.size is not None)]
    low, high = min(shown), max(shown)
    if each.ladder.log and low > 0.0:
        axis.set_xlim(low / 1.5, high * 1.5)
    else:
        axis.set_xlim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    ideal, scores = statistics.fmean(found.ideal), [one.score for one in each.tried if not one.error]
    bottom = max(min([*scores, found.floor - found.drop]), found.floor - _BELOW * found.drop)
    top = max([ideal, *scores])
    axis.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
