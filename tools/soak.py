"""Run many small or full-size runs of random scenarios, and report what should not happen: ``make soak``.

A preset, a channel profile, a seed and some changed keys are drawn, or every preset, profile and seed of a list is
taken (``--seeds``). A finding is a traceback, a hang, a number that is not finite, an epsilon above its target in
protection, a killed and resumed run that differs from the whole one, or a refusal that took over three seconds or does
not say what would make it run. Each is one line with the command that repeats it, and the exit code is then 1.

Each run on a CPU is a process of its own, forked from this one, which has imported everything; on a GPU one process
serves many runs. All runs are kept in runs.jsonl below --folder: the same call goes on where it was stopped, and runs
again what had a finding.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from soak_cases import KINDS, Case, Choices, numbers
from soak_plays import Play, Record, Step, clear, play
from soak_worker import HUNG, KILLED, Entry, Outcome, Worker, call_airmix, preload

INTERRUPTED: Final = 130
_LOOK_SECONDS, _CLOSE_LOOK_SECONDS = 0.25, 0.01
_STALLED_SECONDS: Final = 300.0
Say = Callable[[str], None]


class Seat:
    """Where one case at a time is played."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        self.folder, self.entry = folder, entry
        self.worker: Worker | None = None
        self.case: Case | None = None
        self.play: Play | None = None
        self.step: Step = Step(words=())
        self.idle_since, self.cpu_seen = 0.0, 0.0

    def take(self, case: Case) -> None:
        """Begin a case."""
        clear(self.folder)
        self.case, self.play = case, play(case, self.folder)
        self._begin(next(self.play))

    def _begin(self, step: Step) -> None:
        assert self.case is not None
        if self.worker is None:
            self.worker = Worker(self.entry, self.folder.with_name(f"{self.folder.name}-streams"), self.case.device)
        self.step, self.idle_since, self.cpu_seen = step, time.monotonic(), -1.0
        self.worker.start(step.words)

    def watch(self, patience: float) -> Outcome | None:
        """Kill what is to be killed or hangs: computing for longer than that, or not at all for minutes."""
        assert self.worker is not None
        used, now = self.worker.cpu_seconds, time.monotonic()
        if used > self.cpu_seen:
            self.idle_since, self.cpu_seen = now, used
        if used >= self.step.kill_after:
            return self._kill(KILLED)
        if used > patience or now - self.idle_since > _STALLED_SECONDS:
            return self._kill(HUNG)
        return None

    def _kill(self, how: str) -> Outcome:
        assert self.worker is not None
        worker, self.worker = self.worker, None
        return worker.kill(how)

    def ended(self, outcome: Outcome) -> Record | None:
        """Go on with the case after a command of it has ended; return its record where it was the last."""
        assert self.case is not None
        assert self.play is not None
        if self.worker is not None and (self.case.device == "cpu" or outcome.how != "ended"):
            if outcome.how == "ended":
                self.worker.close()
            self.worker = None
        try:
            self._begin(self.play.send(outcome))
        except StopIteration as done:
            self.case = self.play = None
            clear(self.folder)
            return dict(done.value)
        return None

    def stop(self) -> None:
        """Drop what is being played."""
        if self.worker is not None:
            self._kill(KILLED)
        self.case = self.play = None
        clear(self.folder)


