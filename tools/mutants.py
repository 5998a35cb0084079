"""Change one comparison, operator or number of the privacy code at a time, and see whether the room's own tests notice.

``make mutants SEED=1 COUNT=60`` draws 60 such mutants and prints how many were noticed, room by room. A process that
has imported the libraries forks a child for each mutant, which runs the tests that execute the changed line, the
quickest first, until one fails. Which tests execute which line is measured once and kept in ``build/mutants``, as are
the verdicts: a later call judges only what is new, and what survived before the tests of its room changed.
``tools/harmless_mutants.toml`` holds the survivors that change no number and no refusal, each with the reason.
"""

import argparse
import ast
import gc
import hashlib
import importlib
import json
import math
import os
import random
import re
import resource
import select
import signal
import sys
import time
import tomllib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import settings
from mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[1]
HARMLESS = Path(__file__).with_name("harmless_mutants.toml")
PRELOADED = (
    "torch scipy.stats scipy.sparse scipy.optimize hypothesis.strategies dp_accounting.pld mpmath sklearn.datasets"
)
ROOMS = {  # source files and tests of a room
    "privacy": (["privacy/*.py"], ["privacy"]),
    "ledgers": (["budgets/*.py"], ["budgets", "privacy/test_privacy_ledger.py", "runs/test_runs_ledger.py"]),
    "masks": (["masks/*.py"], ["masks"]),
    "integers": (["integers/*.py"], ["integers"]),
    "gain bounds": (["impairments/gain_bound.py", "impairments/gain_laws.py"], ["impairments"]),
    "power": (
        ["radio/mixing.py", "radio/privacy_target.py", "radio/workers_noise.py", "radio/masking.py", "radio/tally.py"],
        ["radio"],
    ),
}
QUICK, LONG = "not long and not deploy", "long and not deploy"
CPU_SECONDS, TEST_SECONDS = 30.0, 5.0  # of a child and of a test, beside ten times what its tests take
MEMORY = 12 << 30


