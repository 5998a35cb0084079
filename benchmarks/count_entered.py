"""Count the files and functions of airmixml that a command enters, room by room.

A reader who wants to follow ``airmix run`` must read what it enters. ``python benchmarks/count_entered.py run --preset
private-mnist`` runs the command in this process and prints the counts; the last line is the sum.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import airmixml
from airmixml.cli.main import main

SOURCE: Final = f"{Path(airmixml.__file__).parent}/"


def entered(arguments: list[str]) -> set[tuple[str, str]]:
    """Return file and name of each function that a command calls; code that runs at import is not counted."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        # Bodies of modules and classes, which run at import, have no fast locals.
        if event == "call" and code.co_filename.startswith(SOURCE) and code.co_flags & inspect.CO_OPTIMIZED:
            found.add((code.co_filename.removeprefix(SOURCE), code.co_qualname))

    sys.argv = ["airmix", *arguments]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    # A lambda, a comprehension or the body of a class is part of what holds it.
    return {(file, name) for file, name in found if not name.endswith(">")}


def report(found: set[tuple[str, str]]) -> str:
    """Return a line for each room with its files and functions, the largest first, and one for all of them."""
    functions = Counter(file.partition("/")[0].removesuffix(".py") for file, _ in found)
    files = Counter(file.partition("/")[0].removesuffix(".py") for file in {file for file, _ in found})
    lines = [f"{room:14} {files[room]:4} files {count:5} functions" for room, count in functions.most_common()]
    return "\n".join([*lines, f"{'all':14} {files.total():4} files {functions.total():5} functions"])


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        print(report(entered([*sys.argv[1:], "--out", f"{folder}/run"])))
