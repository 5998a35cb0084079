"""Measure what docs/deploy.md tells of sizes: bytes, seconds and memory of a round, and where its time goes.

    python benchmarks/measure_deploy.py --workers 16
    python benchmarks/measure_deploy.py --workers 200 --processes 4
    python benchmarks/measure_deploy.py --workers 60000 --gateways 12 --rounds 1 --deadline 900

Broker, server and workers are processes of this machine, over mutual TLS. Without gateways every worker has a
connection of its own; ``--processes`` puts several of these connections into one process, as threads, since a machine
has no room for thousands of Python processes. Each worker holds one row of wine: 147 integers. The last of the rounds
counts; the first waits for processes to start. Results are kept in benchmarks/results/deploy.json; docs/deploy.md and
deploy_phases.csv show them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.contract import Contract
from airmixml.deploy.credentials import create_deployment, free_ports
from airmixml.deploy.processes import Broker, end_child, start_child
from airmixml.deploy.trial import deal_rows
from airmixml.scenario import Scenario
from doc_tables import Table, csv_text, with_tables

PAGE = Path(__file__).parents[1] / "docs" / "deploy.md"
RESULTS = Path(__file__).parent / "results" / "deploy.json"
TIMES = RESULTS.with_name("deploy_phases.csv")
CHANGES = ("workers.holding=drawn", "learner.rounds=0", "privacy.most_absent=0.1")
PHASES = ("announcing", "revealing", "sharing", "sending", "signing", "answering")
TICKS = os.sysconf("SC_CLK_TCK")
HOSTS = Path(__file__).parent / "deploy_hosts.py"


class Process:
    """What a process has used so far, as Linux counts it."""

    def __init__(self, pid: int) -> None:
        self._place, self.seen = Path("/proc") / str(pid), {"megabytes": 0.0, "cpu": 0.0, "read": 0, "written": 0}

    def look(self) -> None:
        """Take down what it has used; a process that has ended keeps what was seen last."""
        try:
            status = dict(line.split(":", 1) for line in (self._place / "status").read_text().splitlines())
            ticks = (self._place / "stat").read_text().rpartition(")")[2].split()[11:13]
            io = dict(line.split(": ") for line in (self._place / "io").read_text().splitlines())
        except OSError:
            return
        if "VmHWM" in status:
            self.seen = {
                "megabytes": int(status["VmHWM"].split()[0]) / 1024,
                "cpu": sum(map(int, ticks)) / TICKS,
                "read": int(io["rchar"]),
                "written": int(io["wchar"]),
            }


def measure(workers: int, gateways: int, processes: int, deadline: float, rounds: int) -> dict[str, Any]:
    """Run so many rounds and return what the last took."""
    changes = (*CHANGES, f"radio.slots={rounds}")
    scenario = planned_for(Scenario.preset("trustless-wine").with_overrides(*changes), workers)
    with tempfile.TemporaryDirectory(prefix="airmix-measure-") as temporary, ExitStack() as stack:
        folder = Path(temporary) / "system"
        begun = time.monotonic()
        dataset = data_of(scenario)
        server = create_deployment(
            folder,
            lambda keys, key: make_contract(scenario, dataset, keys, key),
            workers=workers,
            gateways=gateways,
            port=free_ports(1)[0],
        )
        deal_rows(scenario, dataset, folder, server)
        init_seconds = time.monotonic() - begun
        contract = Contract.load(folder / "contract.json")
        broker = stack.enter_context(Broker(folder))
        log = stack.enter_context((folder / "log").open("wb"))
        names, phases = server.names, list[tuple[float, str, int]]()
        shares = [names[place::processes] for place in range(min(processes, len(names)))]
        words = ("server", folder, "--deadline", f"{deadline:g}")
        children = [start_child((sys.executable, "-m", "airmixml", *words), log=log)]
        stack.callback(lambda: [end_child(each) for each in children])
        begun = time.monotonic()
        for share in shares:
            children.append(start_child((sys.executable, HOSTS, folder, *share), log=log))
        watched = [Process(each.pid) for each in (broker.process, *children)]
        while children[0].poll() is None:
            for each in watched:
                each.look()
            for line in (folder / "log").read_text().splitlines()[len(phases) :]:
                found = re.fullmatch(r"server: (?:round (\d+).*: (\w+)|all rounds are over)", line)
                phases.append((time.monotonic(), found[2] or "over", int(found[1] or 0)) if found else (0.0, "", 0))
            time.sleep(0.02)
        if children[0].returncode:
            log.flush()
            raise SystemExit(f"the server failed:\n{(folder / 'log').read_text()[-2000:]}")
        sums = json.loads((folder / "server" / "metrics.json").read_text())["rounds"]
        journal = (folder / "server" / "journal").stat().st_size
    told = [each for each in phases if each[1]]
    spans = [(name, number, following[0] - at) for (at, name, number), following in pairwise(told)]
    last = max(number for _, number, _ in spans)
    broker_seen, server_seen, *hosts = (each.seen for each in watched)
    return {
        "workers": workers,
        "gateways": gateways,
        "processes": len(shares),
        "numbers": contract.kinds[0].numbers,
        "frame_bytes": contract.kinds[0].frame_bytes,
        "degree": contract.rules[0].degree,
        "present": len(sums[-1]["workers"]),
        "seconds": sum(span for _, number, span in spans if number == last),
        "phases": {
            name: sum(span for each, number, span in spans if (each, number) == (name, last)) for name in PHASES
        },
        "init_seconds": init_seconds,
        "up_bytes_per_worker": broker_seen["read"] / workers / len(sums),
        "down_bytes_per_worker": broker_seen["written"] / workers / len(sums),
        "journal_bytes_per_worker": journal / workers / len(sums),
        "broker": {name: broker_seen[name] for name in ("megabytes", "cpu")},
        "server": {name: server_seen[name] for name in ("megabytes", "cpu")},
        "hosts": {
            "megabytes": max(each["megabytes"] for each in hosts),
            "cpu": sum(each["cpu"] for each in hosts),
        },
        "load": os.getloadavg()[0],
    }


def size_tables(kept: dict[str, Any]) -> dict[str, Table]:
    """Return the table of docs/deploy.md, what a round takes, and that of the file, where its time goes."""
    rows = sorted(kept.values(), key=lambda each: (each["workers"], each["gateways"]))
    named = [
        [f"{each['workers']:,}" + (f" behind {each['gateways']} gateways" if each["gateways"] else "")] for each in rows
    ]
    sizes = [
        [
            f"{each['seconds']:.1f} s",
            f"{each['up_bytes_per_worker'] / 1e3:.1f} / {each['down_bytes_per_worker'] / 1e3:.1f} kB",
            f"{each['journal_bytes_per_worker'] / 1e3:.1f} kB",
            f"{each['server']['megabytes']:.0f} MB",
            f"{each['broker']['megabytes']:.0f} MB",
            f"{each['hosts']['megabytes']:.0f} MB"
            + (f" for {round(each['workers'] / each['processes']):,}" if each["processes"] < each["workers"] else ""),
            f"{each['degree']}",
        ]
        for each in rows
    ]
    head = [
        "a round",
        "up / down per worker",
        "server's log",
        "server",
        "broker",
        "largest process of workers",
        "masks",
    ]
    spans = [[f"{each['phases'][name]:.2f}" for name in PHASES] for each in rows]
    return {
        "sizes": (["workers", *head], [[*name, *row] for name, row in zip(named, sizes, strict=True)]),
        "phases": (["workers", *PHASES], [[*name, *row] for name, row in zip(named, spans, strict=True)]),
    }


def main() -> None:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--gateways", type=int, default=0)
    parser.add_argument("--processes", type=int, default=0, help="processes of endpoints (0: one for each)")
    parser.add_argument("--deadline", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=2, help="the last counts")
    asked = parser.parse_args()
    endpoints = asked.gateways or asked.workers
    found = measure(asked.workers, asked.gateways, asked.processes or endpoints, asked.deadline, asked.rounds)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[f"{asked.workers} workers, {asked.gateways} gateways"] = found
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    tables = size_tables(kept)
    TIMES.write_text(csv_text(tables.pop("phases")), encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
