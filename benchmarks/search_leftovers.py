"""Kill protected commands at many points and search everything that they leave behind for the private rows.

    nice python benchmarks/search_leftovers.py --kills 300 --out benchmarks/results/leftovers.json

Every command works on the same private table in an empty folder of its own, which also holds its home folder, its
folder for temporary files, its caches, its ledger and what it printed. Half of the kills fall at a random time, the
others at changes of files, spread over all of them: before a file is opened for writing, put on the disk, renamed or
removed, and before a ledger is opened. ``leftovers_kit.py`` says what is searched for.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer

# All of it here: a child shall not import anything for seconds.
import airmixml.reports.pages
import airmixml.runs.run_page
from airmixml import AirMixClassifier
from airmixml.budgets import LedgerFile, People
from airmixml.cli.main import main as airmix
from airmixml.output.figures import new_figure
from leftovers_kit import Search
from results_file import show_and_write

COLUMNS = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "mean smoothness": (0.05, 0.2),
    "mean concavity": (0, 0.5),
    "worst radius": (5, 40),
    "worst concave points": (0, 0.3),
}
COMMANDS = {
    "run": "airmix run cells.toml --private --ledger budgets.sqlite --out runs/one",
    "run --seeds": "airmix run cells.toml --private --ledger budgets.sqlite --seeds 2 --out runs/one",
    "estimator": "AirMixClassifier(ledger=...).fit, joblib.dump",
}
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "sqlite3.connect"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Box:
    """An empty folder in which a command works; the private table lies elsewhere."""

    root: Path
    table: Path

    def enter(self) -> None:
        """Make this process one that knows no other places."""
        for name in ("home", "tmp", "cache", "work"):
            (self.root / name).mkdir(exist_ok=True)
        os.environ |= {"HOME": str(self.root / "home"), "TMPDIR": str(self.root / "tmp")}
        os.environ |= {f"XDG_{name}_HOME": str(self.root / "cache") for name in ("CACHE", "CONFIG", "DATA", "STATE")}
        tempfile.tempdir = None
        os.chdir(self.root / "work")
        for number, name in ((1, "printed"), (2, "errors")):
            os.dup2(os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)

    def search(self, search: Search) -> dict[str, set[str]]:
        """Return what of the private table is in the box."""
        return search.found_below(self.root)


def write_table(path: Path) -> np.ndarray:
    """Write biopsies with many digits in each cell, so that a cell is found again; return the numbers, scaled."""
    frame = load_breast_cancer(as_frame=True).frame.sample(200, random_state=0)
    draws = np.random.default_rng(0).uniform(0.999, 1.001, (len(frame), len(COLUMNS)))
    values = np.array([[f"{each:.12g}" for each in row] for row in frame[list(COLUMNS)].to_numpy() * draws])
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([*COLUMNS, "target"])
        rows.writerows([*row, label] for row, label in zip(values.tolist(), frame["target"], strict=True))
    lower, upper = np.array(list(COLUMNS.values()), dtype=np.float64).T
    return np.clip((values.astype(np.float64) - lower) / (upper - lower), 0.0, 1.0)


def prepare(box: Box, command: str) -> None:
    """Put the scenario, which is public, and a ledger for protection into the box."""
    work = box.root / "work"
    work.mkdir(parents=True)
    bounds = "\n".join(f'"{name}" = [{low}, {high}]' for name, (low, high) in COLUMNS.items())
    text = f'extends = "private-table"\nname = "cells"\n[workers]\ndataset = "{box.table}"\n'
    text += 'label_column = "target"\nclasses = ["0", "1"]\n'
    text += f"feature_columns = {json.dumps(list(COLUMNS))}\n[workers.bounds]\n{bounds}\n[privacy]\ndelta = 1e-4\n"
    (work / "cells.toml").write_text(text, encoding="utf-8")
    people = People(label="worker of fit") if command == "estimator" else None
    LedgerFile.create(work / "budgets.sqlite", epsilon=100.0, delta=0.01, people=people)


def fit(table: Path) -> None:
    """What a script with the estimator does; workers are named by numbers of theirs, which are no cells."""
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    bounds = tuple(np.array(list(COLUMNS.values()), dtype=np.float64).T)
    model = AirMixClassifier(epsilon=1.0, classes=(0, 1), input_bounds=bounds, ledger="budgets.sqlite", random_state=0)
    model.fit(rows[:, :-1], rows[:, -1].astype(int), worker=[f"device {row}" for row in range(len(rows))])
    joblib.dump(model, "model.joblib")
    print(model.privacy_)


def work(command: str, table: Path) -> int:
    """Do what the command says and return its exit code."""
    if command == "estimator":
        fit(table)
        return 0
    sys.argv = shlex.split(COMMANDS[command])
    try:
        airmix()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def count_changes(then: Callable[[int], None]) -> None:
    """Call ``then`` with 1, 2, ... before each change of a file from now on."""
    changes, sync = 0, os.fsync

    def changing() -> None:
        nonlocal changes
        changes += 1
        then(changes)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
            changing()

    def synced(descriptor: int) -> None:
        changing()
        sync(descriptor)

    os.fsync = synced
    sys.addaudithook(hook)


def start(command: str, box: Box, kill_at: int = 0) -> int:
    """Start the command in a child of this process, which has imported everything; return its number."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        box.enter()
        changes = 0

        def then(number: int) -> None:
            nonlocal changes
            changes = number
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        count_changes(then)
        code = work(command, box.table)
        sys.stdout.flush()
        (box.root / "changes").write_text(str(changes))
    finally:
        os._exit(code)


