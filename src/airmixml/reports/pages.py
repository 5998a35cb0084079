"""The report of a folder as one self-contained HTML file, and of several folders side by side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from airmixml.errors import AirMixError, RunFolderError
from airmixml.output.cards import asked_for
from airmixml.output.commands import command_for, flat, needs_file, shown_value
from airmixml.output.page import Cards, Code, Facts, Folded, Page, Part, Picture, Rows, section
from airmixml.output.tables import Marked, Table
from airmixml.reading import read_regular
from airmixml.reports.folders import FoundFolder, find_folder, is_report, read_curve
from airmixml.scenario import Scenario
from airmixml.storage.files import corrupt_file, write_text, writing_to
from airmixml.storage.run_folder import PROTECTION, REPORT, SCENARIO
from airmixml.wording import NONE, against, duration

_MOST_FOLDERS: Final = 12
# Who makes the page of a result from its JSON file and its scenario; imported when a folder of that kind is met.
_BUILDERS: Final = {
    "run": "airmixml.runs.run_page:run_page",
    "attack": "airmixml.attacks.attack_page:attack_page",
    "audit": "airmixml.audit.audit_page:audit_page",
    "plan": "airmixml.planning.plan_page:plan_page",
    "comparison": "airmixml.compare.comparison_page:comparison_page",
    "sweep": "airmixml.sweeps.sweep_page:sweep_page",
    "tolerances": "airmixml.tolerances.tolerance_page:tolerances_page",
    "reproduction": "airmixml.reproduction.reproduction_page:reproduction_page",
}
# What each shows; of the others the file's name is all that is known.
_CAPTIONS: Final = {
    "figures/overview": "What was sent and received, what was learned, and what accountants certify",
    "figures/privacy": "Epsilon by accountant and adversary",
    "attack": "Originals beside what each adversary recovered",
    "audit": "Epsilons claimed and found, and the error rates of the attack",
    "plan": "Signal, energy and expected accuracy or learning noise of designs at the same privacy",
    "compare": "Accuracy of each method on the test set, and its epsilon",
    "sweep": "The first metric along the first key",
    "tolerances": "Accuracy against the size of each impairment",
}
_PROTECTED: Final = ("figures/privacy",)
_RELEASABLE: Final = (
    "This page holds nothing but what the privacy statements below cover, and what was public before the run."
)
_STUDY: Final = "Some of the numbers and pictures below never saw noise: never release this page for real data."
_REPEATED: Final = (
    "Each repetition is another release of the same data and reveals more: it draws new noise, and its model differs."
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A folder and what its command says about it."""

    found: FoundFolder
    page: Page  # as the command's own builder has it
    scenario: Scenario | None  # None where there are many

    @property
    def protected(self) -> bool:
        """Whether only what the statements cover may be told."""
        return self.found.plain.get("mode") == PROTECTION

    @property
    def command(self) -> tuple[str, ...]:
        """The words that make the folder again, as its files tell them."""
        name, *options = self.page.command
        return ("airmix", name, *options) if self.scenario is None else command_for(name, self.scenario, *options)

    @property
    def asked(self) -> Rows:
        """What was asked: what the page says, and what every scenario has."""
        rows = dict(_rows(self.page, "asked"))
        if (scenario := self.scenario) is None:
            return tuple(rows.items())
        sends = f"{scenario.workers.count:,}, {scenario.radio.scheduled:,} at a time in {scenario.slots_in_words}"
        about = {"data": scenario.workers.dataset, "workers": sends, "learner": scenario.learner.in_words}
        return tuple((about | {"privacy target": asked_for(scenario)} | rows).items())

    def whole(self) -> Page:
        """Return the page with what every report has: scenario, pictures, versions, and the command."""
        plain, first = self.found.plain, self.page.sections[0]
        asked = section(first.name, first.heading, Facts(caption="The question", rows=self.asked))
        kept = [asked, *self.page.sections[1:]] if first.name == "asked" else [asked, *self.page.sections]
        words = {} if self.protected else {"airmixml": plain.get("airmixml")}
        made = {**words, **plain.get("versions", {}), "device": plain.get("device")}
        if "seconds" in plain:
            made["time"] = duration(plain["seconds"])
        versions = tuple((name, str(value)) for name, value in made.items() if value)
        again: list[Part] = [Code(shlex.join(self.command))]
        again += ["with the scenario below saved as scenario.toml."] if needs_file(self.command) else []
        again += [_REPEATED] if self.protected else []
        if self.scenario is not None:
            again.append(Folded(summary="The whole scenario", parts=(Code(self.scenario.to_toml()),)))
        again.append(Folded(summary="Made with", parts=(Facts(caption="Versions and time", rows=versions),)))
        study = (_STUDY,) if self.found.kind == "run" else ()
        return replace(
            self.page,
            notices=(*self.page.notices, *((_RELEASABLE,) if self.protected else study)),
            sections=(
                *kept,
                section("pictures", "Pictures", *pictures_in(self.found.path, protected=self.protected)),
                section("again", "Make it again", *again),
            ),
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
    path = _write((work or folder) / REPORT if out is None else out, read_report(folder, work).whole())
    return folder / REPORT if out is None else path


def write_side_by_side(folders: Sequence[Path | str], out: Path) -> Path:
    """Write one page about several folders and return its path; only a page of ours is replaced."""
    if not 2 <= len(folders) <= _MOST_FOLDERS:
        raise RunFolderError(f"give 2 to {_MOST_FOLDERS} folders to put side by side, not {len(folders)}")
    if out.name == REPORT and (out.parent / "metrics.json").exists():
        raise RunFolderError(f"{out}: is the report of a single folder; choose another name with --out")
    return _write(out, side_by_side([read_report(Path(folder)) for folder in folders]))


def _write(path: Path, page: Page) -> Path:
    if path.is_dir():
        raise RunFolderError(f"{path}: is a folder; name a file with --out, such as {path / REPORT}")
    if path.exists() and not is_report(path):
        raise RunFolderError(f"{path}: is there already and is no report of airmix; choose another name with --out")
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page.to_html())
    return path


