"""One simulation of given sizes in a process of its own: how long its slots take, and the most memory that it uses.

python benchmarks/one_run.py '{"slots": 10000, "scheduled": 64, "workers": 60000, "inputs": 784}'
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

SIZES = {"slots": 10_000, "scheduled": 64, "workers": 60_000, "inputs": 784}
SAMPLES = 1000  # the pool: small, so that it hides nothing


@cache
def run_alone(sizes: str) -> dict[str, float]:
    """Return what a fresh process says of sizes that are given as JSON; each is run once."""
    command = [sys.executable, str(Path(__file__)), sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(**changed: int) -> dict[str, float]:
    """Return seconds, and megabytes beside data and libraries, of the usual sizes with some of them changed."""
    return run_alone(json.dumps({**SIZES, **changed}, sort_keys=True))


def peak_megabytes() -> float:
    """Return the most memory that this process has had (not ru_maxrss, which begins with that of its parent)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    from airmixml import Scenario, Speed, simulate_blocks  # noqa: PLC0415 - not where only run_alone is used
    from airmixml.radio.tally import AirReport  # noqa: PLC0415
    from airmixml.streams import Streams  # noqa: PLC0415
    from airmixml.workers import deploy  # noqa: PLC0415
    from made_up_digits import made_up_digits  # noqa: PLC0415

    sizes: dict[str, Any] = json.loads(sys.argv[1])
    dataset = made_up_digits(SAMPLES, 10, sizes["inputs"])

    def run(slots: int, workers: int) -> AirReport:
        scenario = Scenario.preset("paper-mnist").with_overrides(
            f"radio.slots={slots}", f"radio.scheduled={sizes['scheduled']}", f"workers.count={workers}"
        )
        population = deploy(scenario.workers, dataset, Streams(0))
        report = AirReport.of(scenario, dataset, population)
        for block in simulate_blocks(scenario, dataset, population, speed=Speed(threads=2)):
            report.add(block)
        report.worker_epsilons()
        return report

    run(64, 1024).to_dict()  # imports and starts what is imported and started only once
    before = peak_megabytes()
    started = time.perf_counter()
    report = run(sizes["slots"], sizes["workers"])
    seconds = time.perf_counter() - started
    report.to_dict()  # as a run does; the accountants' time depends on no size
    print(json.dumps({"seconds": seconds, "megabytes": peak_megabytes() - before, "peak_megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main()
