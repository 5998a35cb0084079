"""``airmix explore`` as a process with a terminal, as a user has it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

LINK = r"http://127\.0\.0\.1:(\d+)/[\w-]{16}/\?ticket=[\w-]{32}"


class ExplorerProcess:
    """A started explorer; it is in ``process``, and its first link in ``link``."""

    def __init__(self, start: Callable[..., subprocess.Popen[str]], *options: str, **how: Any) -> None:
        self._terminal, its_end = os.openpty()
        self.process = start("-m", "airmixml", "explore", "--port", "0", *options, stdin=its_end, **how)
        os.close(its_end)
        self.link = self._printed(r" \(works once; Enter prints another; Ctrl-C ends it\)")
        self.page = self.link.partition("?")[0]

    def _printed(self, after: str = "") -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.fullmatch(rf"airmix explore: ({LINK}){after}\n", line)
        assert found, (line, self.process.communicate())
        self.port = int(found[2])
        return found[1]

    def another_link(self) -> str:
        os.write(self._terminal, b"\n")
        return self._printed()

    def enter(self, link: str = "") -> tuple[OpenerDirector, str]:
        """Use a link; return a browser that has, and the address of the page."""
        opener = build_opener(HTTPCookieProcessor())
        with opener.open(link or self.link) as answer:
            assert answer.status == 200
        return opener, self.page

    def end(self) -> tuple[int, str, str]:
        """End it as Ctrl-C does; return its status and what else it said."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate()
        return self.process.returncode, out, err

    def close(self) -> None:
        os.close(self._terminal)
