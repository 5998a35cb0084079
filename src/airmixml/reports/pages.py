"""The report of a folder as one self-contained HTML file."""

from __future__ import annotations

import shlex
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

from airmixml.errors import AirMixError, RunFolderError
from airmixml.files import corrupt_file, read_regular, write_text, writing_to
from airmixml.output.cards import asked_for, command_for, needs_file
from airmixml.output.page import Code, Facts, Folded, Page, Part, Picture, section
from airmixml.reports.folders import FoundFolder, find_folder, is_report, read_curve
from airmixml.scenario import Scenario
from airmixml.storage.run_folder import PROTECTION, REPORT, SCENARIO
from airmixml.wording import duration

# Who makes the page of a result from its JSON file and its scenario; imported when a folder of that kind is met.
_BUILDERS: Final = {
    "run": "airmixml.runs.run_page:run_page",
    "attack": "airmixml.attacks.attack_page:attack_page",
    "audit": "airmixml.audit.audit_page:audit_page",
    "plan": "airmixml.planning.plan_page:plan_page",
    "comparison": "airmixml.compare.comparison_page:comparison_page",
    "sweep": "airmixml.sweeps.sweep_page:sweep_page",
    "tolerances": "airmixml.tolerances.tolerance_page:tolerances_page",
    "reproduction": "airmixml.reproduction.reproduce:reproduction_page",
}
# What each shows; of the others the file's name is all that is known.
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
    if path.exists() and not is_report(path):
        raise RunFolderError(f"{path}: is there already and is no report of airmix; choose another name with --out")
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page.to_html())
    return path


def read_report(folder: Path, work: Path | None = None) -> Page:
    """Return the page of a folder; refuse one that airmix did not make, or that was changed.

    ``work`` is where its files are before it gets its name.
    """
    found = find_folder(folder, work)
    module, _, builder = _BUILDERS[found.kind].partition(":")
    try:
        scenario = found.scenario()
        read_curve(found.path)
        return _whole(found, getattr(import_module(module), builder)(found.plain, scenario), scenario)
    except AirMixError:
        raise
    except OSError as problem:
        where = problem.filename or folder
        raise RunFolderError(f"{where}: cannot be read ({problem.strerror}); is {SCENARIO} there?") from problem
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as problem:
        raise corrupt_file(found.file, problem, delete=f"the folder {folder}") from problem


def _whole(found: FoundFolder, page: Page, scenario: Scenario | None) -> Page:
    """Return a command's page with what every report has: scenario, pictures, versions, and the command.

    Of a reproduction there is no scenario: it has many. Of a protected run only what its statements cover is told.
    """
    plain, protected = found.plain, found.plain.get("mode") == PROTECTION
    first, *others = page.sections
    if first.name != "asked":
        first, others = section("asked", "What was asked"), list(page.sections)
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
        command = command_for(name, scenario, *options)
        again.append(Folded(summary="The whole scenario", parts=(Code(scenario.to_toml()),)))
    made = {"airmixml": None if protected else plain.get("airmixml"), **plain.get("versions", {})}
    made |= {"device": plain.get("device"), "time": duration(plain["seconds"]) if "seconds" in plain else None}
    versions = tuple((name, str(value)) for name, value in made.items() if value)
    study = (STUDY,) if found.kind == "run" else ()
    return replace(
        page,
        notices=(*page.notices, *((ONLY_COVERED,) if protected else study)),
        sections=(
            section(first.name, first.heading, Facts(caption="The question", rows=tuple(rows.items()))),
            *others,
            section("pictures", "Pictures", *pictures_in(found.path, protected=protected)),
            section(
                "again",
                "Make it again",
                Code(shlex.join(command)),
                *(["with the scenario below saved as scenario.toml."] if needs_file(command) else []),
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
