"""Serves the explorer on the loopback address until Ctrl-C."""

import socket
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from airmixml.errors import AirMixError
from airmixml.wording import reason

_HOST: Final = "127.0.0.1"
_FIRST_PORT: Final = 8750
_PORTS_TRIED: Final = 50
_LONGEST_HEAD_BYTES: Final = 1_000_000  # more than all cookies that any server of this host can set in a browser
_LONGEST_GOODBYE_SECONDS: Final = 2


# Makes an address that works once; calls what it is given when that is used.
NewLink = Callable[[Callable[[], None]], str]


class ExploreError(AirMixError):
    """The explorer cannot be started."""


def bind(port: int | None) -> socket.socket:
    """Return a listening socket of the loopback address: of that port, or of the next free one from 8750 on."""
    last: OSError | None = None
    for candidate in range(_FIRST_PORT, _FIRST_PORT + _PORTS_TRIED) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, candidate))
            listener.listen(128)
            return listener
        except OSError as problem:
            listener.close()
            last = problem
    assert last is not None
    if port is None:
        raise ExploreError(f"no free port from {_FIRST_PORT} to {_FIRST_PORT + _PORTS_TRIED - 1}; give one with --port")
    raise ExploreError(f"--port {port}: cannot be used ({reason(last)}); choose another, or leave --port out") from last


def serve(folder: Path, port: int | None, announce: Callable[[NewLink], None]) -> int:
    """Serve the runs folder until Ctrl-C and return how many runs that interrupted.

    ``announce`` gets what makes links, as soon as they are answered.
    """
    if find_spec("plotly") is None:
        raise ExploreError("explore: needs the package plotly; pip install 'airmixml[explore]'")
    try:
        import uvicorn

        from airmixml.explore.app import Explorer
        from airmixml.explore.callers import ACCEPTED_AT_ONCE, Callers
        from airmixml.explore.guard import Guard
    except ImportError as problem:
        raise ExploreError(f"explore: needs the package {problem.name}; pip install 'airmixml[explore]'") from None
    listener = bind(port)
    number = listener.getsockname()[1]
    explorer, callers = Explorer(folder), Callers()
    guard = Guard(explorer, number, callers.admit)
    server = uvicorn.Server(
        uvicorn.Config(
            guard,
            loop="asyncio",
            http=callers.protocol(),
            ws="none",
            backlog=ACCEPTED_AT_ONCE,
            proxy_headers=False,  # there is none, and a client could say that it is another
            log_level="error",  # everybody on this machine can send what is no HTTP
            access_log=False,
            h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
            server_header=False,
            timeout_graceful_shutdown=_LONGEST_GOODBYE_SECONDS,
        )
    )
    announce(guard.new_link)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn passes Ctrl-C on once it has ended
        pass
    finally:
        listener.close()
    return explorer.interrupted
