"""The runs of a folder: those that this explorer started, those that others did, interrupted and finished ones.

A run is a child process of ``airmix run``: it can be killed, cancelled and resumed as on the command line, and what it
is doing is read from files, so that all tabs see the same. What the explorer needs to resume a run (its scenario, and
what the process said last) is in the folder ``.explore`` beside it.
"""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np

from airmixml.explore.asked import leads_into, scenario_inside
from airmixml.files import LOCK, corrupt_file, open_within, read_within, take_lock, write_text
from airmixml.messages import AirMixError, RunFolderError, duration, joules, reason, shown
from airmixml.reports.pages import find_folder, read_curve
from airmixml.runs.model_files import CHECKPOINT
from airmixml.runs.results import load_result
from airmixml.scenario import Scenario
from airmixml.scenario.toml import finite, folder_stem
from airmixml.storage.folders import METRICS, PARTIAL, REPORT, SCENARIO

NOTES: Final = ".explore"
_MOST_AT_ONCE: Final = max(2, (os.cpu_count() or 2) // 2)
_TAIL_BYTES: Final = 4096
_LARGEST_FILE_BYTES: Final = 64_000_000
_LARGEST_NOTE_BYTES: Final = 1_000_000
_LONGEST_NAME: Final = 200  # bytes; files beside a folder have longer ones
_SAID: Final = re.compile(r"airmix: (?P<stage>[^:]+): (?P<done>\d[\d,]{0,20}) of (?P<total>\d[\d,]{0,20})")
_ENDING_SECONDS: Final = 10.0
_ENDS: Final = ("", PARTIAL)


class _Places(NamedTuple):
    """Where a run is, finished or not, and what this explorer noted of it."""

    folder: Path
    partial: Path
    note: Path
    log: Path


class RunBook:
    """What there is in the runs folder, and the processes that fill it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}  # those that this explorer started
        self._cancelled: set[str] = set()
        self._lock = Lock()

    def start(self, scenario: Scenario) -> str:
        """Start a run of the scenario and return its name."""
        with self._lock:
            self._check_room()
            base = f"{folder_stem(scenario.name, scenario.air)}-seed{scenario.seed}"
            names = (base if n == 1 else f"{base}-{n}" for n in range(1, 10_000))
            name = next(each for each in names if not any(map(os.path.lexists, self._places(each)[:3])))
            note = self._places(name).note
            note.parent.mkdir(parents=True, exist_ok=True)
            write_text(note, scenario.to_toml())
            self._launch(name)
        return name

    def resume(self, name: str) -> None:
        """Go on with a run that was interrupted, cancelled or killed."""
        with self._lock:
            at = self._places(name)
            if self._is_running(name):
                raise RunFolderError(f"{name}: is running")
            if not at.note.is_file():
                raise RunFolderError(f"{name}: was not started here; repeat the command that started it to resume")
            if at.folder.exists():
                raise RunFolderError(f"{name}: is finished")
            if _is_locked(at.partial):
                raise RunFolderError(f"{name}: another process runs it; wait for that, or end it there")
            self._check_room()
            # What is noted may not be ours: it is checked, and what was checked is what runs.
            text = read_within(self.folder, at.note, _LARGEST_NOTE_BYTES).decode("utf-8", "replace")
            write_text(at.note, scenario_inside(text, name, self.folder).to_toml())
            self._launch(name)

    def cancel(self, name: str) -> None:
        """Interrupt a run, as Ctrl-C does; it can be resumed."""
        with self._lock:
            if not self._is_running(name):
                raise RunFolderError(f"{name}: is not running here")
            self._processes[name].send_signal(signal.SIGINT)
            self._cancelled.add(name)

    def close(self) -> int:
        """Interrupt all runs that this explorer started, wait for them, and return how many there were."""
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _ENDING_SECONDS
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        return len(running)

    def listed(self) -> list[dict[str, Any]]:
        """Return all runs, the newest first; one that cannot be read says why."""
        return sorted((self._row(name) for name in self._names()), key=lambda each: -each["changed"])

    def told(self, name: str) -> dict[str, Any]:
        """Return one run with its learning curve and, once finished, what came out; or what is odd about it."""
        at = self._places(name)
        if not self._is_running(name) and not any(path.exists() for path in (at.folder, at.partial, at.log)):
            raise RunFolderError(f"{shown(name)}: no such run")
        about = {**self._told(name), "curve": plain_curve()}
        is_finished = about["state"] == "finished"
        try:
            about["curve"] = curve_of(self.folder, at.folder) if is_finished else curve_so_far(self.folder, at.partial)
        except RunFolderError as problem:
            about["line"] = str(problem)
        if is_finished:
            about = {**about, **facts_of_run(self.folder, at.folder)}
            report = at.folder / REPORT
            about["report"] = report.is_file() and not report.is_symlink()
        return about

    def file(self, name: str, place: str) -> bytes:
        """Return the report of a finished run, which alone a page may show."""
        path = self._places(name).folder / place
        if place != REPORT or not path.is_file():
            raise RunFolderError(f"{shown(place)}: is no file of a finished run")
        return read_within(self.folder, path, _LARGEST_FILE_BYTES)

    def _places(self, name: str) -> _Places:
        """Return where a run is; refuse names and links that lead out of the runs folder."""
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            raise RunFolderError(f"{shown(name)}: is no UTF-8; rename the folder") from None
        wrong = name != Path(name).name or name.startswith(".") or "\0" in name or "\\" in name
        if not name or wrong or length > _LONGEST_NAME:
            raise RunFolderError(f"{shown(name)}: is no name of a run")
        notes = self.folder / NOTES
        if notes.is_symlink():
            raise RunFolderError(f"{notes}: is a link, which leads elsewhere; remove it")
        folder, partial = (self.folder / f"{name}{end}" for end in _ENDS)
        for path in (folder, partial):
            if not leads_into(self.folder, path):
                raise RunFolderError(f"{path.name}: lies outside {self.folder}")
        return _Places(folder, partial, notes / f"{name}.toml", notes / f"{name}.log")

    def _is_running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def _check_room(self) -> None:
        running = [name for name in self._processes if self._is_running(name)]
        if len(running) >= _MOST_AT_ONCE:
            raise RunFolderError(f"{len(running)} runs are running; wait for one of them, or cancel it")

    def _launch(self, name: str) -> None:
        at = self._places(name)
        command = ["run", str(at.note), "--out", str(at.folder), "--json"]
        quick = {"AIRMIX_PROGRESS_SECONDS": "0.2", "AIRMIX_CHECKPOINT_SECONDS": "0.5"}
        at.log.unlink(missing_ok=True)
        self._cancelled.discard(name)
        with at.log.open("xb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "airmixml", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, **quick},
                start_new_session=True,  # Ctrl-C in the terminal is for the explorer, which passes it on
            )

    def _names(self) -> set[str]:
        """Return the names of all runs: folders with results, unfinished folders, and notes."""
        notes = self.folder / NOTES
        names = {note.stem for note in notes.glob("[!.]*.toml")} if not notes.is_symlink() else set()
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if not entry.name.startswith(".") and _is_run(entry):
                names.add(entry.name.removesuffix(PARTIAL))
        return {name for name in names if all(leads_into(self.folder, self.folder / f"{name}{end}") for end in _ENDS)}

    def _row(self, name: str) -> dict[str, Any]:
        """Return what a list says of a run, or of a folder that cannot be read."""
        try:
            return self._told(name)
        except (AirMixError, OSError, ValueError) as problem:
            line = str(problem) if isinstance(problem, AirMixError) else f"cannot be read ({reason(problem)})"
            printable = name.encode("utf-8", "backslashreplace").decode("utf-8")
            return {"name": printable, "changed": 0.0, "resumable": False, "state": "unreadable", "line": line}

    def _told(self, name: str) -> dict[str, Any]:
        at = self._places(name)
        said = _last_lines(self.folder, at.log)
        changed = _changed(at.folder, at.partial, at.log)
        about: dict[str, Any] = {"name": name, "changed": changed, "resumable": False}
        if self._is_running(name):
            return {**about, "state": "running", **_progress(said, "interrupting" if name in self._cancelled else "")}
        if (at.folder / METRICS).is_file():
            return {**about, "state": "finished"}
        if at.partial.is_dir():
            if _is_locked(at.partial):
                return {**about, "state": "running elsewhere", **_progress(said)}
            return {**about, "state": "interrupted", "resumable": at.note.is_file(), **_progress(said)}
        line = next((each for each in reversed(said) if each.startswith("airmix: error")), "")
        state = "failed" if line else "interrupted"
        return {**about, "state": state, "line": line.removeprefix("airmix: error: "), "resumable": at.note.is_file()}


def _is_run(entry: Path) -> bool:
    """Return whether a folder is that of a run; one that may not be looked into may be."""
    try:
        if entry.name.endswith(PARTIAL):
            return entry.is_dir()
        return (entry / METRICS).is_file() and (entry / SCENARIO).is_file()
    except PermissionError:
        return True


def _changed(*paths: Path) -> float:
    found = [0.0]
    for path in paths:
        with suppress(OSError):
            found.append(path.stat().st_mtime)
    return max(found)


def _last_lines(root: Path, log: Path) -> list[str]:
    try:
        with open_within(root, log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _progress(said: list[str], stage: str = "") -> dict[str, Any]:
    for line in reversed(said):
        found = _SAID.match(line)
        if found:
            done, total = (int(found[each].replace(",", "")) for each in ("done", "total"))
            return {"stage": stage or found["stage"], "done": done, "total": total}
    return {"stage": stage or "starting", "done": 0, "total": 0}


def _is_locked(folder: Path) -> bool:
    path = folder / LOCK
    if not path.is_file() or path.is_symlink():
        return False
    try:
        take_lock(folder).release()
    except (RunFolderError, OSError):
        return True
    return False


# Of a result, and of the arrays of a checkpoint: hundreds of seeds, or half a million epochs.
_MOST_BYTES: Final = 4_000_000
_MOST_CHECKPOINT_BYTES: Final = 12_000_000
_CURVE: Final = ("loss", "test_accuracy")  # arrays of a checkpoint, epochs x networks
_MOST_CURVE_BYTES: Final = 1_000_000  # of text, which takes longer to read: some ten thousand epochs


def plain_curve(
    loss: Sequence[float] = (), score: Sequence[float] = (), name: str = "accuracy", step: str = "epoch", first: int = 1
) -> dict[str, Any]:
    """Return loss on the mixtures and score on the clean test set after each step, for JSON; empty without a curve.

    Steps are epochs, or rounds from the first model on; ``first`` is the number of the first.
    """
    return {"loss": finite(list(loss)), "score": finite(list(score)), "name": name, "step": step, "first": first}


def curve_so_far(root: Path, partial: Path) -> dict[str, Any]:
    """Return the curve up to the last checkpoint of a training that is not finished; of a large file, no more."""
    path = partial / CHECKPOINT
    try:
        with np.load(io.BytesIO(read_within(root, path, _MOST_CHECKPOINT_BYTES)), allow_pickle=False) as arrays:
            if any(arrays.zip.getinfo(f"{name}.npy").file_size > _MOST_BYTES for name in _CURVE):
                raise OSError(errno.EFBIG, f"its curve is larger than {_MOST_BYTES:,} bytes")
            loss, score = (np.asarray(arrays[name], dtype=np.float64) for name in _CURVE)
        return plain_curve(loss[:, 0].tolist(), score[:, 0].tolist() if score.size else ())
    except FileNotFoundError:  # none yet, or it was just taken away
        return plain_curve()
    except OSError as problem:
        raise RunFolderError(f"{path}: cannot be read ({reason(problem)})") from None
    except Exception as problem:  # whatever a damaged file makes NumPy say
        raise corrupt_file(path, problem) from problem


def curve_of(root: Path, folder: Path) -> dict[str, Any]:
    """Return the curve of a finished run; a protected one keeps none."""
    found = read_curve(folder, lambda path: read_within(root, path, _MOST_CURVE_BYTES))
    if found is None:
        return plain_curve()
    columns = {name: [value for _, value in each] for name, each in found.columns.items()}
    score = next((name for name in columns if name.startswith("test_")), "test_accuracy")
    first = min((each[0][0] for each in found.columns.values() if each), default=1)
    scores = columns.get(score, ()), score.removeprefix("test_")
    return plain_curve(columns.get("training_loss", ()), *scores, found.step, first)


def facts_of_run(root: Path, folder: Path) -> dict[str, Any]:
    """Return what a table of finished runs has of one; else a line on what it holds, or what is odd about it."""

    read = partial(read_within, root, most_bytes=_MOST_BYTES)
    try:
        kind = find_folder(folder, read=read).kind
        if kind != "run":
            return {"line": f"results of airmix {kind}"}
        result = load_result(folder, read)
    except AirMixError as problem:
        return {"line": str(problem)}
    own, accuracy, energy = result.privacy[0], result.accuracy, getattr(result, "energy_joules", None)
    server = next((each for each in result.privacy if (each.adversary, each.accountant) == ("server", "gdp")), None)
    of_rows = result.row_statements if result.row_copies > 1 else ()
    row = next((each for each in of_rows if each.adversary == own.adversary), None)
    facts = {
        "data": result.dataset.name,
        "mode": result.mode,
        "epsilon": own.epsilon,
        "delta": own.delta,
        "adversary": own.adversary,
        "accountant": own.accountant,
        "server_epsilon": None if server is None else server.epsilon,
        "row_epsilon": None if row is None else row.epsilon,
        "row_copies": result.row_copies,
        "air_time": duration(result.air_seconds),
        "energy": None if energy is None else joules(energy),
        "seconds": result.seconds,
        "snr_db": getattr(result, "snr_inputs_db", None),
        "accuracy": None if accuracy is None else accuracy.final,
    }
    return {"facts": finite(facts)}
