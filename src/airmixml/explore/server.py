"""Serves the explorer on the loopback address until Ctrl-C.

The link is shown to the user alone: in the browser through a private file, in the terminal when Enter is pressed.
"""

import html
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from airmixml.messages import AirMixError

if TYPE_CHECKING:
    import uvicorn

    from airmixml.explore.guard import Guard


def private_folder() -> AbstractContextManager[str | None]:
    """Return a folder that only this user can look into, removed at the end; None where none can be made.

    It lies in the home folder, and not hidden: browsers that are confined (snap, Flatpak) see no temporary files.
    """
    for place in (os.path.expanduser("~"), None):
        with suppress(OSError):
            return TemporaryDirectory(prefix="airmix-explore-", dir=place, ignore_cleanup_errors=True)
    return nullcontext()


def open_link(link: str, folder: str) -> None:
    """Open the link in a browser, whose command line, which all users can read, names only a file in the folder."""
    address = html.escape(link)
    page = Path(folder, "explorer.html")
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


_HOST: Final = "127.0.0.1"
_LONGEST_HEAD_BYTES: Final = 1_000_000  # more than all cookies that any server of this host can set in a browser
_LONGEST_GOODBYE_SECONDS: Final = 2


# Makes an address that works once; calls what it is given when that is used.
NewLink = Callable[[Callable[[], None]], str]


def bind(port: int) -> socket.socket:
    """Return a listening socket of the loopback address (0: any free port)."""
    try:
        return socket.create_server((_HOST, port), backlog=128)
    except OSError as problem:
        why = os.strerror(problem.errno or 0)  # the message itself names the address once more
        raise AirMixError(f"--port {port}: cannot be used ({why}); choose another, or 0") from problem


def serve(folder: Path, port: int, announce: Callable[[NewLink], None]) -> int:
    """Serve the runs folder until Ctrl-C and return how many runs that interrupted.

    ``announce`` gets what makes links, as soon as they are answered.
    """
    if find_spec("plotly") is None:
        raise AirMixError("explore: needs the package plotly; pip install 'airmixml[explore]'")
    from airmixml.explore.app import Explorer

    listener = bind(port)
    explorer = Explorer(folder)
    guard, server = _guarded(explorer.app, listener, "airmix explore")
    announce(guard.new_link)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn passes Ctrl-C on once it has ended
        pass
    finally:
        listener.close()
    return explorer.interrupted


def _guarded(app: Any, listener: socket.socket, command: str) -> "tuple[Guard, uvicorn.Server]":
    """Return the guard of an application, and what serves it on that socket."""
    import uvicorn

    from airmixml.explore.guard import Guard, QuietProtocol

    guard = Guard(app, listener.getsockname()[1], command)
    config = uvicorn.Config(
        guard,
        loop="asyncio",
        http=QuietProtocol,
        ws="none",
        proxy_headers=False,  # there is none, and a client could say that it is another
        log_level="error",
        access_log=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
        server_header=False,
        timeout_graceful_shutdown=_LONGEST_GOODBYE_SECONDS,
    )
    return guard, uvicorn.Server(config)


@contextmanager
def serving_status(told: Callable[[], dict[str, Any]], announce: Callable[[str], None]) -> Iterator[NewLink]:
    """Serve the status page of a server in another thread, until the block ends; ``told`` gives what it shows.

    ``announce`` gets a link, which works once, and another whenever Enter is pressed.
    """
    from airmixml.explore.app import status_app

    listener = bind(0)
    guard, server = _guarded(status_app(told), listener, "airmix server --status")
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    announce(guard.new_link())
    if has_terminal():
        when_enter_is_pressed(lambda: announce(guard.new_link()))
    try:
        yield guard.new_link
    finally:
        server.should_exit = True
        thread.join(2 * _LONGEST_GOODBYE_SECONDS)
        listener.close()
