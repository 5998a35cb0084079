"""Who may ask: a browser on this machine that was given the token, through the address of this server alone."""

import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY_BYTES: Final = 1_100_000  # a scenario file has 1 MB at most
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


@dataclass(frozen=True, eq=False)
class Guard:
    """Lets requests through to ``app`` that name this server and bring the token.

    The token comes in the address once; from then on it is a cookie that no script can read and no other site can send.
    The Host header is checked, since another site's name may be made to point to this machine (DNS rebinding).
    """

    app: ASGIApp
    token: str
    port: int

    @property
    def cookie(self) -> str:
        """Name of the cookie; with the port, since all ports of a host share their cookies."""
        return f"airmix-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """Return what to answer instead, or None where the request may pass."""
        headers = Headers(scope=scope)
        hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        if headers.get("host", "") not in hosts:
            return _refused("this address is not the explorer's: use the one that `airmix explore` printed")
        if headers.get("origin") not in {None, *(f"http://{host}" for host in hosts)}:
            return _refused("another site asked; only the explorer's own page may")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if given and scope["path"] == "/" and secrets.compare_digest(given[0].encode(), self.token.encode()):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._has_token(headers.get("cookie", "")):
            return _refused("no valid token: open the address that `airmix explore` printed, with its token")
        return _refusal_of_method(scope["method"], headers)

    def _has_token(self, header: str) -> bool:
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self.token.encode())


def _refusal_of_method(method: str, headers: Headers) -> Response | None:
    """Refuse what no page of ours sends."""
    if method in ("GET", "HEAD"):
        return None
    if method != "POST":
        return _refused("only GET and POST are answered", 405)
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return _refused("what changes things must be sent as application/json", 415)
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_BODY_BYTES:
        return _refused("the request is larger than 1 MB, or does not say how large it is", 413)
    return None


def _refused(why: str, status: int = 403) -> Response:
    return PlainTextResponse(f"airmix explore: {why}\n", status_code=status)


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
