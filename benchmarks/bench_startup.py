"""What a fresh interpreter spends before it answers: CPU time (user and system) of a process, the best of a few.

The files are in the disk cache by then, and compiled to bytecode, as after an installation; nothing else is warm.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench_kit import with_bytecode

Row = dict[str, Any]
SOURCE: Final = Path(__file__).parents[1] / "src"
REPEATS: Final = 5
# What is started, and how many seconds of CPU time it may take.
STARTS: Final[tuple[tuple[str, tuple[str, ...], float], ...]] = (
    ("import airmixml", ("-c", "import airmixml"), 0.3),
    ("airmix --help", ("-m", "airmixml", "--help"), 0.3),
    *(
        (f"airmix account --preset {preset} --no-picture", ("-m", "airmixml", *command, "--no-picture"), 1.0)
        for preset in ("paper-iris", "paper-mnist", "private-mnist")
        for command in [("account", "--preset", preset)]
    ),
    (
        "from airmixml import AirMixClassifier",
        ("-c", "from airmixml import AirMixClassifier"),
        1.5,
    ),
)
# What cannot be less: the libraries that the rows above need, alone.
FLOORS: Final = {
    "airmix --help": "import typer",
    "airmix account": "import numpy, scipy.special, typer, rich.console, rich.table, rich.progress",
    "from airmixml": "import sklearn.base",
}


def rows(device: str = "cpu", quick: bool = False) -> Iterator[Row]:
    """Yield the CPU time of each start, and of the libraries alone that it imports; ``quick``: once each."""
    repeats = 1 if quick else REPEATS
    for work, arguments, most in STARTS:
        library = next((code for start, code in FLOORS.items() if work.startswith(start)), "pass")
        ours, theirs = _cpu_seconds([arguments, ("-c", library)], repeats)
        yield {
            "work": work,
            "against": "bare Python" if library == "pass" else library,
            "ours_seconds": ours,
            "theirs_seconds": theirs,
            "ratio": theirs / ours,
            "target": {"seconds": most},
        }


def _cpu_seconds(starts: list[tuple[str, ...]], repeats: int) -> list[float]:
    """Return the least CPU time of each, started by turns."""
    best = [float("inf")] * len(starts)
    with TemporaryDirectory() as bytecode:
        environment = with_bytecode(bytecode) | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        for _ in range(repeats + 1):  # the first compiles, and fills the disk cache
            for place, arguments in enumerate(starts):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                best[place] = min(best[place], spent)
    return best


if __name__ == "__main__":
    for each in rows():
        print(each)