class Loader(SourceFileLoader):
    """Loads a changed tree in place of a module's source."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> Any:
        return compile(self.tree, self.path, "exec")


@dataclass(frozen=True)
class Finder:
    """Finds one module of a project changed, and leaves all others to Python."""

    name: str
    tree: ast.Module

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != self.name or (spec := PathFinder.find_spec(name, path)) is None or spec.origin is None:
            return None
        spec.loader = Loader(name, spec.origin, self.tree)
        return spec


class FirstFailure:
    """Runs the chosen tests, the quickest first, and notes which fails."""

    def __init__(self, seconds: dict[str, float] | None) -> None:
        self.seconds, self.failed = seconds, ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.seconds is not None:
            chosen = [item for item in items if item.nodeid in self.seconds]
            # Tests of a file stand together where they take alike, so that they share its fixtures.
            items[:] = sorted(chosen, key=lambda item: (round(4 * self.seconds[item.nodeid]), item.path, item.nodeid))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.seconds is not None:  # a test that hangs ends the process
            signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS + 10.0 * self.seconds[nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"import of {report.nodeid}"


class Executed:
    """Notes which tests execute which lines, and how long each takes."""

    def __init__(self, files: dict[str, Path], package: str) -> None:
        self.files, self.package = files, package
        self.measured = Coverage(data_file=None, include=[str(file) for file in files.values()], config_file=False)
        self.seconds, self.bad, self.now, self.modules = dict[str, float](), set[str](), "", 0
        self.caches = list[Any]()
        self.measured.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        loaded = [name for name in sys.modules if name.startswith(self.package)]
        if len(loaded) != self.modules:  # what an earlier test left in a cache would not be executed again
            self.modules = len(loaded)
            kind = type(cache(len))
            self.caches = [
                x for x in gc.get_objects() if isinstance(x, kind) and str(x.__module__).startswith(self.package)
            ]
        for cached in self.caches:
            cached.cache_clear()
        self.now, began = item.nodeid, time.process_time()
        self.measured.switch_context(item.nodeid)
        yield
        self.measured.switch_context("")
        self.seconds[item.nodeid] = time.process_time() - began

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope != "function":
            self.measured.switch_context(request.node.nodeid + "*")
        yield
        self.measured.switch_context(self.now)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.bad.add(report.nodeid)

    def by_file(self) -> dict[str, dict[str, Any]]:
        """Return, of each test file, the seconds of its tests and the lines that each executes."""
        self.measured.stop()
        data = self.measured.get_data()
        result = defaultdict[str, dict[str, Any]](lambda: {"seconds": {}, "lines": defaultdict(dict)})
        for name, seconds in self.seconds.items():
            if name not in self.bad:
                result[name.partition("::")[0]]["seconds"][name] = round(seconds, 3)
        for file, path in self.files.items():
            for line, contexts in data.contexts_by_lineno(str(path)).items():
                for name in sorted({name for context in contexts for name in self._tests(context)}):
                    lines = result[name.partition("::")[0]]["lines"][file]
                    lines.setdefault(str(line), []).append(name)
        return dict(result)

    def _tests(self, context: str) -> list[str]:
        if not context.endswith("*"):
            return [context] if context in self.seconds and context not in self.bad else []
        return [name for name in self.seconds if name.startswith(context[:-1]) and name not in self.bad]


def in_child(work: Callable[[], Any], cpu_seconds: float) -> Any:
    """Return what ``work`` returns in a process of its own; a line of text where it ends otherwise."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reading)
        silent = os.open(os.devnull, os.O_RDWR)
        if "MUTANTS_VERBOSE" not in os.environ:
            os.dup2(silent, 1)
            os.dup2(silent, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_seconds), math.ceil(cpu_seconds) + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        try:
            told = json.dumps(work()).encode()
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(told)
        finally:
            os._exit(0)
    os.close(writing)
    told, ends = b"", time.monotonic() + 10.0 * cpu_seconds  # beside others it has a part of a core
    while select.select([reading], [], [], max(0.0, ends - time.monotonic()))[0] and (
        read := os.read(reading, 1 << 20)
    ):
        told += read
    os.close(reading)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        return json.loads(told)
    except ValueError:
        return "ended by a limit of time or memory, or by a crash"