def soak(
    cases: Iterable[Case],
    folder: Path,
    *,
    minutes: float = math.inf,
    jobs: int = 1,
    patience: float = 600.0,
    entry: Entry = call_airmix,
    say: Say = print,
) -> list[Record]:
    """Play cases until the minutes are over, and return the records of all of them, earlier ones too.

    Parameters
    ----------
    cases : iterable of Case
        Those that have a record without a finding are not played again.
    folder : Path
        Where records are kept, and where runs are written until they are judged.
    minutes : float
        When to stop; what then still runs is killed, and is no finding.
    jobs : int
        Cases at a time.
    patience : float
        Seconds of a processor after which a command hangs.
    entry : callable
        Called with the words of a command in a process of its own; returns the exit code.
    say : callable
        Called with the line of each finding.

    Returns
    -------
    list of dict
        One record for each case that was played, now or before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept, found = folder / "runs.jsonl", dict[str, Record]()
    before = _records(kept)
    until = time.monotonic() + 60.0 * minutes
    waiting = _fresh(cases, before, found)
    seats = [Seat(folder / "work" / str(number), entry) for number in range(jobs)]
    try:
        while time.monotonic() < until:
            for seat in seats:
                if seat.case is None and (case := next(waiting, None)) is not None:
                    seat.take(case)
            busy = [seat for seat in seats if seat.case is not None]
            if not busy:
                break
            for seat, outcome in _ended(busy, patience):
                record = seat.ended(outcome)
                if record is None:
                    continue
                found[record["identity"]] = record
                with kept.open("a", encoding="utf-8") as lines:  # the line before may have been cut short
                    lines.write("\n" * (lines.tell() > 0) + json.dumps(record))
                if record["finding"]:
                    say(finding_line(record))
    finally:
        for seat in seats:
            seat.stop()
    return list(found.values())


def _fresh(cases: Iterable[Case], before: dict[str, Record], found: dict[str, Record]) -> Iterator[Case]:
    """Yield the cases that have no record without a finding; put the records of others into ``found``."""
    for case in cases:
        record = before.get(case.identity)
        if record is None or record["finding"]:
            yield case
        else:
            found[case.identity] = record


def _ended(busy: Sequence[Seat], patience: float) -> Iterator[tuple[Seat, Outcome]]:
    """Yield the seats whose command has ended or was killed."""
    close = any(math.isfinite(seat.step.kill_after) for seat in busy)
    by_connection: dict[Any, Seat] = {seat.worker.connection: seat for seat in busy if seat.worker is not None}
    spoken = wait(list(by_connection), _CLOSE_LOOK_SECONDS if close else _LOOK_SECONDS)
    ready = {id(by_connection[each]) for each in spoken}
    for seat in busy:
        if id(seat) in ready:
            assert seat.worker is not None
            yield seat, seat.worker.outcome()
        elif (outcome := seat.watch(patience)) is not None:
            yield seat, outcome


def _records(path: Path) -> dict[str, Record]:
    """Return the last record of each case; a line that was cut short counts as none."""
    found: dict[str, Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[record["identity"]] = record
    return found


def finding_line(record: Record) -> str:
    """Return a finding and the command that repeats it."""
    return f"FINDING {record['command']}: {record['finding']}"


def summary(records: Sequence[Record]) -> str:
    """Return the numbers of runs, refusals, findings and scores by profile, preset, size and kind."""
    lines = [f"{'':28}{'runs':>7}{'refused':>9}{'below guessing':>16}{'findings':>10}{'accuracy (least, mean)':>25}"]
    for name in ("size", "kind", "air", "preset"):
        groups: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            groups[str(record[name])].append(record)
        lines += [_row(group, groups[group]) for group in sorted(groups)] + [""]
    return "\n".join([*lines, _row("all", records)])


def _row(name: str, records: Sequence[Record]) -> str:
    refused = sum(record["exit_code"] == 2 for record in records)
    below = sum(is_below_guessing(record) for record in records)
    findings = sum(bool(record["finding"]) for record in records)
    scores = [record["accuracy"] for record in records if record["accuracy"] is not None]
    told = f"{100 * min(scores):.1f} %, {100 * sum(scores) / len(scores):.1f} %" if scores else ""
    return f"{name:28}{len(records):7,}{refused:9,}{below:16,}{findings:10,}{told:>25}"


def is_below_guessing(record: Record) -> bool:
    """Return whether a score is more than two standard errors below that of guessing."""
    return record["gain"] is not None and record["gain"] < -2.0 * (record["gain_error"] or 0.0)


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = Choices()
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long [default: never]")
    parser.add_argument("--runs", type=int, default=0, help="stop after so many cases (0: no limit)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn; each run has its own [default: 0]")
    parser.add_argument("--seeds", type=numbers, default=(), help="list every preset and profile with these, as 0-3,7")
    parser.add_argument("--presets", type=_words, default=every.presets, help="as paper-iris,digits [default: all]")
    parser.add_argument("--airs", type=_words, default=every.airs, help="channel profiles [default: all]")
    parser.add_argument("--kinds", type=_words, help=f"of {','.join(KINDS)} [default: all; simulation for a list]")
    parser.add_argument("--size", choices=("small", "full", "both"), default="small", help="of runs [default: small]")
    parser.add_argument("--changes", type=int, default=4, help="most keys that are changed [default: 4]")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 [default: cpu]")
    parser.add_argument("--threads", type=int, default=1, help="of a run on a CPU (0: all cores) [default: 1]")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time [default: 1]")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds of a processor that are a hang")
    parser.add_argument("--folder", type=Path, default=every.folder, help="of records [default: runs/soak]")
    parser.add_argument("--list", action="store_true", help="print the commands of --runs cases and run none")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak as the command line asks; return 1 where there are findings, 130 where it was stopped."""
    given = options().parse_args(arguments)
    choices = Choices(
        presets=given.presets,
        airs=given.airs,
        seeds=given.seeds,
        sizes=("small", "full") if given.size == "both" else (given.size,),
        kinds=given.kinds or (("simulation",) if given.seeds else tuple(KINDS)),
        device=given.device,
        threads=given.threads,
        most_changes=given.changes,
        folder=given.folder,
    )
    cases = choices.listed() if given.seeds else choices.drawn(given.seed)
    cases = itertools.islice(cases, given.runs or None)
    if given.list:
        for case in cases:
            print(case.identity)
        return 0
    preload()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    how = {"minutes": given.minutes, "jobs": given.jobs, "patience": given.patience, "say": _say_at_once}
    try:
        records = soak(cases, given.folder, **how)
    except KeyboardInterrupt:
        print("stopped; the same call goes on from here", flush=True)
        return INTERRUPTED
    print(summary(records))
    return int(any(record["finding"] for record in records))


def _say_at_once(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
