"""The benchmark suite: every row compares ours with a baseline within one run, taking turns.

    python benchmarks/bench.py --device cpu --save             what make bench runs
    python benchmarks/bench.py --device cuda --save            what make bench-gpu runs
    python benchmarks/bench.py --only slots,training --quick
    python benchmarks/bench.py --docs

On the CPU it uses two cores, whatever the machine has. ``--save`` writes to ``benchmarks/results``, and from there the
tables and pictures of docs/performance.md and docs/scaling.md; ``--docs`` does only that. With ``--only`` the other
rows of the file stay. Subjects are the files ``bench_SUBJECT.py``, each with a function ``rows(device, quick)``; what
one needs and the machine does not have is marked in its rows.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import bench_docs
import bench_tables

SUBJECTS = ("slots", "memory", "growth", "training", "private", "privacy", "startup")
OF_A_GPU = ("slots", "training", "private")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "dp-accounting", "opacus", "ray")
CORES = 2


def use_two_cores() -> None:
    """Keep this process and all that it starts on two cores, before anything counts them."""
    if hasattr(os, "sched_setaffinity"):
        allowed, taken, siblings = sorted(os.sched_getaffinity(0)), [], set()
        for core in allowed:  # two threads of one core are not two cores
            shared = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
            same = shared.read_text() if shared.exists() else str(core)
            if same not in siblings:
                siblings.add(same)
                taken.append(core)
        os.sched_setaffinity(0, (taken if len(taken) >= CORES else allowed)[:CORES])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(CORES)


def processor() -> str:
    """Return what the processor calls itself, as far as it does."""
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        about = dict(line.replace("\t", "").split(": ", 1) for line in lines if ": " in line)
        if "model name" in about:
            return about["model name"]
        if "CPU part" in about:
            return f"{platform.machine()}, part {about['CPU implementer']}:{about['CPU part']}"
    return platform.processor() or platform.machine()


def machine(device: str) -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    about = {"processor": f"{processor()}, {cores} of {os.cpu_count()} cores", "memory": f"{memory / 2**30:.0f} GiB"}
    if device != "cpu":
        import torch  # noqa: PLC0415 - after the cores were chosen

        about["processor"] = f"{torch.cuda.get_device_name()}; {about['processor']}"
    return about


def file_name(device: str) -> str:
    """Return bench_cpu_aarch64.json, bench_h200.json or the like."""
    if device == "cpu":
        return f"bench_cpu_{platform.machine()}.json"
    import torch  # noqa: PLC0415 - after the cores were chosen

    return f"bench_{torch.cuda.get_device_name().split()[-1].lower()}.json"


def versions() -> dict[str, str]:
    import airmixml  # noqa: PLC0415 - after the cores were chosen

    found = {"airmixml": airmixml.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def rows_of(subject: str, device: str, quick: bool) -> list[bench_tables.Row]:
    """Return the rows of a subject; where it cannot be run here, or breaks off, the last row says why."""
    started, rows = time.perf_counter(), []

    def keep(row: bench_tables.Row) -> None:
        ours, theirs = row.get("ours_seconds"), row.get("theirs_seconds")
        row["ratio"] = theirs / ours if ours and theirs else None
        rows.append({"subject": subject, **row, "met": bench_tables.is_met(row)})
        print(f"  {row['work']} | {row['against']} | {bench_tables.measured_in_words(row)}", flush=True)

    try:
        for row in importlib.import_module(f"bench_{subject}").rows(device, quick):
            keep(row)
    except ImportError as problem:
        keep({"work": subject, "against": "", "missing": f"{problem.name or problem} is not there"})
    except Exception as problem:  # the other subjects are worth having
        traceback.print_exc()
        keep({"work": subject, "against": "", "failed": f"{type(problem).__name__}: {problem}"})
    print(f"  {subject}: {time.perf_counter() - started:.0f} s", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", help=f"some of {', '.join(SUBJECTS)}, with commas between them")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not how fast it is")
    parser.add_argument("--out", type=Path, help="JSON file; the table is written beside it as .md")
    parser.add_argument("--save", action="store_true", help="write to benchmarks/results, by processor or GPU")
    parser.add_argument("--docs", action="store_true", help="only make the tables and pictures of the docs anew")
    options = parser.parse_args()
    if options.docs:
        print(*bench_docs.update(), sep="\n")
        return
    if options.device == "cuda":
        from airmixml.arrays import find_device  # noqa: PLC0415 - no torch before the cores are chosen
        from airmixml.messages import AirMixError  # noqa: PLC0415

        try:
            find_device("cuda")
        except AirMixError as problem:
            print(f"bench: {problem}", file=sys.stderr)
            sys.exit(2)
    every = SUBJECTS if options.device == "cpu" else OF_A_GPU
    wanted = every if options.only is None else options.only.split(",")
    unknown = [name for name in wanted if name not in SUBJECTS]
    if unknown:
        parser.error(f"--only: {', '.join(unknown)}: must be some of {', '.join(SUBJECTS)}")
    if options.device == "cpu":
        use_two_cores()
    if options.save:
        options.out = bench_tables.RESULTS / file_name(options.device)
    kept: list[bench_tables.Row] = []
    if options.out is not None and options.only and options.out.is_file():
        kept = json.loads(options.out.read_text())["rows"]
    rows = {subject: [row for row in kept if row["subject"] == subject] for subject in SUBJECTS}
    for subject in wanted:
        print(subject, flush=True)
        rows[subject] = rows_of(subject, options.device, options.quick)
    result = {
        "command": f"python benchmarks/bench.py --device {options.device}" + (" --quick" if options.quick else ""),
        "quick": options.quick,
        "machine": machine(options.device),
        "versions": versions(),
        "rows": [row for subject in SUBJECTS for row in rows[subject]],
    }
    finish(result, options.out)
    sys.exit(any("failed" in row for row in result["rows"]))


def finish(result: dict[str, Any], out: Path | None) -> None:
    """Show the table, write it and the JSON, and where they are those of the docs, the docs too."""
    name = "this machine"
    table = f"{bench_tables.machine_lines({name: result})}\n\n"
    table += f"{bench_tables.comparison({name: result}, [name], set(SUBJECTS) - {'growth'})}\n"
    if any("points" in row for row in result["rows"]):
        table += f"\n{bench_tables.growth({name: result}, [name])}\n"
    if out is not None:
        out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        if out.suffix == ".json":
            out.with_suffix(".md").write_text(table, encoding="utf-8")
    print("\n" + table)
    if out is not None and out.resolve().parent == bench_tables.RESULTS:
        print(*bench_docs.update(), sep="\n")


if __name__ == "__main__":
    main()
