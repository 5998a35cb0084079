"""Reports: one HTML file of what a command left in a folder, or of several folders side by side."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from airmixml.files import Read, corrupt_file, read_regular, write_text, writing_to
from airmixml.messages import NONE, AirMixError, RunFolderError, ScenarioError, against, duration, reason
from airmixml.output.cards import FROM_FILE, asked_for, command_for, flat, shown_value
from airmixml.output.figures import BLUE, figure_bytes, finish_axis, new_figure
from airmixml.output.page import GENERATOR, Cards, Code, Facts, Folded, Page, Part, Picture, Section
from airmixml.output.tables import Table
from airmixml.runs.results import load_result
from airmixml.scenario import Scenario
from airmixml.scenario.scenario import PROTECTION
from airmixml.scenario.tables import OWN_FILES
from airmixml.storage.folders import METRICS, PARTIAL, REPORT, SCENARIO, unfinished

_LARGEST_BYTES: Final = 256_000_000  # a sweep of very many cells; nothing that airmix writes is larger
# What each picture shows; of the others the file's name is all that is known.
_CAPTIONS: Final = {
    "figures/overview": "What was sent and received, what was learned, and what accountants certify",
    "figures/privacy": "Epsilon by accountant and adversary",
    "attack": "Originals beside what each adversary recovered",
    "audit": "Error rates of the attacks, and those that the claims forbid",
    "plan": "Expected accuracy against symbols of designs at the same privacy",
    "compare": "Accuracy of each method on the test set, and its epsilon",
    "sweep": "The first metric along the first key",
    "tolerances": "Accuracy against the size of each impairment",
}
_PROTECTED: Final = ("figures/privacy",)
ONLY_COVERED: Final = (
    "This page holds nothing but what the privacy statements below cover, and what was public before the run."
)
STUDY: Final = "Some of the numbers and pictures below never saw noise: never release this page for real data."
_REPEATED: Final = (
    "Each repetition is another release of the same data and reveals more: it draws new noise, and its model differs."
)
_MOST_STEPS: Final = 10**12
# What a curve may count, and where that begins: the first model of a run with rounds is that before them.
_FIRST: Final = {"epoch": 1, "round": 0}
_BEGINNING: Final = 20_000  # bytes of a page, in which it says what it is
_MOST_FOLDERS: Final = 12
_OF_ATTACKS: Final = "largest certain success of an attack, less that of guessing"
_TOGETHER: Final = "An epsilon covers its own folder: several folders about the same people reveal more together."


@dataclass(frozen=True)
class _Kind:
    """A kind of folder; its page is made of its JSON file and its scenario, by what is imported when it is met."""

    name: str
    file: str
    page: str
    key: str = ""  # which only this kind of that file has


# In the order in which they are looked for.
_KINDS: Final = (
    _Kind("attack", METRICS, "attacks.attack_page:attack_page", "naming_bound"),
    _Kind("audit", METRICS, "audit.audit_page:audit_page", "audits"),
    _Kind("plan", METRICS, "planning.plan_page:plan_page", "feasible"),
    _Kind("run", METRICS, "runs.run_page:run_page"),
    _Kind("comparison", "compare.json", "compare.comparison_page:comparison_page"),
    _Kind("sweep", "sweep.json", "sweeps.sweep_page:sweep_page"),
    _Kind("tolerances", "tolerances.json", "tolerances.tolerance_page:tolerances_page"),
    _Kind("reproduction", "report.json", "reproduction.reproduce:reproduction_page"),
)


@dataclass(frozen=True, kw_only=True)
class FoundFolder:
    """A folder that a command has made."""

    path: Path
    kind: str  # run, attack, audit, plan, comparison, sweep, tolerances or reproduction
    file: Path  # the JSON file that says so
    page: str  # who makes the page of it
    plain: dict[str, Any]  # its content

    def scenario(self) -> Scenario | None:
        """Return what was run: of the TOML file, or of the JSON file where there is none; None of a reproduction."""
        if self.kind == "reproduction":
            return None
        toml = self.path / SCENARIO
        there = os.path.lexists(toml)
        try:
            scenario = Scenario.load(toml) if there else Scenario.from_json(self.plain["scenario"])
            if self.kind == "run" and scenario.name != self.plain.get("name", scenario.name):
                raise ScenarioError(f'name = "{scenario.name}": is the scenario of another run')
            return scenario
        except ScenarioError as problem:
            raise corrupt_file(toml if there else self.file, problem, f"the folder {self.path}") from None


def find_folder(path: Path | str, work: Path | None = None, read: Read = read_regular) -> FoundFolder:
    """Return what a folder holds; refuse one that airmix did not make, or whose results were changed.

    ``work`` is where its files are before it gets its name; ``read`` reads one.
    """
    path = Path(path)
    if path.absolute().name.endswith(PARTIAL):
        raise unfinished(path)
    path = work or path
    if not path.is_dir():
        there = "is no folder" if path.exists() else "there is no such folder"
        raise RunFolderError(f"{path}: {there}; give one that airmix made, such as runs/NAME")
    names = dict.fromkeys(kind.file for kind in _KINDS)
    file = next((path / name for name in names if (path / name).is_file()), None)
    if file is None:
        raise RunFolderError(
            f"{path}: holds none of {', '.join(names)}; give a folder that airmix run, attack, audit, plan, compare, "
            "sweep, tolerances or reproduce made"
        )
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise ValueError("it is too large")
        plain = json.loads(read(file))
        if not isinstance(plain, dict):
            raise ValueError("not a JSON object")
    except OSError as problem:
        raise RunFolderError(f"{file}: cannot be read ({reason(problem)})") from None
    except (ValueError, RecursionError) as problem:
        raise corrupt_file(file, problem, delete=f"the folder {path}") from None
    kind = next(each for each in _KINDS if each.file == file.name and (not each.key or each.key in plain))
    return FoundFolder(path=path, kind=kind.name, file=file, page=kind.page, plain=plain)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learning curve: per column of the CSV file (training_loss, test_accuracy, ...) the steps and values."""

    columns: dict[str, tuple[tuple[int, float], ...]]
    step: str  # what is counted; see ``_FIRST``