def read_report(folder: Path, work: Path | None = None) -> Report:
    """Return what a folder tells; refuse one that airmix did not make, or that was changed.

    ``work`` is where its files are before it gets its name.
    """
    found = find_folder(folder, work)
    module, _, builder = _BUILDERS[found.kind].partition(":")
    try:
        scenario = found.scenario()
        read_curve(found.path)
        page = getattr(import_module(module), builder)(found.plain, scenario)
        return Report(found=found, page=page, scenario=scenario)
    except AirMixError:
        raise
    except OSError as problem:
        where = problem.filename or folder
        raise RunFolderError(f"{where}: cannot be read ({problem.strerror}); is {SCENARIO} there?") from problem
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as problem:
        raise corrupt_file(found.file, problem, delete=f"the folder {folder}") from problem


def side_by_side(reports: Sequence[Report]) -> Page:
    """Return the page about several folders: a column each, and no picture."""
    names = short_names([report.found.path for report in reports])
    scenarios = [{} if each.scenario is None else flat(each.scenario) for each in reports]
    keys = [{key: shown_value(value) for key, value in scenario.items()} for scenario in scenarios]
    told = [{"kind": each.page.kind, "title": each.page.title, "verdict": each.page.verdict} for each in reports]
    differences = _beside("Keys that differ", names, keys, first="key", differing=True)
    costs = [dict(_rows(each.page, "costs")) for each in reports]
    marked = "Marked values are not those of the first column; all keys that are not listed are equal."
    return Page(
        kind="side by side",
        title=f"{len(reports)} results side by side: {', '.join(names)}",
        notices=tuple(dict.fromkeys(notice for report in reports for notice in report.page.notices)),
        sections=(
            section("differences", "What differs", marked if differences else "The scenarios are equal.", *differences),
            section(
                "results",
                "What came out",
                *_beside("Each folder", names, told),
                *_beside("What came out", names, [dict(_rows(each.page, "results")) for each in reports]),
                *_beside("Smallest epsilon against each adversary", names, list(map(_epsilons, reports))),
                *_beside("Energy, power and time on the air", names, costs),
            ),
            section("again", "Make them again", *(Code(shlex.join(report.command)) for report in reports)),
        ),
    )


def _rows(page: Page, name: str) -> Rows:
    """Return the facts of a section, those that continue the one before without a name of their own."""
    return tuple((row[0].strip(), row[1]) for facts in page.all(Facts, name) for row in facts.rows if row[0])


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts of paths, as many as tell them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(each[-1:])} ({number})" for number, each in enumerate(parts, start=1)]


def _beside(
    title: str, names: Sequence[str], columns: Sequence[dict[str, str]], *, first: str = "", differing: bool = False
) -> tuple[Table, ...]:
    """Return every name that some column has with all values: one table, or none.

    Where only ``differing`` rows are shown, values that are not those of the first column are marked.
    """
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [column.get(name, NONE) for column in columns]
        if not differing:
            rows.append((name, *values))
        elif len(set(values)) > 1:
            rows.append((name, *(value if value == values[0] else Marked(value) for value in values)))
    return (Table(title=title, columns=(first, *names), rows=tuple(rows)),) if rows else ()


def _epsilons(report: Report) -> dict[str, str]:
    """Return what is promised against each adversary; of several settings, that of the first."""
    cards: Any = next(report.page.all(Cards), None)
    told = {against(card.adversary): f"{card.epsilon} ({card.promise})" for card in cards.cards} if cards else {}
    if told and report.scenario is not None:  # an epsilon is never a bare number
        privacy = report.scenario.privacy
        told |= {"delta": f"{privacy.delta:.3g}", "neighbours": privacy.adjacency}
    return told


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