def whole_run(command: str, box: Box) -> tuple[int, float, int]:
    """Run a command to its end: exit code, seconds, and how many changes of files it made."""
    started = time.perf_counter()
    _, status = os.waitpid(start(command, box), 0)
    seconds = time.perf_counter() - started
    changes = (box.root / "changes").read_text()
    (box.root / "changes").unlink()
    return os.waitstatus_to_exitcode(status), seconds, int(changes)


@contextlib.contextmanager
def new_box(table: Path, command: str) -> Iterator[Box]:
    with tempfile.TemporaryDirectory(prefix="leftovers-") as root:
        box = Box(Path(root), table)
        prepare(box, command)
        yield box


def is_whole(box: Box) -> bool:
    """Whether a folder that has its name has all its files."""
    folder = box.root / "work" / "runs" / "one"
    return not folder.exists() or all((folder / name).is_file() for name in ("metrics.json", "report.html"))


def measure(command: str, table: Path, search: Search, kills: int, chance: random.Random) -> dict[str, Any]:
    """Kill a command so often and return what was found."""
    with new_box(table, command) as box:
        code, seconds, changes = whole_run(command, box)
        whole = box.search(search)
        printed = (box.root / "errors").read_text(encoding="utf-8")
    assert code == 0, printed
    counts: Counter[str] = Counter()
    found: dict[str, list[str]] = {path: sorted(what) for path, what in whole.items()}
    for number in range(kills):
        with new_box(table, command) as box:
            at_change = bool(number % 2) and bool(changes)
            place = (number // 2) * changes // (kills // 2) if at_change else 0  # spread over all of them
            child = start(command, box, 1 + place if at_change else 0)
            if not at_change:
                time.sleep(chance.uniform(0.0, seconds))
                os.kill(child, signal.SIGKILL)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            counts["at a change of a file" if at_change else "at a random time"] += 1
            counts["came too late"] += ended != -signal.SIGKILL
            counts["left a partial folder"] += any((box.root / "work").rglob("*.partial"))
            counts["left a named folder that is not whole"] += not is_whole(box)
            counts["left half-written files"] += any((box.root / "work").rglob("*.airmix-unfinished"))
            left = box.search(search)
            counts["left something of the rows"] += bool(left)
            found |= {path: sorted(what) for path, what in left.items()}
            if not number % 10:  # the same command again
                counts["done again"] += 1
                if not (box.root / "work" / "runs" / "one").exists():
                    again, _, _ = whole_run(command, box)
                    counts["done again and failed"] += again != 0 or not is_whole(box)
                    left = box.search(search)
                    found |= {path: sorted(what) for path, what in left.items()}
    about = {"command": COMMANDS[command], "seconds": round(seconds, 2), "changes of files": changes, "kills": kills}
    return {**about, **dict(counts), "found": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300, help="in total")
    parser.add_argument("--only", default=",".join(COMMANDS), help="which commands, with commas between them")
    parser.add_argument("--seed", type=int, default=0, help="of the random times")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    os.environ |= {"AIRMIX_PROGRESS_SECONDS": "0", "COLUMNS": "120"}
    new_figure(1, 1, "").savefig(os.devnull, format="png")  # reads all fonts of the machine, once
    torch.set_num_threads(1)  # a forked process has no threads but its own
    chosen = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="private-") as folder:
        table = Path(folder) / "cells.csv"
        scaled = write_table(table)
        search = Search.of_file(table)
        search.add_values(scaled)
        chance = random.Random(options.seed)
        each = max(1, options.kills // len(chosen))
        results = {name: measure(name, table, search, each, chance) for name in chosen}
    made_by = f"python benchmarks/search_leftovers.py --kills {options.kills} --seed {options.seed}"
    made_by += "" if options.only == parser.get_default("only") else f" --only {options.only}"
    patterns = sum(map(len, search.patterns.values()))
    about = {"made_by": made_by, "airmixml": airmixml.__version__, "patterns": patterns, "rows": len(scaled)}
    show_and_write({**about, "kills": each * len(chosen), "results": results}, options.out)


if __name__ == "__main__":
    main()
