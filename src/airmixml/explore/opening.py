"""Shows a link to the user alone: in the browser through a private file, in the terminal when Enter is pressed."""

import html
import os
import shutil
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread


@contextmanager
def private_folder() -> Iterator[Path | None]:
    """Yield a folder that only this user can look into, removed at the end; None where none can be made.

    It lies in the home folder, and not hidden: browsers that are confined (snap, Flatpak) see no temporary files.
    """
    folder = None
    for place in (os.path.expanduser("~"), None):
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="airmix-explore-", dir=place))
            break
    try:
        yield folder
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def open_link(link: str, folder: Path) -> None:
    """Open the link in a browser, whose command line, which all users can read, names only a file in the folder."""
    address = html.escape(link)
    page = folder / "explorer.html"
    with open(page, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(
            f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={address}"><title>AirMixML explorer</title>'
            f'<p><a href="{address}">AirMixML explorer</a></p>\n'
        )
    Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()


def has_terminal() -> bool:
    """Return whether a user can press Enter."""
    return sys.stdin is not None and sys.stdin.isatty()


def when_enter_is_pressed(act: Callable[[], None]) -> None:
    """Call ``act`` for each line that is typed, as long as there is a terminal."""
    if hasattr(signal, "SIGTTIN"):  # in the background, reading fails instead of halting the process
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    terminal = sys.stdin.fileno()

    def read() -> None:
        with suppress(OSError):
            while os.read(terminal, 4096):  # not sys.stdin: a thread that holds it when Python ends is a fatal error
                act()

    Thread(target=read, daemon=True).start()
