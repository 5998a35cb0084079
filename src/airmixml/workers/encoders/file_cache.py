"""Files of the user that are read once and again only when they have changed."""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from airmixml.errors import ScenarioError
from airmixml.reading import open_regular
from airmixml.wording import reason

Read = TypeVar("Read")


def read_once(read: Callable[[str], Read]) -> Callable[[str, str], Read]:
    """Return a function of a path and of what names it in messages, which reads a file that it has not yet read."""

    @lru_cache(maxsize=4)
    def remembered(path: str, _changed: Any) -> Read:
        return read(path)

    def read_file(path: str, name: str) -> Read:
        path = os.path.abspath(os.path.expanduser(path))
        try:
            with open_regular(path) as file:  # what the libraries that read it would wait for is refused here
                found = os.fstat(file.fileno())
        except (OSError, ValueError) as problem:
            raise ScenarioError(
                f'workers.encoder = "{name}": {path} cannot be read ({reason(problem)}); paths are relative to the '
                "current directory"
            ) from None
        return remembered(path, (found.st_mtime_ns, found.st_size, found.st_ino))

    return read_file
