"""Who may ask: a browser on this machine that used a link of this explorer, through its own address alone."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, quote

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol


class QuietProtocol(H11Protocol):
    """HTTP that prints nothing of requests that are none: everybody on this machine can send them."""

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except h11.ProtocolError:
            self.transport.abort()
        if self.conn.their_state is h11.ERROR and self.cycle is not None:
            self.cycle.disconnected = True  # its answer cannot be sent


LARGEST_BODY_BYTES: Final = 1_100_000  # a scenario file has 1 MB at most
_HOST: Final = "127.0.0.1"
_HEADERS: Final = {
    # Charts set inline styles; no script but ours runs, and nothing is fetched from elsewhere.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
# Not a redirect: a browser that came from elsewhere, such as a file, would follow it without the new cookie.
_ENTRANCE: Final = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=./">'
    '<link rel="icon" href="data:,"><title>AirMixML</title><p><a href="./">AirMixML</a></p>'
)
_FILES: Final = "runs/"


class Guard:
    """Lets requests through to ``app`` that name this server and bring its cookie.

    A link works once: it is exchanged for a cookie that no script can read and no other site can send. The Host header
    is checked, since another site's name may be made to point to this machine (DNS rebinding). All addresses lie below
    a random ``path``, and so does the cookie: otherwise browsers would send it to every other port of this machine,
    where another user's server may listen.

    Files of runs, which strangers may have made, are shown at other addresses, each of which opens its one file without
    a cookie: a report knows its own address and can tell it to another server.
    """

    def __init__(self, app: ASGIApp, port: int, command: str = "airmix explore") -> None:
        """Guard ``app``, which ``command`` serves."""
        self._app, self._port, self._command = app, port, command
        self._another = f"press Enter in the terminal of `{command}` for another, or start it again"
        self.path: Final = f"/{secrets.token_urlsafe(12)}/"
        self._token = secrets.token_urlsafe(24)
        self._signing = secrets.token_bytes(32)
        # No server on another port can set a cookie of the same name, nor one of an explorer that ended.
        self._cookie = f"airmix-{secrets.token_hex(8)}"
        self._ticket: str | None = None
        self._on_use: Callable[[], None] = lambda: None

    def new_link(self, on_use: Callable[[], None] = lambda: None) -> str:
        """Return an address that works once; the one before works no more. ``on_use`` is called when it is used."""
        self._ticket, self._on_use = secrets.token_urlsafe(24), on_use
        return f"http://{_HOST}:{self._port}{self.path}?ticket={self._ticket}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            answer = self._own_answer(scope) or self._app
            root = "/" + scope["path"][1:].partition("/")[0]
            await answer({**scope, "root_path": root}, receive, _with_headers(send))

    def _own_answer(self, scope: Scope) -> Response | None:
        """Return what to answer instead, or None where the request may pass."""
        headers = Headers(scope=scope)
        hosts = {f"{name}:{self._port}" for name in (_HOST, "localhost")}
        if headers.get("host", "") not in hosts:
            return self._refused(f"this address is another's: use the link that `{self._command}` printed")
        if headers.get("origin") not in {None, *(f"http://{host}" for host in hosts)}:
            return self._refused("another site asked; only its own page may")
        # Of all cookies of that name: any server of this host can set more.
        pairs = (each.strip().partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
        brought, path = [value for name, _, value in pairs if name == self._cookie], scope["path"]
        known = path.startswith(self.path) and any(_same(each, self._token) for each in brought)
        signature, _, file = path[1:].partition("/")
        if file.startswith(_FILES) and _same(signature, self._signature(file)):
            return None if scope["method"] in ("GET", "HEAD") else self._refused("files can only be read", 405)
        tickets = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("ticket")
        if tickets and path == self.path and scope["method"] == "GET":
            return self._exchange(tickets[0], known=known)
        refusal, file = _refusal_of_request(scope["method"], headers), path.removeprefix(self.path)
        if not known:
            refusal = f"open the link that `{self._command}` printed; {self._another}", 403
        if refusal is None and file.startswith(_FILES):  # of a run: it is shown at an address of its own
            return RedirectResponse(f"/{self._signature(file)}/{quote(file)}", status_code=303)
        return self._refused(*refusal) if refusal else None

    def _refused(self, why: str, status: int = 403) -> Response:
        """Return a refusal, after which the connection is closed: it is none of a page of ours."""
        return PlainTextResponse(f"{self._command}: {why}\n", status_code=status, headers={"connection": "close"})

    def _signature(self, file: str) -> str:
        return hmac.new(self._signing, file.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _exchange(self, ticket: str, *, known: bool) -> Response:
        """Exchange the ticket of a link for the cookie, once."""
        if self._ticket is None or not _same(ticket, self._ticket):
            if known:
                return RedirectResponse(self.path, status_code=303)
            return self._refused(f"this link works no more: it was used, or another took its place; {self._another}")
        self._ticket = None
        self._on_use()
        answer = HTMLResponse(_ENTRANCE)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path=self.path)
        return answer


def _same(given: str, own: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), own.encode())


def _refusal_of_request(method: str, headers: Headers) -> tuple[str, int] | None:
    """Return why what no page of ours sends is refused, and the status."""
    if "upgrade" in headers:
        return "there are no WebSockets here", 400
    if method in ("GET", "HEAD"):
        return None
    if method != "POST":
        return "only GET and POST are answered", 405
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return "what changes things must be sent as application/json", 415
    length = headers.get("content-length", "")
    if not length.isdecimal() or len(length) > len(str(LARGEST_BODY_BYTES)) or int(length) > LARGEST_BODY_BYTES:
        return "the request is larger than 1 MB, or does not say how large it is", 413
    return None


def _with_headers(send: Send) -> Send:
    """Return a ``send`` that adds the headers that bind the browser, where an answer has none of its own."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
