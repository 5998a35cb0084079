"""What a report says, whatever kind of folder it is about, its pictures and curves, and the page that it becomes."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Final

from airmixml.errors import RunFolderError
from airmixml.output.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE
from airmixml.output.page import Cards, Code, Facts, Folded, Page, Part, Picture, Rows, Section
from airmixml.output.tables import Table
from airmixml.reading import Read, read_regular
from airmixml.reports.folders import needs_file
from airmixml.scenario import Scenario
from airmixml.storage.files import corrupt_file
from airmixml.wording import plural, reason

# A page of 3 MB, base64 and words taken off.
MOST_BYTES: Final = 2_000_000
_MOST_ROWS: Final = 12
_MOST_STEPS: Final = 10**12
# What a curve may count, and where that begins: the first model of a run with rounds is that before them.
_FIRST: Final = {"epoch": 1, "round": 0}
_LEAST_SPAN: Final = 1e-300
_MOST_NAMED: Final = 8
_COLOURS: Final = (BLUE, ORANGE, GREEN, PURPLE, "#8c564b", GREY)
_DASHES: Final = ("", "7 4", "9 3 2 3", "2 3")
_WIDTH, _HEIGHT, _LEFT, _TOP, _INNER_WIDTH, _INNER_HEIGHT = 560, 360, 64, 16, 470, 280
_NAMES: Final = {"training_loss": "training loss", "test_accuracy": "accuracy on the test set (%)"}


def picture_in(folder: Path, name: str, caption: str, shows: str) -> tuple[Picture, ...]:
    """Return a picture of the folder where it is there."""
    path = folder / name
    if not path.is_file():
        return ()
    return (Picture(caption=caption, shows=shows, content=read_regular(path), file=path.name),)


def embed(pictures: Sequence[Picture], most_bytes: int = MOST_BYTES) -> list[Picture]:
    """Return pictures whose data are at most so many bytes together.

    If they are more, each loses colours that nobody sees; those that still do not fit are named by their file.
    """
    if sum(len(each.content) for each in pictures) > most_bytes:
        pictures = [replace(each, content=_fewer_colours(each.content)) for each in pictures]
    found, left = [], most_bytes
    for each in pictures:
        fits = len(each.content) <= left
        left -= len(each.content) if fits else 0
        found.append(each if fits else replace(each, content=b""))
    return found


def _fewer_colours(content: bytes) -> bytes:
    """Return a PNG with 256 colours; as it is where it cannot be read, or would not be smaller."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as picture:
            smaller = io.BytesIO()
            picture.convert("RGB").quantize(256).save(smaller, "png", optimize=True)
            return min(content, smaller.getvalue(), key=len)
    except (OSError, UnidentifiedImageError):
        return content


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learning curve: per column of the CSV file (training_loss, test_accuracy, ...) the steps and values."""

    label: str
    columns: dict[str, tuple[tuple[int, float], ...]]
    step: str = "epoch"  # what is counted; see ``_FIRST``

    def points(self, name: str) -> list[tuple[int, float]]:
        """Return steps and values of a column, accuracies in per cent."""
        return [(step, _factor(name) * value) for step, value in self.columns.get(name, ())]

    def in_words(self, name: str) -> str:
        """Return where a column begins and ends, and its range."""
        points, unit = self.points(name), " %" if _factor(name) == 100.0 else ""
        what = name.replace("_", " ")
        if not points:
            return ""
        (first, begins), (last, ends) = points[0], points[-1]
        if len(points) == 1:
            return f"{self.label}: {what} {ends:.3g}{unit}, without epochs."
        low, high = min(value for _, value in points), max(value for _, value in points)
        return (
            f"{self.label}: {what} goes from {begins:.3g}{unit} after {self.step} {first} to {ends:.3g}{unit} after "
            f"{self.step} {last}, between {low:.3g}{unit} and {high:.3g}{unit}."
        )


def read_curve(folder: Path, label: str, read: Read = read_regular) -> Curve | None:
    """Return the learning curve of a run folder, one point without epochs or rounds; None where there is no curve."""
    path = folder / "learning_curve.csv"
    columns: dict[str, tuple[tuple[int, float], ...]] = {}
    try:
        rows = list(csv.DictReader(io.StringIO(read(path).decode("utf-8-sig"), newline="")))
        step = next((step for step in _FIRST if rows and step in rows[0]), "epoch")
        for name in rows[0] if rows else ():
            points = [(int(row[step]), float(row[name])) for row in rows if name != step and row[name]]
            if not all(_FIRST[step] <= at <= _MOST_STEPS for at, _ in points):
                raise ValueError(f"{step}s must be from {_FIRST[step]} to {_MOST_STEPS}")
            if points:
                columns[name] = tuple((at, value) for at, value in points if math.isfinite(value))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise RunFolderError(f"{path}: cannot be read ({reason(problem)})") from None
    except (ValueError, KeyError, TypeError, csv.Error) as problem:
        raise corrupt_file(path, problem, delete=f"the folder {folder}") from None
    return Curve(label=label, columns=columns, step=step) if columns else None


def draw_curves(curves: Sequence[Curve], *, named: bool = False) -> Picture | None:
    """Return learning curves over each other, one axis for each quantity; None where nothing has epochs or rounds.

    What has neither is a level line. ``named``: a legend even of a single curve.
    """
    names = list(dict.fromkeys(name for curve in curves for name, points in curve.columns.items() if len(points) > 1))
    if not names:
        return None
    names.sort(key=lambda name: name == "training_loss")  # what counts comes first
    shows = " ".join(curve.in_words(names[0]) for curve in curves[:_MOST_NAMED])
    if len(curves) > _MOST_NAMED:
        shows += f" And {plural(len(curves) - _MOST_NAMED, 'more curve')}."
    axes = "".join(
        f'<g transform="translate({place * _WIDTH} 0)">{_axis(curves, name, legend=named or len(curves) > 1)}</g>\n'
        for place, name in enumerate(names)
    )
    width = _WIDTH * len(names)
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{BLACK}">\n<rect width="100%" height="100%" fill="white"/>\n'
        f"{axes}</svg>\n"
    )
    caption = "Learning curve" + "s" * (len(curves) > 1)
    return Picture(caption=caption, shows=shows.strip(), content=drawn.encode(), kind="image/svg+xml")


def _axis(curves: Sequence[Curve], name: str, *, legend: bool) -> str:
    """Return one quantity over epochs or rounds as SVG."""
    lines = [(number, curve.label, points) for number, curve in enumerate(curves) if (points := curve.points(name))]
    values = [value for _, _, points in lines for _, value in points]
    low, high = (0.0, 100.0) if name == "test_accuracy" else (min(values), max(values))
    last = max(step for _, _, points in lines for step, _ in points)
    counted = " or ".join(dict.fromkeys(curve.step for curve in curves if len(curve.points(name)) > 1))
    level = max(1.0, 1e-6 * abs(low))  # on both sides of a level curve
    low, high = (low, high) if high > low else (low - level, high + level)

    def x(step: float) -> float:
        return round(_LEFT + _INNER_WIDTH * step / last, 1)

    def y(value: float) -> float:
        return round(_TOP + _INNER_HEIGHT * (1.0 - (value - low) / (high - low)), 1)

    right, bottom = _LEFT + _INNER_WIDTH, _TOP + _INNER_HEIGHT
    box = f'<rect x="{_LEFT}" y="{_TOP}" width="{_INNER_WIDTH}" height="{_INNER_HEIGHT}" fill="none" stroke="{GREY}"/>'
    parts = [box]
    for tick in _ticks(low, high):
        parts.append(f'<path d="M{_LEFT} {y(tick)}H{right}" stroke="{GREY}" stroke-opacity="0.3"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>')
    for tick in filter(float.is_integer, _ticks(0.0, last)):
        parts.append(f'<text x="{x(tick)}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{bottom + 38}" text-anchor="middle">{counted}</text>')
    told = escape(_NAMES.get(name, name.replace("_", " ")))
    parts.append(
        f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{told}</text>'
    )
    looks = [
        f'stroke="{colour}" stroke-dasharray="{dash}"'
        for colour, dash, _ in zip(cycle(_COLOURS), cycle(_DASHES), curves)
    ]
    for row, (number, label, points) in enumerate(lines):
        ends = [(0, points[0][1]), (last, points[0][1])] if len(points) == 1 else points
        drawn = " ".join(f"{x(step)},{y(value)}" for step, value in ends)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke-width="1.7" {looks[number]}/>')
        if legend and row < _MOST_NAMED:
            height = bottom - 10 - 16 * (min(len(lines), _MOST_NAMED) - 1 - row)
            parts.append(f'<path d="M{right - 30} {height - 4}h22" stroke-width="1.7" {looks[number]}/>')
            parts.append(f'<text x="{right - 36}" y="{height}" text-anchor="end">{escape(label)}</text>')
    return "\n".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Return four to ten round numbers between two."""
    if not _LEAST_SPAN < high - low < math.inf:
        return []
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (5, 2, 1) if factor * step <= (high - low) / 4)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _factor(name: str) -> float:
    return 100.0 if name == "test_accuracy" else 1.0