def read_curve(folder: Path, read: Read = read_regular) -> Curve | None:
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
    return Curve(columns=columns, step=step) if columns else None


def write_report(folder: Path | str, *, out: Path | None = None, work: Path | None = None) -> Path:
    """Write ``report.html`` into a folder that a command has made, and return its path.

    Everything in it comes from the files of the folder. Of a protected run these hold only what its statements cover.

    Args:
        folder: of a run, attack, audit, plan, comparison, sweep, study of tolerances or reproduction.
        out: file to write instead; only a page of ours is replaced.
        work: where its files still are, of a folder that is about to get its name.
    """
    folder = Path(folder)
    written = write_page((work or folder) / REPORT if out is None else out, read_report(folder, work))
    return folder / REPORT if out is None else written


def write_page(path: Path, page: Page) -> Path:
    """Write a page as HTML and return its path; only a page of ours is replaced."""
    if path.is_dir():
        raise RunFolderError(f"{path}: is a folder; name a file with --out, such as {path / REPORT}")
    sign = f'<meta name="generator" content="{GENERATOR}'.encode()
    with writing_to(path):
        if path.exists() and sign not in read_regular(path, _BEGINNING):
            raise RunFolderError(f"{path}: is there already and is no report of airmix; choose another name with --out")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page.to_html())
    return path


def read_report(folder: Path, work: Path | None = None) -> Page:
    """Return the page of a folder; refuse one that airmix did not make, or that was changed.

    ``work`` is where its files are before it gets its name.
    """
    found = find_folder(folder, work)
    module, _, builder = found.page.partition(":")
    try:
        scenario = found.scenario()
        read_curve(found.path)
        return _whole(found, getattr(import_module(f"airmixml.{module}"), builder)(found.plain, scenario), scenario)
    except AirMixError:
        raise
    except OSError as problem:
        where = problem.filename or folder
        raise RunFolderError(f"{where}: cannot be read ({problem.strerror}); is {SCENARIO} there?") from problem
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as problem:
        if found.kind == "run":
            load_result(found.path, whole=work is None)  # names the key
        raise corrupt_file(found.file, problem, delete=f"the folder {folder}") from problem


