"""Connections that have not shown the cookie yet: a few at once, and none for long.

Every user of this machine can connect. Without a limit, connections that send nothing would use up what the operating
system gives a process, and no page would be served any more.
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

Client = tuple[str, int]

# So many connections are accepted before those that came before them are read. A browser sends its request as soon as
# it is connected, so that a flood of others does not push it out.
ACCEPTED_AT_ONCE: Final = 32
_MOST: Final = 4 * ACCEPTED_AT_ONCE
_SECONDS: Final = 5.0


class Callers:
    """Ends connections without the cookie: after some seconds, and the oldest first where there are too many."""

    def __init__(self, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._waiting: dict[Client, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}  # the oldest first

    def came(self, client: Client | None, transport: asyncio.Transport) -> None:
        """Note a new connection."""
        if client is None:  # it has gone already
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._waiting[client] = transport, loop.call_later(self._seconds, transport.abort)
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            self._waiting[oldest][0].abort()
            self.admit(oldest)

    def admit(self, client: Client | None) -> None:
        """Limit a connection no more: it has shown the cookie, or has ended."""
        if client is not None and (kept := self._waiting.pop(client, None)) is not None:
            kept[1].cancel()

    def protocol(self) -> type[asyncio.Protocol]:
        """Return what speaks HTTP on each connection and tells of its begin and end."""
        callers = self

        class Watched(H11Protocol):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                callers.came(self.client, transport)

            def data_received(self, data: bytes) -> None:
                try:
                    super().data_received(data)
                except h11.ProtocolError:
                    self.transport.abort()
                if self.conn.their_state is h11.ERROR and self.cycle is not None:
                    self.cycle.disconnected = True  # its answer cannot be sent, which is nothing for the terminal

            def connection_lost(self, exc: Exception | None) -> None:
                callers.admit(self.client)
                super().connection_lost(exc)

        return Watched