@dataclass(frozen=True)
class Project:
    """A source tree with its tests, and the rooms that are judged."""

    root: Path
    rooms: dict[str, tuple[list[str], list[str]]]
    package: str = "airmixml"

    @property
    def folder(self) -> Path:
        return self.root / "build" / "mutants"

    @property
    def source(self) -> Path:
        return self.root / "src" / self.package

    def files(self, rooms: Collection[str]) -> dict[str, str]:
        """Return the files of rooms, below the package, and the room of each."""
        return {
            path.relative_to(self.source).as_posix(): room
            for room in rooms
            for pattern in self.rooms[room][0]
            for path in sorted(self.source.glob(pattern))
        }

    def mutants(self, rooms: Collection[str]) -> list[Mutant]:
        """Return all mutants of rooms, in the order of their files and lines."""
        texts = {file: (self.source / file).read_text(encoding="utf-8") for file in self.files(rooms)}
        return [mutant for file, room in self.files(rooms).items() for mutant in mutants_of(texts[file], file, room)]

    def tests(self, room: str) -> list[Path]:
        """Return the files of a room's tests."""
        places = [self.root / "tests" / place for place in self.rooms[room][1]]
        return sorted(file for place in places for file in (place.glob("test_*.py") if place.is_dir() else [place]))

    def state(self, files: list[Path]) -> str:
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]

    def pytest(self, plugin: Any, tests: list[str], marks: str = QUICK) -> int:
        """Run tests in this process, which must end afterwards."""
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.chdir(self.root)
        sys.dont_write_bytecode, sys.pycache_prefix = (
            False,
            str(self.folder / "pycache"),
        )  # children share what they compile
        sys.path.insert(0, str(self.root / "src"))
        settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
        settings.load_profile("mutants")
        options = ["-x"] if isinstance(plugin, FirstFailure) else []
        return int(
            pytest.main(
                [
                    *tests,
                    *options,
                    "-q",
                    "--tb=no",
                    "-p",
                    "no:cacheprovider",
                    "-p",
                    "no:unraisableexception",
                    "-m",
                    marks,
                ],
                [plugin],
            )
        )

    def measure(self, room: str) -> dict[str, dict[str, Any]]:
        """Return, of each test file of a room, what ``Executed`` notes; measured where a file is new or changed."""
        files = {file: self.source / file for file in self.files(self.rooms)}
        mine = [self.source / file for file in self.files([room])]
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {
            self.name(file): self.folder / f"{file.stem}-{self.state([file, *mine])}.json" for file in self.tests(room)
        }
        if new := [name for name, store in kept.items() if not store.exists()]:
            print(f"{room}: measuring which lines the tests of {len(new)} files execute", flush=True)

            def work() -> dict[str, dict[str, Any]]:
                executed = Executed(files, self.package)
                self.pytest(executed, new)
                return executed.by_file()

            measured = in_child(work, 3600.0)
            for name in new:
                kept[name].write_text(json.dumps(measured.get(name, {"seconds": {}, "lines": {}})), encoding="utf-8")
        return {name: json.loads(store.read_text(encoding="utf-8")) for name, store in kept.items()}

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def chosen(self, mutant: Mutant, measured: dict[str, dict[str, Any]], patience: float = 60.0) -> dict[str, float]:
        """Return the tests that execute what a mutant changes, the quickest ones up to so many seconds in total."""
        lines = {(mutant.file, line) for line in mutant.lines}
        if mutant.names:
            used = re.compile(rf"\b({'|'.join(mutant.names)})\b")
            for file in self.files(self.rooms):
                texts = (self.source / file).read_text(encoding="utf-8").splitlines()
                lines |= {(file, number) for number, text in enumerate(texts, 1) if used.search(text)}
        result = dict[str, float]()
        for each in measured.values():
            executed = each["lines"]
            names = {name for file, line in lines for name in executed.get(file, {}).get(str(line), ())}
            if not lines:
                names = {name for tests in executed.get(mutant.file, {}).values() for name in tests}
            result |= {name: each["seconds"][name] for name in names}
        quickest = sorted(result, key=lambda name: result[name])
        within = bisect_right(list(accumulate(result[name] for name in quickest)), patience)
        return {name: result[name] for name in quickest[: within + 1]}

    def judged(self, mutant: Mutant, seconds: dict[str, float] | None) -> tuple[bool, str]:
        """Return whether tests notice a mutant and which does; None: all long tests of its room."""
        if seconds == {}:
            return False, "no test executes it"
        names = map(self.name, self.tests(mutant.room)) if seconds is None else {x.partition("::")[0] for x in seconds}
        module = f"{self.package}.{mutant.file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"

        def work() -> tuple[bool, str]:
            sys.meta_path.insert(0, Finder(module, mutant.applied()))
            tests = FirstFailure(seconds)
            code = self.pytest(tests, sorted(names), LONG if seconds is None else QUICK)
            return code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), tests.failed

        limit = CPU_SECONDS + 10.0 * sum(seconds.values()) if seconds is not None else 600.0
        told = in_child(work, limit)
        return (True, told) if isinstance(told, str) else tuple(told)

    def judge(self, mutants: list[Mutant], *, long: bool = False) -> dict[str, dict[str, Any]]:
        """Judge what was not judged before, and return all verdicts by their mutants' keys."""
        store = self.folder / "verdicts.jsonl"
        measured = {room: self.measure(room) for room in dict.fromkeys(mutant.room for mutant in mutants)}
        states = {
            room: self.state([*self.tests(room), *(self.source / x for x in self.files([room]))]) for room in measured
        }
        rows = [json.loads(line) for line in store.read_text(encoding="utf-8").splitlines()] if store.exists() else []
        verdicts = {row["key"]: row for row in rows}
        with store.open("a", encoding="utf-8") as out:
            for done, mutant in enumerate(mutants):
                before = verdicts.get(mutant.key, {"state": "", "noticed": False, "long": False})
                if before["noticed"] or (before["state"] == states[mutant.room] and before["long"] >= long):
                    continue
                began = time.monotonic()
                noticed, by = self.judged(mutant, self.chosen(mutant, measured[mutant.room]))
                late = False
                if long and not noticed:
                    late, by = self.judged(mutant, None)
                row = {
                    "key": mutant.key, "room": mutant.room, "file": mutant.file, "line": mutant.line,
                    "text": mutant.text, "change": mutant.change, "noticed": noticed, "noticed_late": late, "by": by,
                    "long": long, "seconds": round(time.monotonic() - began, 2), "state": states[mutant.room],
                }  # fmt: skip
                verdicts[mutant.key] = row
                print(json.dumps(row), file=out, flush=True)
                word = "noticed" if noticed else "noticed by a long test" if late else "SURVIVED"
                print(
                    f"{done + 1:4} {mutant.file}:{mutant.line}  {mutant.change}  {word}  {by}  {row['seconds']} s",
                    flush=True,
                )
        return verdicts