def _whole(found: FoundFolder, page: Page, scenario: Scenario | None) -> Page:
    """Return a command's page with what every report has: scenario, pictures, versions, and the command.

    Of a reproduction there is no scenario: it has many. Of a protected run only what its statements cover is told.
    """
    plain, protected = found.plain, found.plain.get("mode") == PROTECTION
    first, *others = page.sections
    if first.name != "asked":
        first, others = Section("asked", "What was asked"), list(page.sections)
    rows = {row[0]: row[1] for part in first.parts if isinstance(part, Facts) for row in part.rows}
    name, *options = page.command
    command = ("airmix", name, *options)
    again: list[Part] = []
    if scenario is not None:
        about = {"data": scenario.workers.dataset}
        if scenario.is_settled:  # else each cell of a sweep has numbers and a learner of its own
            sends = f"{scenario.workers.count:,}, {scenario.radio.scheduled:,} at a time in {scenario.slots_in_words}"
            about |= {"workers": sends, "learner": scenario.learner.in_words}
        rows = about | {"privacy target": asked_for(scenario)} | rows
        command = command if "--preset" in options else command_for(name, scenario, *options)
        if (own := scenario.workers.dataset).lower().endswith(OWN_FILES) and "--input-dim" not in command:
            again.append(f"Run it in the folder from which {own} can be read: relative paths start there.")
        again.append(Folded(summary="The whole scenario", parts=(Code(scenario.to_toml()),)))
    made = {"airmixml": None if protected else plain.get("airmixml"), **plain.get("versions", {})}
    made |= {"device": plain.get("device"), "time": duration(plain["seconds"]) if "seconds" in plain else None}
    versions = tuple((name, str(value)) for name, value in made.items() if value)
    study = (STUDY,) if found.kind == "run" else ()
    return replace(
        page,
        notices=(*page.notices, *((ONLY_COVERED,) if protected else study)),
        sections=(
            Section(first.name, first.heading, Facts(caption="The question", rows=tuple(rows.items()))),
            *others,
            Section("pictures", "Pictures", *pictures_in(found.path, protected=protected)),
            Section(
                "again",
                "Make it again",
                Code(shlex.join(command)),
                *(["with the scenario below saved as scenario.toml."] if FROM_FILE in command else []),
                *([_REPEATED] if protected else []),
                *again,
                Folded(summary="Made with", parts=(Facts(caption="Versions and time", rows=versions),)),
            ),
        ),
    )


def pictures_in(folder: Path, *, protected: bool = False) -> list[Picture]:
    """Return the pictures of a folder; of a protected run only what its statements cover."""
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted((*folder.glob("*.png"), *folder.glob("figures/*.png")))
    }
    known = [name for name in _CAPTIONS if name in files]
    others = [name for name in files if name not in _CAPTIONS and "/" not in name]
    return [
        Picture(
            caption=_CAPTIONS.get(name, name),
            shows=f"{_CAPTIONS.get(name, f'{name}: measured beside printed')}; the tables have the numbers.",
            content=read_regular(files[name]),
            file=files[name].name,
        )
        for name in (_PROTECTED if protected else known + others)
        if name in files
    ]


