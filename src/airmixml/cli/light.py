"""Commands that run on small devices: they start without Typer, Rich and all that other commands need.

Only ``--name value`` is read here. Whatever else is on the command line, ``--help`` and mistakes too, is left to the
command's full form (``cli/deploy.py``), which does the same.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

COMMANDS: Final = ("worker", "gateway")
FOLDER: Final = Path("deployment")
PATIENCE_SECONDS: Final = 600.0
_OPTIONS: Final[dict[str, Any]] = {"--data": Path, "--id": str, "--folder": Path, "--patience": float}


def answer_light(arguments: Sequence[str]) -> int | None:
    """Run the command and return its exit code, or None where it is not one of these, or not so simple."""
    if not arguments or arguments[0] not in COMMANDS:
        return None
    given = _read(arguments[1:])
    if given is None or not {"--data", "--id"} <= given.keys():
        return None
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads take memory, and a worker multiplies nothing large
    from airmixml.errors import AirMixError

    try:
        run(given.pop("--data"), given.pop("--id"), **{name[2:]: value for name, value in given.items()})
    except AirMixError as problem:
        sys.stderr.write(f"airmix: error: {' '.join(str(problem).split())}\n")
        return 2
    return 0


def run(
    data: Path,
    name: str,
    folder: Path = FOLDER,
    patience: float = PATIENCE_SECONDS,
    *,
    show_values: bool = False,
) -> None:
    """Be the worker or gateway of that name until the run is over."""
    from airmixml.cli.process import raise_when_interrupted
    from airmixml.deploy.worker_process import run_workers

    raise_when_interrupted()
    run_workers(folder, name, data, patience, show_values=show_values)


def _read(words: Sequence[str]) -> dict[str, Any] | None:
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or len(dict(pairs)) != len(pairs) or any(name not in _OPTIONS for name, _ in pairs):
        return None
    try:
        return {name: _OPTIONS[name](text) for name, text in pairs}
    except ValueError:
        return None