@dataclass(frozen=True)
class Harmless:
    """What survives because it changes no number and no refusal."""

    entries: list[dict[str, str]]

    @classmethod
    def read(cls, path: Path) -> "Harmless":
        return cls(tomllib.loads(path.read_text(encoding="utf-8")).get("harmless", []))

    def why(self, row: Mutant) -> str:
        """Return why a mutant is harmless, or nothing."""
        for entry in self.entries:
            if (entry["file"], entry["line"]) == (row.file, row.text) and row.change in entry["changes"]:
                return entry["why"]
        return ""


def table(mutants: list[Mutant], verdicts: dict[str, dict[str, Any]], harmless: Harmless) -> str:
    """Return the counts by room, and the survivors that are not known to be harmless."""
    rows, survivors = [], []
    for room in [*dict.fromkeys(mutant.room for mutant in mutants), "all"]:
        mine = [mutant for mutant in mutants if room in (mutant.room, "all")]
        excused = [mutant for mutant in mine if harmless.why(mutant)]
        judged = [mutant for mutant in mine if mutant not in excused and mutant.key in verdicts]
        noticed, late = (
            [mutant for mutant in judged if verdicts[mutant.key][name]] for name in ("noticed", "noticed_late")
        )
        survivors = [mutant for mutant in judged if mutant not in noticed]
        share = len(noticed) / max(len(judged), 1)
        counts = (len(mine), len(excused), len(noticed), len(late), len(survivors) - len(late))
        rows.append(f"{room:12}" + "".join(f"{count:10}" for count in counts) + f"{share:10.0%}")
    head = f"{'room':12}" + "".join(
        f"{word:>10}" for word in ("mutants", "harmless", "noticed", "late", "survived", "share")
    )
    return "\n".join([head, *rows, *(f"{x.file}:{x.line}: {x.change}    in: {x.text}" for x in survivors)])


def main(project: Project, arguments: list[str]) -> None:
    """Judge mutants as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--count", type=int, default=60, help="how many")
    parser.add_argument("--rooms", default=",".join(project.rooms), help="of which rooms")
    parser.add_argument(
        "--at", default="", help="all mutants of lines, such as privacy/adversaries.py:121-140, instead"
    )
    parser.add_argument("--long", action="store_true", help="let the long tests of a room judge what survives")
    given = parser.parse_args(arguments)
    mutants = project.mutants(given.rooms.split(","))
    if given.at:
        file, _, lines = given.at.partition(":")
        first, _, last = lines.partition("-")
        wanted = range(int(first or 1), int(last or first or 10**6) + 1)
        mutants = [mutant for mutant in mutants if mutant.file == file and mutant.line in wanted]
    else:
        mutants = random.Random(given.seed).sample(mutants, min(given.count, len(mutants)))
    for name in PRELOADED.split():
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    harmless = Harmless.read(HARMLESS)
    verdicts = project.judge([mutant for mutant in mutants if not harmless.why(mutant)], long=given.long)
    print(table(mutants, verdicts, harmless))


if __name__ == "__main__":
    main(Project(ROOT, ROOMS), sys.argv[1:])