def write_side_by_side(folders: Sequence[Path | str], out: Path) -> Path:
    """Write one page about 2 to 12 folders that commands have made, and return its path; see ``write_report``."""
    if not 2 <= len(set(map(str, folders))) == len(folders) <= _MOST_FOLDERS:
        rule = f"must be 2 to {_MOST_FOLDERS} folders to put side by side; name each once"
        raise RunFolderError(f"{' '.join(map(str, folders))}: {rule}")
    pages = {str(folder): read_report(Path(folder)) for folder in folders}
    keys, scores = {}, {}
    for name in pages:
        found = find_folder(name)
        scenario, scores[name] = found.scenario(), _main_score(found.plain)
        keys[name] = {} if scenario is None else {key: shown_value(value) for key, value in flat(scenario).items()}
    shared = set.intersection(*(set(each.items()) for each in keys.values()))
    differing = {name: dict(row for row in each.items() if row not in shared) for name, each in keys.items()}
    titles = (f"{name} ({page.kind}): {page.title}. {page.verdict}" for name, page in pages.items())
    privacy, again = list[Part](), list[Part]()
    for name, page in pages.items():
        privacy += [replace(cards, title=f"{name}: {cards.title}", note="") for cards in page.all(Cards)]
        privacy += [f"{name}: {notice}" for notice in page.notices if notice not in (ONLY_COVERED, STUDY)]
        again += [name, *page.all(Code, "again")]
    protected = all(ONLY_COVERED in page.notices for page in pages.values())
    told = Page(
        kind="side by side",
        title=f"{len(pages)} results side by side",
        notices=(_TOGETHER,) if protected else (_TOGETHER, STUDY),
        sections=(
            Section("differences", "What differs", *titles, *_beside("Keys that differ", differing)),
            Section(
                "results",
                "What came out",
                *_bars({name: score for name, score in scores.items() if score}),
                *_beside("Results", {name: _facts(page, "results") for name, page in pages.items()}),
                *_beside("Epsilon", {name: _epsilons(page) for name, page in pages.items()}),
                *_beside("On the air", {name: _facts(page, "costs") for name, page in pages.items()}),
            ),
            Section("privacy", "Who learns what", *privacy),
            Section("again", "Make them again", *again),
        ),
    )
    return write_page(out, told)


def _beside(title: str, columns: Mapping[str, Mapping[str, str]]) -> list[Table]:
    """Return a table with a row for each name that some column has; nothing where there is no row."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [(name, *(column.get(name, NONE) for column in columns.values())) for name in names]
    return [Table(title=title, columns=("", *columns), rows=rows)] if rows else []


def _facts(page: Page, name: str) -> dict[str, str]:
    return {row[0].strip(): row[1] for facts in page.all(Facts, name) for row in facts.rows if row[0]}


def _epsilons(page: Page) -> dict[str, str]:
    """Return what the first cards promise against each adversary, what was found, and what all of them assume."""
    told: dict[str, str] = {}
    assumed: dict[str, str] = {}
    for card in next((group.cards for group in page.all(Cards)), ()):
        facts, whom = dict(card.facts), against(card.adversary)
        told[whom] = f"{card.epsilon} ({card.promise})"
        told |= {f"{whom}, found": facts["found"]} if "found" in facts else {}
        assumed |= {name: facts[name] for name in ("delta", "neighbours") if name in facts}
    return told | assumed


def _main_score(plain: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return what the main score of a run or an attack is called, and the score; None where there is none."""
    if plain.get("accuracy"):
        return "accuracy", plain["accuracy"]["final"]
    if "measured" in plain:
        gains = (each["rate"] - each["guessing"] for each in plain["measured"] if each["beyond_chance"])
        return _OF_ATTACKS, max(gains, default=0.0)
    return next(iter(plain.get("scores", {}).items()), None)


def _bars(scores: Mapping[str, tuple[str, float]]) -> list[Picture]:
    """Draw a bar for each folder, in one picture for each kind of score."""
    pictures = []
    for kind in dict.fromkeys(kind for kind, _ in scores.values()):
        bars = {name.replace("$", r"\$"): score for name, (own, score) in scores.items() if own == kind}
        figure = new_figure(7.0, 0.9 + 0.35 * len(bars))
        axis = figure.subplots()
        axis.bar_label(axis.barh(list(bars), list(bars.values()), color=BLUE), fmt="%.3g", padding=3)
        axis.margins(x=0.12)
        axis.invert_yaxis()
        finish_axis(axis)
        shows = f"{kind} of each folder, as in the table of results"
        pictures.append(Picture(caption=kind.capitalize(), shows=shows, content=figure_bytes(figure, "png")))
    return pictures