def curve_table(curve: Curve) -> Table:
    """Return some steps of a curve as a table: the first, the last and evenly chosen ones between."""
    steps = sorted({step for points in curve.columns.values() for step, _ in points})
    apart = max(1, -(-(len(steps) - 1) // (_MOST_ROWS - 1)))
    values = {name: dict(curve.points(name)) for name in curve.columns}
    rows = tuple(
        (f"{step:,}", *(f"{found[step]:.4g}" if step in found else "" for found in values.values()))
        for step in [*steps[:-1:apart], steps[-1]]
    )
    columns = (curve.step, *(_NAMES.get(name, name.replace("_", " ")) for name in curve.columns))
    return Table(title=f"Learning curve of {curve.label}", columns=columns, rows=rows)


PROTECTED = "protected run"
_CARDS = (
    "One card for each adversary. Epsilon is the smallest that any accountant certifies for the worst worker; 1 is a "
    "strong promise, 10 a weak one."
)


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything that a report says about a folder."""

    folder: Path
    kind: str
    title: str  # what was done, in a few words
    verdict: str = ""  # what came out in one sentence
    notices: tuple[str, ...] = ()  # what a reader must know before reading any number
    headline: Rows = ()  # the few numbers to see first
    asked: Rows = ()
    results: Rows = ()
    costs: Rows = ()  # power, energy and time on the air
    cards: tuple[Cards, ...] = ()  # who learns what, for each setting
    curves: tuple[Curve, ...] = ()  # how learning went, one for each seed
    tables: tuple[Part, ...] = ()
    pictures: tuple[Picture, ...] = ()
    scenario: Scenario | None = None  # None where there are many
    command: tuple[str, ...] = ()  # words that make the folder again
    made_with: Rows = ()  # versions and device

    def page(self, command: Sequence[str] = ()) -> Page:
        """Return the page about the folder, which ``command`` makes again."""
        words = tuple(command) or self.command
        protected = self.kind == PROTECTED
        cards: tuple[Part, ...] = (_CARDS, *self.cards) if self.cards else ()
        costs = "Time on the air" if protected else "Energy, power and time on the air"
        return Page(
            kind=self.kind,
            title=self.title,
            verdict=self.verdict,
            notices=self.notices,
            headline=self.headline,
            command=words,
            sections=(
                section("asked", "What was asked", Facts(caption="The question", rows=self.asked)),
                section("results", "What came out", Facts(caption="The answer", rows=self.results), *self._learning()),
                section("privacy", "Who learns what", *cards),
                section("costs", costs, *_facts("The cost", self.costs), link="Energy and air"),
                section("tables", "Tables", *self.tables),
                section("pictures", "Pictures", *embed(self.pictures)),
                section("again", "Make it again", Code(shlex.join(words)), *self._again(words, protected=protected)),
            ),
        )

    def _learning(self) -> tuple[Part, ...]:
        drawn = draw_curves(self.curves)
        if drawn is None:
            return ()
        return drawn, Folded(summary="The learning curve as a table", parts=tuple(map(curve_table, self.curves)))

    def _again(self, words: Sequence[str], *, protected: bool) -> list[Part]:
        parts: list[Part] = []
        if needs_file(words):
            parts.append("with the scenario below saved as scenario.toml.")
        if protected:
            parts.append(
                "Each repetition is another release of the same data and reveals more: it draws new noise, and its "
                "model differs."
            )
        if self.scenario is not None:
            parts.append(Folded(summary="The whole scenario", parts=(Code(self.scenario.to_toml()),)))
        if self.made_with:
            parts.append(Folded(summary="Made with", parts=_facts("Versions and time", self.made_with)))
        return parts


def _facts(caption: str, rows: Rows) -> tuple[Part, ...]:
    return (Facts(caption=caption, rows=rows),) if rows else ()


def section(name: str, heading: str, *parts: Part, link: str = "") -> Section:
    """Return parts below a heading; ``link`` is shorter, for the list of contents."""
    return Section(name=name, link=link or heading, heading=heading, parts=parts)
